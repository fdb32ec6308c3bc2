"""NVML calls for one value each: `(pynvml, handle) -> number`, and what is made of a refusal or a mask of bits.

Each value is asked on its own, so that one unsupported value hides nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from cpugpu_tui.machine.nvml.returns import FUNCTION_MISSING, GONE, NO_NUMBERS, reason_of
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import Reading

Call = Callable[[Any, Any], Any]
"""Takes pynvml and a GPU's handle; raises NVMLError."""


def newest(nvml: Any, names: tuple[str, ...], *arguments: Any) -> Any:
    """Call the first of `names` that both pynvml and the driver have: NVIDIA renames, drivers lag behind."""
    for name in names:
        with suppress(nvml.NVMLError_FunctionNotFound):
            if hasattr(nvml, name):
                return getattr(nvml, name)(*arguments)
    raise nvml.NVMLError(FUNCTION_MISSING)


def ask(nvml: Any, handle: Any, call: Call) -> Any:
    """Return what a call returns, or a Reading with the reason why not; raise NVMLError when the GPU is lost."""
    try:
        return call(nvml, handle)
    except nvml.NVMLError as error:
        if error.value in GONE:
            raise
        return Reading(None, reason_of(error.value))
    except Exception:  # noqa: BLE001 - ctypes, a name that is not UTF-8, no memory: it costs this one value
        return Reading(None, "call-failed")


def reading(result: Any, attribute: str | None = None) -> Reading:
    """Return a result of `ask` (or one attribute of it) as a Reading; what stands for no number is none."""
    if isinstance(result, Reading):
        return result
    number = result if attribute is None else getattr(result, attribute)
    try:
        return Reading(None, "no-value") if number in NO_NUMBERS else Reading(float(number))
    except (TypeError, ValueError, OverflowError):
        return Reading(None, "no-value")


def text(nvml: Any, handle: Any, call: Call) -> str | None:
    """Return a name that the driver gives, sanitised; None if it gives none or it is not UTF-8."""
    found = ask(nvml, handle, call)
    return None if isinstance(found, Reading) else printable(str(found)) or None


def _memory(nvml: Any, handle: Any) -> Any:
    """Return total, used and, in version 2, reserved bytes: version 1 counts the driver's own reserve as used."""
    with suppress(nvml.NVMLError):
        return nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    return nvml.nvmlDeviceGetMemoryInfo(handle)


def memory_readings(nvml: Any, handle: Any) -> dict[str, Reading]:
    """Return used, reserved and total bytes of a GPU or of a MIG instance.

    Where the reserve is `in-used`, an old driver's number of used bytes holds it: 0.6 GB more on an H200.
    """
    memory = ask(nvml, handle, _memory)
    known = isinstance(memory, Reading) or hasattr(memory, "reserved")
    return {
        "memory_used_bytes": reading(memory, "used"),
        "memory_reserved_bytes": reading(memory, "reserved") if known else Reading(None, "in-used"),
        "memory_total_bytes": reading(memory, "total"),
    }


def utilisation_readings(nvml: Any, handle: Any) -> dict[str, Reading]:
    """Return the shares of the driver's last sample period (1 s at most) with a kernel, and with a memory access."""
    rates = ask(nvml, handle, lambda nvml, handle: nvml.nvmlDeviceGetUtilizationRates(handle))
    return {"kernel_active_pct": reading(rates, "gpu"), "memory_active_pct": reading(rates, "memory")}


def power_usage_mw(nvml: Any, handle: Any) -> int:
    """Return what drivers without field 186 call the power: an average over 1 s from Ampere on (not on GA100)."""
    return int(nvml.nvmlDeviceGetPowerUsage(handle))


def _temperature_c(nvml: Any, handle: Any) -> int:
    """Return the GPU's temperature; the older name goes away with CUDA 14."""
    names = ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature")
    return int(newest(nvml, names, handle, nvml.NVML_TEMPERATURE_GPU))


def _performance_state(nvml: Any, handle: Any) -> int:
    """Return 0 (fastest) to 15; NVML's 32 is its word for unknown."""
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
"""At every sample: below 0.01 ms each on an H200."""

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
"""Every 5 s: they seldom change, and the fan takes 0.14 ms (on a laptop's GPU)."""

COSTLY: dict[str, Call] = {
    "ecc_corrected_count": _ecc_count("CORRECTED"),
    "ecc_uncorrected_count": _ecc_count("UNCORRECTED"),
}
"""Every 5 s, but never while a run is live: what they cost was not measured."""

ONCE: dict[str, Call] = {
    "sm_clock_max_mhz": lambda nvml, handle: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM),
    "memory_clock_max_mhz": lambda nvml, handle: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM),
}
"""Once: 1.6 ms each on an H200, and they do not change."""


THROTTLE_WORDS = {
    0x1: "idle",
    0x2: "app-clocks",
    0x4: "power-capped",
    0x8: "hw-slowdown",
    0x10: "sync-boost",
    0x20: "thermal",
    0x40: "hw-thermal",
    0x80: "power-brake",
    0x100: "display",
}
"""Bits of nvmlClocksEventReasons in words."""
ALL_BITS = 0xFFFF_FFFF_FFFF_FFFF
"""NVML_VALUE_NOT_AVAILABLE: no mask."""


def throttle_bits(nvml: Any, handle: Any) -> int:
    """Return the clock event reasons, by the name that drivers before 535 know if need be; raise NVMLError."""
    names = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
    return int(newest(nvml, names, handle))


def mask_reading(bits: Any) -> Reading:
    """Return what `ask` made of the mask as a Reading. It stays an integer: a float has 53 of its 64 bits."""
    if isinstance(bits, Reading):
        return bits
    return Reading(None, "no-value") if bits == ALL_BITS else Reading(int(bits))


def throttle_words(bits: float | None) -> tuple[str, ...]:
    """Return the words for a mask of throttle reasons; none for an unknown mask.

    Bits without a word, which newer drivers may set, are told as they are: `unknown 0x400`.
    """
    if bits is None:
        return ()
    words = [word for bit, word in THROTTLE_WORDS.items() if int(bits) & bit]
    rest = int(bits) & ~sum(THROTTLE_WORDS)
    return (*words, f"unknown 0x{rest:x}") if rest else tuple(words)
