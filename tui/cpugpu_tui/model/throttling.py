"""Why a GPU lowers its clocks: the reasons of NVML, and what each one means for a measurement."""

from __future__ import annotations

from typing import NamedTuple

QUIET, NORMAL, WARNING, ALARMING = "quiet", "normal", "warning", "alarming"
"""No matter for a measurement; normal under full load; may spoil it; spoils it."""

POWER_CAPPED, THROTTLED = "power-capped", "throttled"
"""Marks of a half-round."""


class Reason(NamedTuple):
    """One reason for low clocks."""

    bit: int
    """Of nvmlClocksEventReasons."""
    severity: str
    stem: str = ""
    """Its counter is the reading `throttled_STEM_ns`, the share of time `throttled_STEM_pct`; empty without one."""
    mark: str = ""
    """Mark of a half-round with it; empty for none."""


THROTTLE_REASONS = {
    "power-brake": Reason(0x80, ALARMING, "power_brake", THROTTLED),
    "hw-thermal": Reason(0x40, ALARMING, "hw_thermal", THROTTLED),
    "hw-slowdown": Reason(0x8, ALARMING, mark=THROTTLED),
    "thermal": Reason(0x20, WARNING, "thermal", THROTTLED),
    "power-capped": Reason(0x4, NORMAL, "power_cap", POWER_CAPPED),
    "sync-boost": Reason(0x10, NORMAL, "sync_boost"),
    "idle": Reason(0x1, QUIET),
    "app-clocks": Reason(0x2, QUIET),
    "display": Reason(0x100, QUIET),
}
"""Word → reason, worst first."""

COUNTER_KEYS = {word: f"throttled_{each.stem}_ns" for word, each in THROTTLE_REASONS.items() if each.stem}
"""Word → reading of its counter, ns."""
SHARE_KEYS = {word: f"throttled_{each.stem}_pct" for word, each in THROTTLE_REASONS.items() if each.stem}
"""Word → reading of its share of the time."""
MARKS = {word: each.mark for word, each in THROTTLE_REASONS.items() if each.mark}
"""Word → mark of a half-round."""


def severity(word: str) -> str:
    """Return how bad a reason is. `throttled`, and words of later versions and drivers, may spoil a measurement."""
    return THROTTLE_REASONS[word].severity if word in THROTTLE_REASONS else WARNING
