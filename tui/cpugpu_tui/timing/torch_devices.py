"""Find the devices that torch can use, and explain why it cannot use a GPU."""

from __future__ import annotations

import os
import warnings
from typing import Any

from cpugpu_tui.errors import UnfitError
from cpugpu_tui.machine import procfs
from cpugpu_tui.machine.nvml.calls import has_nvidia_gpu
from cpugpu_tui.model import Device, place


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's text, at most 200 characters."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def sentence(text: str) -> str:
    """Return a library's message with a full stop, because a remedy follows."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


def resolve(wanted: tuple[str, ...]) -> tuple[tuple[str, ...], str | None]:
    """Return torch's names of the requested devices, CPU first, and why `auto` found no GPU.

    Raises:
        UnfitError: a requested GPU cannot be used.
    """
    names: dict[str, None] = {}
    no_gpu: str | None = None
    for device in wanted:
        if device in ("auto", "all", "cpu"):
            names["cpu"] = None
        if device in ("auto", "all"):
            no_gpu = why_no_gpu()
            if no_gpu is None:
                names |= dict.fromkeys(gpu_names() if device == "all" else ["cuda:0"])
        elif device == "cuda":
            _require_gpu(device)
            names |= dict.fromkeys(gpu_names())
        elif device.startswith("cuda"):
            names[_named_gpu(device)] = None
    return tuple(sorted(names, key=place)), no_gpu


def _require_gpu(device: str) -> None:
    problem = gpu_problem()
    if problem is not None:
        cause, remedy = problem
        raise UnfitError(f"{device} cannot be used: {cause}", remedy)


def _named_gpu(device: str) -> str:
    _require_gpu(device)
    name = f"cuda:{int(device.partition(':')[2])}"
    if name not in gpu_names():
        raise UnfitError(f"{device} does not exist on this machine.", f"Choose one of: {', '.join(gpu_names())}.")
    return name


def gpu_names() -> list[str]:
    """Return torch's names of the GPUs that it can use."""
    import torch

    return [f"cuda:{index}" for index in range(torch.cuda.device_count())]


def why_no_gpu() -> str | None:
    """Return cause and remedy as a text of two sentences if no GPU can be used; otherwise None."""
    problem = gpu_problem()
    return None if problem is None else " ".join((problem[0][0].upper() + problem[0][1:], problem[1]))


def gpu_problem() -> tuple[str, str] | None:
    """Return cause, which goes on after a colon, and remedy if no GPU can be used; otherwise None."""
    import torch

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if torch.version.cuda is not None and torch.cuda.is_available():
            return None
    if has_nvidia_gpu() is False:
        remedy = "Use a machine that has one (see `cpugpu-tui fleet --help`), or play `cpugpu-tui demo`."
        return "this machine has no NVIDIA GPU.", remedy
    if torch.version.cuda is None and torch.version.hip is None:
        return f"this torch ({torch.__version__}) is a CPU-only build.", "Install a CUDA build to time a GPU."
    if torch.version.hip:
        cause = "this torch is a ROCm build, but cpugpu-tui times only NVIDIA GPUs."
        return cause, "Install a CUDA build to time one."
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and not visible.strip():
        return "CUDA_VISIBLE_DEVICES is empty, which hides every GPU.", "Unset it to time a GPU."
    text = " ".join(first_line(w.message) for w in caught if isinstance(w.message, Exception))
    if "too old" in text:
        return (
            f"the NVIDIA driver is too old for this torch (built for CUDA {torch.version.cuda}).",
            "Update the driver, or install a torch built for an older CUDA.",
        )
    if visible is not None:
        cause = f"CUDA_VISIBLE_DEVICES={visible} selects no usable GPU."
        return cause, "Unset it, or set it to an existing GPU."
    return "CUDA finds no usable GPU (no NVIDIA driver, or no GPU).", "Run `nvidia-smi` to find the cause."


def describe(name: str, environment: dict[str, Any]) -> Device:
    """Return the description of a device."""
    if name == "cpu":
        return Device(name, str(environment.get("cpu") or "CPU"), memory_bytes=procfs.memory_total_bytes())
    import torch

    properties = torch.cuda.get_device_properties(name)
    uuid = getattr(properties, "uuid", None)
    text = None if uuid is None else str(uuid)
    if text is not None and not text.startswith(("GPU-", "MIG-")):
        text = f"GPU-{text}"
    return Device(name, properties.name, text, properties.total_memory)


def tensors_in(placed: Any) -> tuple[str, ...]:
    """Return one line per tensor in a step's arguments or result, and one for all parameters of a model."""
    import torch

    if isinstance(placed, torch.Tensor):
        pinned = ", pinned" if placed.device.type == "cpu" and placed.is_pinned() else ""
        return (f"{list(placed.shape)} {str(placed.dtype).removeprefix('torch.')} on {placed.device}{pinned}",)
    if isinstance(placed, dict):
        placed = tuple(placed.values())
    if isinstance(placed, (tuple, list)):
        return tuple(line for each in placed for line in tensors_in(each))
    parameters = getattr(placed, "parameters", ())
    tensors = list(parameters() if callable(parameters) else parameters)
    if not tensors:
        return ()
    count = sum(tensor.numel() for tensor in tensors)
    devices = ", ".join(dict.fromkeys(str(tensor.device) for tensor in tensors))
    return (f"{len(tensors)} parameters, {count:,} numbers, on {devices}",)


def synchronizer(device: str) -> Any:
    """Return a function that synchronises with a GPU; None for the CPU."""
    if device == "cpu":
        return None
    import torch

    return lambda: torch.cuda.synchronize(device)
