"""Words of the list of saved runs and of row details, which have no report: a place, and why no device wins."""

from __future__ import annotations

from itertools import groupby

from cpugpu_tui.analysis.answer import WITHIN, contradicts, decided_points, not_judged
from cpugpu_tui.decide.crossover import FALLS, RISES, SEVERAL, Crossover
from cpugpu_tui.decide.verdict import GPU_WINS, TIE, Comparison
from cpugpu_tui.model.quantities import joined, named, size_text

MOST_NAMED = 3
"""Sizes that a sentence names; more than these are counted."""


def place_text(found: Crossover) -> str:
    """Return where the GPU wins if the winner changes: `from ≈ 205`, `only up to ≈ 64`; else `undecided`."""
    if found.kind == RISES:
        return f"from {_point_text(found)}{_end(found)}"
    if found.kind == FALLS:
        return f"only up to {_point_text(found)}"
    return _ranges(found) if found.kind == SEVERAL else "undecided"


def _ranges(found: Crossover) -> str:
    """Return each range in which the GPU wins, if the winner changes more than once."""
    groups = [
        (winner, list(points)) for winner, points in groupby(decided_points(found), lambda p: p.comparison.winner)
    ]
    parts = []
    for index, (winner, points) in enumerate(groups):
        first, last = points[0].size, points[-1].size
        if winner != GPU_WINS:
            continue
        if index == len(groups) - 1:
            parts.append(f"from {_point_text(found)}{_end(found)}")
        elif index == 0:
            parts.append(f"up to {last:,}")
        else:
            parts.append(f"at {first:,}" if first == last else f"from {first:,} to {last:,}")
    if len(parts) <= MOST_NAMED - 1:
        return f"{'' if found.rises else 'only '}{joined(parts)}"
    return f"in {len(parts)} ranges, the last {parts[-1]}"


def _end(found: Crossover) -> str:
    """Return ` to 800` if a larger size contradicts the last winner; empty if the GPU wins without an upper end."""
    last = decided_points(found)[-1]
    beyond = (point for point in found.points if point.size > last.size)
    return f" to {size_text(last.size)}" if any(contradicts(point, last) for point in beyond) else ""


def open_words(comparison: Comparison) -> str:
    """Return why a size has no winner."""
    if comparison.verdict == TIE:
        return f"equal {WITHIN}"
    reason = not_judged(comparison)
    return f"not judged, {reason}" if reason else "too close to call"


def _point_text(found: Crossover) -> str:
    """Return the crossover as a size inside its bracket, with three digits, or more if the bracket is so narrow."""
    assert found.point is not None
    assert found.low is not None
    assert found.high is not None
    # The GPU does not win at the lower end, except where it loses above the bracket.
    least, most = (found.low, found.high - 1) if found.kind == FALLS else (found.low + 1, found.high)
    if least >= most:
        return named("", "=", most)
    for number in (round(float(f"{found.point:.3g}")), round(found.point)):
        if least <= number <= most:
            return named("", "≈", number)
    return named("", "≈", min(max(round(found.point), least), most))
