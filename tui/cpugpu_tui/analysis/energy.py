"""Joules from a counter at both sides of a window: only where its steps allow a number. Pure functions on numbers."""

from __future__ import annotations

from dataclasses import dataclass

from cpugpu_tui.model import EnergyMeasured, Reading
from cpugpu_tui.model.quantities import significant

LEAST_NS = 1e9
"""Shorter windows have no energy (method.md, step 10)."""

LEAST_TICKS = 10
"""Nor have windows of fewer steps of their counter."""

DISPUTED = 0.1
"""A counter and the integral of the power that are further apart than this share contradict each other."""

SCOPE_WORDS = {
    "gpu": "",
    "board": "whole board, all MIG instances",
    "module": "whole module, processor included",
    "package": "processor packages, all cores",
}
"""What else than the device a counter counts, in words."""


@dataclass(frozen=True)
class Energy:
    """What a window's counter says; each value or its reason."""

    joules: Reading
    """Of the whole window."""
    joules_per_call: Reading
    watts: Reading
    """Mean power of the window."""
    plus_minus: float | None = None
    """One step of the counter as a share of the window: how far the numbers may be off."""
    polled_watts: float | None = None
    """Mean of the instantaneous power, as a second opinion; None where there is none."""
    scope: str = "gpu"
    """See `EnergyMeasured.scope`."""

    @property
    def is_disputed(self) -> bool:
        """Whether counter and polled power are more than `DISPUTED` apart."""
        watts = self.watts.value
        return bool(watts and self.polled_watts and abs(self.polled_watts / watts - 1) > DISPUTED)


def missing(reason: str, scope: str = "gpu") -> Energy:
    """Return what stands in place of numbers."""
    reading = Reading(None, reason)
    return Energy(reading, reading, reading, scope=scope)


def energy(window: EnergyMeasured | None) -> Energy:
    """Return what a window says; `not-asked` without one."""
    if window is None:
        return missing("not-asked")
    reason = _why_not(window)
    if reason is not None or window.begin_mj is None or window.end_mj is None:
        return missing(reason or "unknown", window.scope)
    joules = (window.end_mj - window.begin_mj) / 1e3
    per_call = Reading(joules / window.calls) if window.calls else Reading(None, "not-asked")
    return Energy(
        Reading(joules),
        per_call,
        Reading(joules / (window.elapsed_ns / 1e9)),
        window.tick_ns / window.elapsed_ns,
        sum(window.power_mw) / len(window.power_mw) / 1e3 if window.power_mw else None,
        window.scope,
    )


def _why_not(window: EnergyMeasured) -> str | None:
    if window.reason is not None:
        return window.reason
    if window.begin_mj is None or window.end_mj is None:
        return "unknown"
    if window.elapsed_ns < max(LEAST_NS, LEAST_TICKS * window.tick_ns):
        return "window-too-short"
    if window.end_mj < window.begin_mj:
        return "counter-reset"
    # A counter that did not step has a longer step than was thought.
    return "window-too-short" if window.end_mj == window.begin_mj else None


def above_idle(window: EnergyMeasured | None, idle: EnergyMeasured | None) -> Reading:
    """Return the joules of a call beyond what the device takes while it waits, or why that is not known."""
    found, waiting = energy(window), energy(idle)
    if window is None or found.joules.value is None or not window.calls:
        return Reading(None, found.joules.reason or "not-asked")
    if waiting.watts.value is None:
        return Reading(None, waiting.watts.reason)
    return Reading((found.joules.value - waiting.watts.value * window.elapsed_ns / 1e9) / window.calls)


def joules_text(joules: float) -> str:
    """Return an energy in the unit that suits it alone: `35.2 uJ`, `1.20 J`."""
    for limit, size, unit in ((1e-6, 1e-9, "nJ"), (1e-3, 1e-6, "uJ"), (1.0, 1e-3, "mJ"), (1e3, 1.0, "J")):
        if abs(joules) < limit:
            return f"{significant(joules / size)} {unit}"
    return f"{significant(joules / 1e3)} kJ"
