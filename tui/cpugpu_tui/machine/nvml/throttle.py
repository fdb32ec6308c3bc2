"""Why a GPU holds its clocks back: the driver's bits in words."""

from __future__ import annotations

from typing import Any

from cpugpu_tui.machine.nvml.calls import newest
from cpugpu_tui.model import Reading

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
