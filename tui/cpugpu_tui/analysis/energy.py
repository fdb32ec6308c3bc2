"""Energy from a counter read before and after a window, if its steps are fine enough. Pure functions on numbers."""

from __future__ import annotations

from typing import NamedTuple

from cpugpu_tui import model
from cpugpu_tui.model import Reading
from cpugpu_tui.model.quantities import significant

LEAST_NS = 1e9
"""Shorter windows give no energy (method.md, step 10)."""

LEAST_TICKS = 10
"""Windows of fewer counter steps give no energy either."""

DISPUTED = 0.1
"""Counter and polled power contradict each other if they differ by more than this share."""

SCOPE_WORDS = {
    "gpu": "",
    "board": "whole board, all MIG instances",
    "module": "whole module, including the processor",
    "package": "processor packages, all cores",
}
"""Scope of a counter → what it covers, in words; empty if it covers just the device."""


class Energy(NamedTuple):
    """Energy and power of a window, each as a value or a reason."""

    joules: Reading
    """Energy of the whole window."""
    joules_per_call: Reading
    watts: Reading
    """Mean power of the window."""
    plus_minus: float | None = None
    """Relative error: one counter step as a share of the window."""
    polled_watts: float | None = None
    """Mean of the polled power, to check the counter; None without readings."""
    scope: str = "gpu"
    """See `EnergyMeasured.scope`."""

    @property
    def is_disputed(self) -> bool:
        """Whether counter and polled power are more than `DISPUTED` apart."""
        watts = self.watts.value
        return bool(watts and self.polled_watts and abs(self.polled_watts / watts - 1) > DISPUTED)


def missing(reason: str, scope: str = "gpu") -> Energy:
    """Return an energy without numbers, for this reason."""
    reading = Reading(None, reason)
    return Energy(reading, reading, reading, scope=scope)


def energy(window: model.EnergyMeasured | None) -> Energy:
    """Return the energy of a window; `not-asked` without one."""
    if window is None:
        return missing("not-asked")
    reason = _why_not(window)
    if reason is not None or window.begin_mj is None or window.end_mj is None:
        return missing(reason or "unknown", window.scope)
    joules = (window.end_mj - window.begin_mj) / 1e3
    per_call = Reading(joules / window.calls) if window.calls else Reading(None, "not-asked")
    return Energy(
        Reading(joules), per_call, Reading(joules / (window.elapsed_ns / 1e9)), window.tick_ns / window.elapsed_ns,
        sum(window.power_mw) / len(window.power_mw) / 1e3 if window.power_mw else None, window.scope,
    )  # fmt: skip


def _why_not(window: model.EnergyMeasured) -> str | None:
    if window.reason is not None:
        return window.reason
    if window.begin_mj is None or window.end_mj is None:
        return "unknown"
    if window.elapsed_ns < max(LEAST_NS, LEAST_TICKS * window.tick_ns):
        return "window-too-short"
    if window.end_mj < window.begin_mj:
        return "counter-reset"
    # A counter that did not move has longer steps than assumed.
    return "window-too-short" if window.end_mj == window.begin_mj else None


def above_idle(window: model.EnergyMeasured | None, idle: model.EnergyMeasured | None) -> Reading:
    """Return the joules of a call above the idle power, or the reason why they are not known."""
    found, waiting = energy(window), energy(idle)
    if window is None or found.joules.value is None or not window.calls:
        return Reading(None, found.joules.reason or "not-asked")
    if waiting.watts.value is None:
        return Reading(None, waiting.watts.reason)
    return Reading((found.joules.value - waiting.watts.value * window.elapsed_ns / 1e9) / window.calls)


def joules_text(joules: float) -> str:
    """Return an energy with a unit that suits it: `35.2 µJ`, `1.20 J`."""
    for limit, size, unit in ((1e-6, 1e-9, "nJ"), (1e-3, 1e-6, "µJ"), (1.0, 1e-3, "mJ"), (1e3, 1.0, "J")):
        if abs(joules) < limit:
            return f"{significant(joules / size)} {unit}"
    return f"{significant(joules / 1e3)} kJ"
