"""What NVML's return codes mean for a value, a GPU and the driver."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from cpugpu_tui.machine.text import printable

NAME = "libnvidia-ml.so.1"
_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/lib64", "/lib",
    "/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib",
)  # fmt: skip


def unloadable() -> tuple[Path, str] | None:
    """Return NVML's library file and why it cannot be loaded; None without such a file."""
    named = filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))
    for folder in (*named, *_FOLDERS):
        file = Path(folder, NAME)
        if file.exists():
            try:
                ctypes.CDLL(str(file))
            except OSError as error:
                return file, str(error).removeprefix(f"{file}: ")
    return None


INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 2, 3, 4, 6
LIBRARY_MISSING, FUNCTION_MISSING, LOST, RESET_REQUIRED = 12, 13, 15, 16
BROKEN = -1
"""Our own code: the library cannot be loaded, crashes, or raises something other than an NVML error."""

GONE = (LOST, RESET_REQUIRED)
"""Codes that concern the whole GPU, whatever the call."""

NO_NUMBERS = (0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF)
"""NVML_VALUE_NOT_AVAILABLE in 32 and 64 bits, which drivers return with the code for success. No clock, power or size
is that large; a counter that reaches it is unknown for one sample."""

_REASONS = {
    1: "no-driver",  # uninitialised: the driver was unloaded
    NOT_SUPPORTED: "not-supported",
    NO_PERMISSION: "no-permission",
    9: "no-driver",
    10: "timeout",
    FUNCTION_MISSING: "function-missing",
    LOST: "gpu-lost",
    RESET_REQUIRED: "gpu-lost",
    18: "no-driver",
    25: "function-missing",  # the driver does not know this version of the structure
}

_GPU_PROBLEMS = {
    INVALID_ARGUMENT: ("gpu-lost", "The driver no longer lists this GPU. Look for Xid errors in dmesg, or reboot."),
    NO_PERMISSION: (
        "no-permission",
        "No permission to read this GPU. Ask for access to its device file, {device}.",
    ),
    LOST: (
        "gpu-lost",
        "This GPU is lost: the driver cannot reach it. Look for Xid errors in dmesg; a reboot may help.",
    ),
    RESET_REQUIRED: (
        "gpu-lost",
        "This GPU needs a reset. Stop its processes and run `nvidia-smi -r -i {index}` as root.",
    ),
}
_GPU_PROBLEM = ("unknown", "This GPU cannot be read ({error}). Run nvidia-smi to see its state.")

_DRIVER_PROBLEMS = {
    NO_PERMISSION: "No permission to use the NVIDIA driver. Ask for access to /dev/nvidiactl and /dev/nvidia*.",
    9: "The NVIDIA driver is installed but not loaded. Load it with `modprobe nvidia` as root, or reboot.",
    LIBRARY_MISSING: "No NVIDIA driver found (libnvidia-ml.so.1 is missing). Install the driver, or ignore this on a"
    " machine without a GPU.",
    18: "The NVIDIA driver was updated, but its old version is still loaded. Reboot, or reload its kernel modules.",
}
_DRIVER_PROBLEM = "The NVIDIA driver does not work ({error}). Run nvidia-smi and look for NVRM lines in dmesg."
_INSTALL = "Reinstall the NVIDIA driver; in a container, restart the container with access to the GPU."
NO_GPU = "The NVIDIA driver finds no GPU. Check with `nvidia-smi -L` that the container or job has one."
NO_PYNVML = (
    "GPUs cannot be monitored without the Python package nvidia-ml-py. Install it with `pip install nvidia-ml-py`."
)


def reason_of(code: int) -> str:
    """Return the reason for a missing value, a key of `telemetry.reasons.REASONS`."""
    return _REASONS.get(code, "unknown")


def reason_of_field(code: int) -> str:
    """Return the reason for a missing field value; old drivers report unknown fields as invalid arguments."""
    return "function-missing" if code == INVALID_ARGUMENT else reason_of(code)


def code_of(error: Exception) -> int | None:
    """Return NVML's return code, or None for another exception."""
    code = getattr(error, "value", None)
    return code if isinstance(code, int) else None


def opening_code(error: Exception) -> int:
    """Return the code of a failure to open a session, or `BROKEN` if it has none."""
    code = code_of(error)
    return BROKEN if code is None or (code == LIBRARY_MISSING and unloadable()) else code


def _words(error: Exception) -> str:
    """Return the driver's text for an error, or the exception, without a final dot."""
    code = code_of(error)
    try:
        text = str(error)  # calls the driver's library
    except Exception:  # noqa: BLE001 - the library may lack the function or return invalid UTF-8
        text = f"code {code}"
    return printable(f"{type(error).__name__ if code is None else 'NVML'}: {text}".rstrip(". "))


def gpu_problem(error: Exception, index: int, minor: int | None = None) -> tuple[str, str]:
    """Return the reason for all values of a GPU, and a sentence of cause and one of remedy.

    `index` is NVML's; device files use `minor`, which is unknown for a GPU that was never opened.
    """
    code = code_of(error)
    reason, sentence = _GPU_PROBLEM if code is None else _GPU_PROBLEMS.get(code, _GPU_PROBLEM)
    device = "one of /dev/nvidia*" if minor is None else f"/dev/nvidia{minor}"
    return reason, sentence.format(index=index, error=_words(error), device=device)


def driver_problem(error: Exception) -> str:
    """Return a sentence of cause and one of remedy for a driver that opens no session."""
    code = code_of(error)
    if code == LIBRARY_MISSING and (found := unloadable()):
        return f"The NVIDIA driver's library {found[0]} cannot be loaded ({printable(found[1])}). {_INSTALL}"
    sentence = _DRIVER_PROBLEM if code is None else _DRIVER_PROBLEMS.get(code, _DRIVER_PROBLEM)
    return sentence.format(error=_words(error))


def crash_problem(signal_name: str) -> str:
    """Return a sentence of cause and one of remedy for a driver whose library crashes."""
    return f"The NVIDIA driver's library crashed ({signal_name}). {_INSTALL}"


def count_problem(count: int) -> str:
    """Return a sentence of cause and one of remedy for a driver that reports too many GPUs."""
    return f"The NVIDIA driver reports {count:,} GPUs, which is impossible. {_INSTALL}"
