"""The finding about our own telemetry's cost, once it was measured."""

from __future__ import annotations

from dataclasses import replace

from cpugpu_tui.analysis.cost_ratio import ALLOWED, CostRatio
from cpugpu_tui.doctor.finding import Finding, ok, warn
from cpugpu_tui.doctor.telemetry_cost import MeasuredCost


def cost_finding(measured: MeasuredCost, limit_s: float) -> Finding:
    """Return the line for a measured cost."""
    return replace(_finding(measured, limit_s), check="telemetry.cost")


def _finding(measured: MeasuredCost, limit_s: float) -> Finding:
    ratio = measured.ratio
    more = f"Give it more time: --max-seconds {max(120, 2 * limit_s):.0f}."
    if ratio is None:
        return warn(f"{measured.rounds} rounds on {measured.label}", "Five are needed for an interval.", more)
    found = cost_text(ratio, measured.label)
    if ratio.low > ALLOWED:
        return warn(
            found,
            f"Watching costs more than {ALLOWED - 1:.0%} of small kernels' time here.",
            "Ask the driver's supplier; until then trust comparisons of small sizes less.",
        )
    if ratio.is_allowed:
        return ok(found)
    cause = "The interval is wider than ±1 %." if not ratio.is_settled else f"It may be above {ALLOWED - 1:.0%}."
    return warn(found, cause, more)


def cost_text(ratio: CostRatio, label: str) -> str:
    """Return the ratio with its interval, and whether a cost can be told from none."""
    interval = f"{ratio.ratio - 1:+.2%} [{ratio.low - 1:+.2%}, {ratio.high - 1:+.2%}]"
    verdict = "" if ratio.is_cost else ", no cost can be told from none"
    what = f"telemetry at its default rate: {interval} of a launch and synchronise{verdict}"
    return f"{what}; {ratio.rounds} rounds on {label}"
