"""A comparison of two series as JSON values."""

from __future__ import annotations

from typing import Any

from cpugpu_tui.analysis.compare import Change, Judged, Pair, change
from cpugpu_tui.compare.comparison import Series, SeriesComparison


def comparison_data(found: SeriesComparison) -> dict[str, Any]:
    """Return all that the tables show, in full precision; `event` tells it from the events of a run's stream."""
    return {
        "event": "Comparison",
        "base": series_data(found.base),
        "new": series_data(found.new),
        "margin": found.margin,
        "differences": [{"what": each.what, "base": each.base, "new": each.new} for each in found.differences],
        "geometric_mean": {device: change_data(mean) for device, mean in found.means.items()},
        "verdicts": [judged_data(each) for each in found.judged],
    }


def series_data(series: Series) -> dict[str, Any]:
    """Return which runs a series has."""
    first = series.runs[0]
    return {
        "name": series.name or None,
        "series_id": first.series_id,
        "run_ids": [run.run_id for run in series.runs],
        "numbers": [run.number for run in series.runs],
    }


def judged_data(each: Judged) -> dict[str, Any]:
    """Return a verdict with the cases that it is about; in a group each has a ratio of its own, and no verdict."""
    return {
        "verdict": each.verdict,
        "device": each.device,
        "trouble": each.trouble or None,
        "p": each.p,
        **change_data(each.change),
        "cases": [_pair_data(pair) for pair in each.pairs],
    }


def _pair_data(pair: Pair) -> dict[str, Any]:
    base, new = list(pair.base_ns.values()), list(pair.new_ns.values())
    return {"case": pair.case, "base_ns": base, "new_ns": new, **change_data(change(base, new))}


def change_data(found: Change | None) -> dict[str, Any]:
    """Return a change; nulls where there is none."""
    if found is None:
        return {"ratio": None, "low": None, "high": None, "base_runs": None, "new_runs": None}
    return {
        "ratio": found.ratio,
        "low": found.low,
        "high": found.high,
        "base_runs": found.base_runs,
        "new_runs": found.new_runs,
    }
