"""NVML calls for one value each, `(pynvml, handle) -> number`, and the decoding of errors and bit masks.

Each value has its own call, so that an unsupported value does not affect the others.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from cpugpu_tui.machine.procfs import file_text
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import Reading
from cpugpu_tui.model.throttling import THROTTLE_REASONS

Call = Callable[[Any, Any], Any]
"""Takes pynvml and a GPU's handle; raises NVMLError."""


def newest(nvml: Any, names: tuple[str, ...], *arguments: Any) -> Any:
    """Call the first of `names` that both pynvml and the driver have, because NVIDIA renames functions."""
    for name in names:
        with suppress(nvml.NVMLError_FunctionNotFound):
            if hasattr(nvml, name):
                return getattr(nvml, name)(*arguments)
    raise nvml.NVMLError(FUNCTION_MISSING)


def ask(nvml: Any, handle: Any, call: Call) -> Any:
    """Return the result of a call, or a Reading with a reason; raise NVMLError if the GPU is lost."""
    try:
        return call(nvml, handle)
    except nvml.NVMLError as error:
        if error.value in GONE:
            raise
        return Reading(None, reason_of(error.value))
    except Exception:  # noqa: BLE001 - ctypes, invalid UTF-8, no memory: only this value is lost
        return Reading(None, "call-failed")


def reading(result: Any, attribute: str | None = None) -> Reading:
    """Return a result of `ask`, or one of its attributes, as a Reading; NVML's "no value" numbers become a reason."""
    if isinstance(result, Reading):
        return result
    number = result if attribute is None else getattr(result, attribute)
    try:
        return Reading(None, "no-value") if number in NO_NUMBERS else Reading(float(number))
    except (TypeError, ValueError, OverflowError):
        return Reading(None, "no-value")


def text(nvml: Any, handle: Any, call: Call) -> str | None:
    """Return a name from the driver, sanitised; None if it has none or it is not UTF-8."""
    found = ask(nvml, handle, call)
    return None if isinstance(found, Reading) else printable(str(found)) or None


def _memory(nvml: Any, handle: Any) -> Any:
    """Return total, used and, in version 2, reserved bytes; version 1 counts the reserve as used."""
    with suppress(nvml.NVMLError):
        return nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    return nvml.nvmlDeviceGetMemoryInfo(handle)


def memory_readings(nvml: Any, handle: Any) -> dict[str, Reading]:
    """Return used, reserved and total bytes of a GPU or of a MIG instance.

    With the reason `in-used`, an old driver counts the reserve as used: 0.6 GB more on an H200.
    """
    memory = ask(nvml, handle, _memory)
    known = isinstance(memory, Reading) or hasattr(memory, "reserved")
    return {
        "memory_used_bytes": reading(memory, "used"),
        "memory_reserved_bytes": reading(memory, "reserved") if known else Reading(None, "in-used"),
        "memory_total_bytes": reading(memory, "total"),
    }


def utilisation_readings(nvml: Any, handle: Any) -> dict[str, Reading]:
    """Return the shares of the last sample period (at most 1 s) with a kernel and with a memory access."""
    rates = ask(nvml, handle, lambda nvml, handle: nvml.nvmlDeviceGetUtilizationRates(handle))
    return {"kernel_active_pct": reading(rates, "gpu"), "memory_active_pct": reading(rates, "memory")}


def power_usage_mw(nvml: Any, handle: Any) -> int:
    """Return the power from drivers without field 186: from Ampere (except GA100), an average over 1 s."""
    return int(nvml.nvmlDeviceGetPowerUsage(handle))


def _temperature_c(nvml: Any, handle: Any) -> int:
    """Return the GPU's temperature; CUDA 14 removes the older name."""
    names = ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature")
    return int(newest(nvml, names, handle, nvml.NVML_TEMPERATURE_GPU))


def _performance_state(nvml: Any, handle: Any) -> int:
    """Return 0 (fastest) to 15; NVML reports 32 for unknown."""
    names = ("nvmlDeviceGetPerformanceState", "nvmlDeviceGetPowerState")
    state = int(newest(nvml, names, handle))
    if not 0 <= state <= 15:
        raise nvml.NVMLError(nvml.NVML_ERROR_UNKNOWN)
    return state


def _ecc_count(kind: str) -> Call:
    """Return the call for errors since the driver was loaded; `kind` is CORRECTED or UNCORRECTED."""
    return lambda nvml, handle: nvml.nvmlDeviceGetTotalEccErrors(
        handle, getattr(nvml, f"NVML_MEMORY_ERROR_TYPE_{kind}"), nvml.NVML_VOLATILE_ECC
    )


FAST: dict[str, Call] = {
    "sm_clock_mhz": lambda nvml, handle: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
    "memory_clock_mhz": lambda nvml, handle: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
    "temperature_c": _temperature_c,
}
"""Read at every sample: below 0.01 ms each on an H200."""

SLOW: dict[str, Call] = {
    "power_limit_mw": lambda nvml, handle: nvml.nvmlDeviceGetEnforcedPowerLimit(handle),
    "slowdown_temperature_c": lambda nvml, handle: nvml.nvmlDeviceGetTemperatureThreshold(
        handle, nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
    ),
    "temperature_margin_c": lambda nvml, handle: newest(nvml, ("nvmlDeviceGetMarginTemperature",), handle),
    "fan_pct": lambda nvml, handle: nvml.nvmlDeviceGetFanSpeed(handle),
    "performance_state": _performance_state,
    "pcie_generation": lambda nvml, handle: nvml.nvmlDeviceGetCurrPcieLinkGeneration(handle),
    "pcie_width": lambda nvml, handle: nvml.nvmlDeviceGetCurrPcieLinkWidth(handle),
    "pcie_max_generation": lambda nvml, handle: nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle),
    "pcie_max_width": lambda nvml, handle: nvml.nvmlDeviceGetMaxPcieLinkWidth(handle),
}
"""Read every 5 s: they rarely change, and the fan takes 0.14 ms on a laptop GPU."""

COSTLY: dict[str, Call] = {
    "ecc_corrected_count": _ecc_count("CORRECTED"),
    "ecc_uncorrected_count": _ecc_count("UNCORRECTED"),
}
"""Read every 5 s, but not during a run, because their cost was not measured."""

ONCE: dict[str, Call] = {
    "sm_clock_max_mhz": lambda nvml, handle: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM),
    "memory_clock_max_mhz": lambda nvml, handle: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM),
}
"""Read once: 1.6 ms each on an H200, and they do not change."""


ALL_BITS = 0xFFFF_FFFF_FFFF_FFFF
"""NVML_VALUE_NOT_AVAILABLE instead of a mask."""


def throttle_bits(nvml: Any, handle: Any) -> int:
    """Return the clock event reasons, with the older name for drivers before 535; raise NVMLError."""
    names = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
    return int(newest(nvml, names, handle))


def mask_reading(bits: Any) -> Reading:
    """Return the mask from `ask` as a Reading; it stays an integer, because a float holds 53 of its 64 bits."""
    if isinstance(bits, Reading):
        return bits
    return Reading(None, "no-value") if bits == ALL_BITS else Reading(int(bits))


def throttle_words(bits: float | None) -> tuple[str, ...]:
    """Return the words for a mask of throttle reasons, or nothing for an unknown mask.

    Bits of newer drivers without a word become `unknown 0x400`.
    """
    if bits is None:
        return ()
    by_bit = sorted((reason.bit, word) for word, reason in THROTTLE_REASONS.items())
    words = [word for bit, word in by_bit if int(bits) & bit]
    rest = int(bits) & ~sum(bit for bit, _ in by_bit)
    return (*words, f"unknown 0x{rest:x}") if rest else tuple(words)


# ------------------------------------------------------------------ returns


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
    NO_PERMISSION: ("no-permission", "No permission to read this GPU. Ask for access to its device file, {device}."),
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


_NVIDIA = "0x10de"
"""NVIDIA's PCI vendor id."""


def has_nvidia_gpu(root: str = "/") -> bool | None:
    """Return whether the PCI bus has an NVIDIA display or 3D controller; None if the kernel lists no PCI devices."""
    devices = [f"{each}" for each in Path(root, "sys/bus/pci/devices").glob("*")]
    return None if not devices else any(
        (file_text(root, f"{device}/vendor") or "").strip() == _NVIDIA
        and (file_text(root, f"{device}/class") or "").startswith("0x03")
        for device in devices
    )  # fmt: skip


def reason_of(code: int) -> str:
    """Return the reason for a missing value, a key of `machine.text.REASONS`."""
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


def gpu_problem(error: Exception, index: int, minor: int | None) -> tuple[str, str]:
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
