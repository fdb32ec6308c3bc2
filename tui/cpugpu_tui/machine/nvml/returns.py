"""What NVML's return codes mean for one value, for one GPU, and for the driver as a whole."""

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
    """Return the library's file and why the system does not load it; None where there is no such file."""
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
"""Our own code, for a library that cannot be loaded, that raises what is no error of NVML's, or that crashes."""

GONE = (LOST, RESET_REQUIRED)
"""Codes that are about the whole GPU, whatever was asked."""

NO_NUMBERS = (0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF)
"""NVML_VALUE_NOT_AVAILABLE in 32 and in 64 bits: what a driver fills in, with the code for success, where it has no
number. No clock, power or size is that large; a counter that stands at it is unknown for one sample."""

_REASONS = {
    1: "no-driver",  # uninitialised: the driver went away under us
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
        "This GPU is lost: the driver no longer reaches it. Look for Xid errors in dmesg; a reboot may bring it back.",
    ),
    RESET_REQUIRED: (
        "gpu-lost",
        "This GPU needs a reset. Stop what runs on it and let an administrator run `nvidia-smi -r -i {index}`.",
    ),
}
_GPU_PROBLEM = ("unknown", "This GPU cannot be read ({error}). Run nvidia-smi to see what the driver says of it.")

_DRIVER_PROBLEMS = {
    NO_PERMISSION: "No permission to use the NVIDIA driver. Ask for access to /dev/nvidiactl and /dev/nvidia*.",
    9: "The NVIDIA driver is installed but not loaded. Load it with `modprobe nvidia` as root, or reboot.",
    LIBRARY_MISSING: "No NVIDIA driver found (libnvidia-ml.so.1 is missing). CPU results only; install the driver, or"
    " ignore this on a machine without a GPU.",
    18: "The NVIDIA driver was updated, but its old version is still loaded. Reboot, or reload its kernel modules.",
}
_DRIVER_PROBLEM = "The NVIDIA driver does not work ({error}). Run nvidia-smi and look for NVRM lines in dmesg."
_INSTALL = "Install the NVIDIA driver again; in a container, restart it with access to the GPU."
NO_GPU = "The NVIDIA driver runs but sees no GPU. Check that the container or job was given one (nvidia-smi -L)."
NO_PYNVML = (
    "GPUs cannot be watched without the Python package nvidia-ml-py. Install it with `pip install nvidia-ml-py`."
)


def reason_of(code: int) -> str:
    """Return why one value is missing, a key of `telemetry.reasons.REASONS`."""
    return _REASONS.get(code, "unknown")


def reason_of_field(code: int) -> str:
    """Return the same for a field value: a driver older than a field calls its number an invalid argument."""
    return "function-missing" if code == INVALID_ARGUMENT else reason_of(code)


def code_of(error: Exception) -> int | None:
    """Return NVML's return code, None for an exception that is not NVML's."""
    code = getattr(error, "value", None)
    return code if isinstance(code, int) else None


def opening_code(error: Exception) -> int:
    """Return the code of a failure to open a session, `BROKEN` for what has none."""
    code = code_of(error)
    return BROKEN if code is None or (code == LIBRARY_MISSING and unloadable()) else code


def _words(error: Exception) -> str:
    """Return what the driver calls its error, or which exception it was, without a dot at its end."""
    code = code_of(error)
    try:
        text = str(error)  # asks the driver's library for its words
    except Exception:  # noqa: BLE001 - which may lack the function, or give no UTF-8
        text = f"code {code}"
    return printable(f"{type(error).__name__ if code is None else 'NVML'}: {text}".rstrip(". "))


def gpu_problem(error: Exception, index: int, minor: int | None = None) -> tuple[str, str]:
    """Return why all values of a GPU are missing, and a sentence of cause and one of remedy for a person.

    `index` is NVML's; device files count by `minor`, which a GPU that was never opened does not tell.
    """
    code = code_of(error)
    reason, sentence = _GPU_PROBLEM if code is None else _GPU_PROBLEMS.get(code, _GPU_PROBLEM)
    device = "one of /dev/nvidia*" if minor is None else f"/dev/nvidia{minor}"
    return reason, sentence.format(index=index, error=_words(error), device=device)


def driver_problem(error: Exception) -> str:
    """Return a sentence of cause and one of remedy for a driver that gives no session."""
    code = code_of(error)
    if code == LIBRARY_MISSING and (found := unloadable()):
        return f"The NVIDIA driver's library {found[0]} cannot be loaded ({printable(found[1])}). {_INSTALL}"
    sentence = _DRIVER_PROBLEM if code is None else _DRIVER_PROBLEMS.get(code, _DRIVER_PROBLEM)
    return sentence.format(error=_words(error))


def crash_problem(signal_name: str) -> str:
    """Return a sentence of cause and one of remedy for a driver whose library ends the process that asks it."""
    return f"The NVIDIA driver's library crashed when it was asked ({signal_name}). {_INSTALL}"


def count_problem(count: int) -> str:
    """Return a sentence of cause and one of remedy for a driver that counts more GPUs than there can be."""
    return f"The NVIDIA driver counts {count:,} GPUs, and no machine has so many. {_INSTALL}"
