"""The real machine: torch's CPU and GPUs, host inputs, the comparison of results, and torch's errors in words."""

from __future__ import annotations

import math
import re
from typing import Any

import cpugpu_tui.workloads as catalogue
from cpugpu_tui.bench.timers import CaseError, Timer
from cpugpu_tui.bench.timers.cpu import CpuTimer
from cpugpu_tui.bench.timers.cuda import CudaTimer, out_of_memory, require_memory
from cpugpu_tui.errors import UnfitError
from cpugpu_tui.model import ITEMSIZE_BYTES, Case, Check, Device, Plan
from cpugpu_tui.telemetry import procfs

EXACT_FLOPS = 4e10
"""A float64 reference is affordable up to this many FLOPs: about a second on two cores."""


class TorchMachine:
    """Devices of this process as torch sees them. Needs torch; creates a CUDA context only for a GPU that is used."""

    def __init__(self, plan: Plan, environment: dict[str, Any]) -> None:
        """Find the devices that the plan names.

        Raises:
            UnfitError: a GPU was asked for by name and cannot be used.
        """
        self._cold = plan.cache == "cold"
        self._seed = plan.seed
        self._timers: dict[str, Timer] = {}
        self._default_threads = int(environment["threads"])
        self._flush_bytes = 2 * (procfs.last_level_cache_bytes() or (32 << 20))
        names, self.no_gpu = resolve(plan.devices)
        self.devices: tuple[Device, ...] = tuple(describe(name, environment) for name in names)

    def timer(self, device: str) -> Timer:
        """Return the timer of a device, made on first use."""
        if device not in self._timers:
            found = next(d for d in self.devices if d.name == device)
            if found.is_cpu:
                self._timers[device] = CpuTimer(found, self._flush_bytes, self._default_threads, cold=self._cold)
            else:
                timer = CudaTimer(found, cold=self._cold)
                timer.calibrate_spin()
                self._timers[device] = timer
        return self._timers[device]

    def make_inputs(self, case: Case) -> tuple[Any, ...]:
        """Draw the inputs on the host after making sure that they fit, there and on every GPU."""
        import torch

        workload = catalogue.find(case.workload)
        need_bytes = workload.memory_bytes(case.size, ITEMSIZE_BYTES[case.dtype])
        free_bytes = procfs.available_memory_bytes()
        if free_bytes is not None and need_bytes > free_bytes:
            raise out_of_memory("the host", need_bytes, free_bytes)
        for device in self.devices:
            if not device.is_cpu:
                self.timer(device.name)
                require_memory(device, need_bytes)
        generator = torch.Generator().manual_seed(self._seed)
        return workload.inputs(case.size, getattr(torch, case.dtype), generator)

    def check(self, case: Case, inputs: tuple[Any, ...], results: dict[str, Any], *, exact: bool) -> Check | None:
        """Compare the results with a float64 reference, or with the first device's where that costs too much.

        Raises:
            CaseError: `mismatch`, also for NaN.
        """
        workload = catalogue.find(case.workload)
        exact = exact and workload.flops(case.size) <= EXACT_FLOPS
        doubles = tuple(tensor.double() for tensor in inputs) if exact else inputs
        if exact:
            against, reference = "float64 on the CPU", workload.variant(case.variant)(*doubles)
        elif len(results) > 1:
            against, reference = next(iter(results.items()))
        else:
            return None
        reference = reference.cpu().double()
        scale = workload.scale(reference, *(tensor.double() for tensor in doubles))
        error = max(relative_error(result, reference, scale) for result in results.values())
        tolerance = workload.tolerance(case.dtype)
        if error > tolerance:
            raise CaseError(
                "mismatch",
                f"The results differ by {error:.3g} of their scale against {against} (allowed: {tolerance:g}).",
                "Do not trust a time of this case; report the mismatch.",
            )
        return Check(against, error, tolerance)

    def cost_hint(self, case: Case) -> float:
        """Return the case's FLOPs."""
        return catalogue.find(case.workload).flops(case.size)

    def explain(self, error: Exception, case: Case) -> CaseError:
        """Return the failure row for what torch or a workload raised."""
        text = first_line(error)
        if isinstance(error, MemoryError) or "out of memory" in text or "can't allocate memory" in text:
            workload = catalogue.find(case.workload)
            need_bytes = workload.memory_bytes(case.size, ITEMSIZE_BYTES[case.dtype])
            return out_of_memory("the device", need_bytes, procfs.available_memory_bytes() or 0)
        if "CUDA error" in text or type(error).__name__ == "AcceleratorError":
            return CaseError("error", f"The GPU reported: {text}", "The rest goes on in a fresh agent.", fatal=True)
        if isinstance(error, NotImplementedError) or re.search(r"not (implemented|supported)", text):
            return CaseError("unsupported", f"{case.dtype} is not supported here: {text}", "Choose another dtype.")
        return CaseError("error", f"{type(error).__name__}: {text}", "Mend the workload, or leave this case out.")


def first_line(error: Exception) -> str:
    """Return the first line of an exception's text, at most 200 characters."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def relative_error(result: Any, reference: Any, scale: float) -> float:
    """Return ‖result − reference‖ / scale as a float; 0/0 counts as 0, what is no number as infinite."""
    difference = float((result.cpu().double().reshape(reference.shape) - reference).norm())
    if difference == 0.0:
        return 0.0
    # Not NaN: max() over the devices' errors would lose it behind another device's small one.
    return difference / scale if scale and math.isfinite(difference) else math.inf


def resolve(wanted: tuple[str, ...]) -> tuple[tuple[str, ...], str | None]:
    """Return torch's names for the wanted devices, CPU first, and why `auto` found no GPU.

    Raises:
        UnfitError: a GPU named by the person cannot be used.
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
        elif device.startswith("cuda"):
            names[_named_gpu(device)] = None
    return tuple(sorted(names, key=lambda name: name != "cpu")), no_gpu


def _named_gpu(device: str) -> str:
    problem = why_no_gpu()
    if problem is not None:
        raise UnfitError(f"{device} cannot be used. {problem}")
    name = f"cuda:{int(device.partition(':')[2] or 0)}"
    if name not in gpu_names():
        raise UnfitError(f"There is no {device} on this machine.", f"Its GPUs are: {', '.join(gpu_names())}.")
    return name


def gpu_names() -> list[str]:
    """Return torch's names of the GPUs that it can use."""
    import torch

    return [f"cuda:{index}" for index in range(torch.cuda.device_count())]


def why_no_gpu() -> str | None:
    """Return one sentence of cause and one of remedy if no GPU can be used, else None."""
    import os
    import warnings

    import torch

    if torch.version.cuda is None and torch.version.hip is None:
        return f"This torch ({torch.__version__}) is a CPU-only build. Install a CUDA build to time a GPU."
    if torch.version.hip:
        return "This torch is a ROCm build, which cpugpu-tui does not claim to time. CPU results only."
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and not visible.strip():
        return "CUDA_VISIBLE_DEVICES is empty, which hides every GPU. Unset it to time a GPU."
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        available = torch.cuda.is_available()
    if available:
        return None
    text = " ".join(first_line(w.message) for w in caught if isinstance(w.message, Exception))
    if "too old" in text:
        return (
            f"The NVIDIA driver is too old for this torch (built for CUDA {torch.version.cuda}). "
            "Update the driver, or install a torch built for an older CUDA."
        )
    if visible is not None:
        return f"CUDA_VISIBLE_DEVICES={visible} names no GPU that CUDA can use. Unset it, or name one that exists."
    return "CUDA finds no usable GPU (no NVIDIA driver, or no GPU). CPU results only; `nvidia-smi` tells more."


def describe(name: str, environment: dict[str, Any]) -> Device:
    """Return the facts of a device."""
    if name == "cpu":
        return Device(name, str(environment.get("cpu") or "CPU"), memory_bytes=procfs.memory_total_bytes())
    import torch

    properties = torch.cuda.get_device_properties(name)
    uuid = getattr(properties, "uuid", None)
    text = None if uuid is None else str(uuid)
    if text is not None and not text.startswith(("GPU-", "MIG-")):
        text = f"GPU-{text}"
    return Device(name, properties.name, text, properties.total_memory)
