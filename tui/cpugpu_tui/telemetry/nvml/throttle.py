"""Why a GPU holds its clocks back: the driver's bits in words."""

from __future__ import annotations

from typing import Any

from cpugpu_tui.telemetry.nvml.calls import newest

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


def throttle_bits(nvml: Any, handle: Any) -> int:
    """Return the clock event reasons, by the name that drivers before 535 know if need be; raise NVMLError."""
    names = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
    return int(newest(nvml, names, handle))


def throttle_words(bits: float | None) -> tuple[str, ...]:
    """Return the words for a mask of throttle reasons; none for an unknown mask."""
    return tuple(word for bit, word in THROTTLE_WORDS.items() if bits is not None and int(bits) & bit)
