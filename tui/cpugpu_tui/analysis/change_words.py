"""Changes and cases of a comparison as people read them; the signs are spelled by whoever prints them."""

from __future__ import annotations

from cpugpu_tui.analysis.compare import (
    FASTER,
    NOT_COMPARABLE,
    SAME,
    SLOWER,
    TOO_FEW,
    UNDECIDED,
    Change,
    Judged,
    Pair,
)
from cpugpu_tui.model.quantities import factor

VERDICT_WORDS = {FASTER: "faster", SLOWER: "slower", SAME: "same", UNDECIDED: "no clear change",
                 TOO_FEW: "too few runs", NOT_COMPARABLE: "not comparable"}  # fmt: skip
"""Verdicts as they stand beside a number."""


def percent_text(ratio: float) -> str:
    """Return a ratio of times as a change: `+10.2 %`, `0.0 %`; from twice and half on as a factor, `2.34×`."""
    if not 0.5 < ratio < 2:
        return factor(ratio)
    percent = round(100 * (ratio - 1), 1)
    return f"{percent:+.1f} %" if percent else "0.0 %"


def interval_text(change: Change) -> str:
    """Return `+7.1 % to +13.4 %`; a dash without an interval."""
    if change.low is None or change.high is None:
        return "–"
    return f"{percent_text(change.low)} to {percent_text(change.high)}"


def runs_text(change: Change) -> str:
    """Return the number of runs on both sides, `5 vs 5`."""
    return f"{change.base_runs} vs {change.new_runs}"


def case_text(pair: Pair) -> str:
    """Return `matmul 512`, with variant, dtype and threads where they are not the usual ones."""
    return f"{_sweep_text(pair)} {pair.size:,}".strip()


def judged_text(judged: Judged) -> str:
    """Return the case, or of a group its ends: `matmul 64 to 512 (4 sizes)`."""
    first, last = judged.pairs[0], judged.pairs[-1]
    if not judged.is_group:
        return case_text(first)
    return f"{_sweep_text(first)} {first.size:,} to {last.size:,} ({len(judged.pairs)} sizes)"


def _sweep_text(pair: Pair) -> str:
    if len(pair.sweep) != 4:
        return pair.case
    workload, variant, dtype, threads = pair.sweep
    parts = [str(workload)]
    parts += [str(variant)] if variant != "default" else []
    parts += [str(dtype)] if dtype != "float32" else []
    parts += [f"t{threads}"] if threads else []
    return " ".join(parts)
