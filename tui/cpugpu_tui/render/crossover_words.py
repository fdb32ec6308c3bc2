"""Where the GPU wins in a sweep, in a few words: the place, its exceptions, and why a size has no winner."""

from __future__ import annotations

from itertools import groupby

from cpugpu_tui.analysis.answer import WITHIN, against, contradicts, decided_points, half_width, is_wide, not_judged
from cpugpu_tui.decide.crossover import ALWAYS, FALLS, NEVER, RISES, SEVERAL, TIES, Crossover
from cpugpu_tui.decide.verdict import GPU_WINS, TIE, Comparison
from cpugpu_tui.model.quantities import factor, joined, named, noun_of, plus_minus

MOST_NAMED = 3
"""Sizes that a sentence names; more than these are counted."""


def speedup_text(comparison: Comparison) -> str:
    """Return `47.2× ± 1.2 %`, or `47.2×` without an interval."""
    found = half_width(comparison)
    return factor(comparison.speedup) + (f" {plus_minus(found)}" if found is not None else "")


def where(found: Crossover, axis: str = "", *, with_bracket: bool = False, brief: bool = False) -> str:
    """Return where the GPU wins, in a few words: `from n ≈ 205 (192–213), except at 500 (2 rounds)`.

    `brief` shortens `at every size from 1 to 500` to `every size (1–500)`.
    """
    place = place_text(found, axis, with_bracket=with_bracket, brief=brief)
    if found.kind in (ALWAYS, NEVER):
        return f"{place}{exceptions(found)}"
    return f"{place}{exceptions(found, GPU_WINS)}" if found.kind in (RISES, FALLS) else place


def place_text(found: Crossover, axis: str = "", *, with_bracket: bool = False, brief: bool = False) -> str:
    """Return `where` without the exceptions: `from n ≈ 205 (192–213)`, `nowhere up to 500`."""
    has_bracket = with_bracket and found.low is not None and not is_wide(found)
    bracket = f" ({found.low:,}–{found.high:,})" if has_bracket else ""
    if found.kind == RISES:
        return f"from {point_text(found, axis)}{bracket}{_end(found)}"
    if found.kind == FALLS:
        return f"only up to {point_text(found, axis)}{bracket}"
    if found.kind == ALWAYS:
        return range_text(found, brief=brief)
    if found.kind == NEVER:
        return f"nowhere up to {decided_points(found)[-1].size:,}"
    return _ranges(found, axis, bracket) if found.kind == SEVERAL else "undecided"


def open_sweep_words(found: Crossover) -> str:
    """Return why no size of a sweep has a winner, in a few words."""
    if found.kind == TIES:
        return "equally fast"
    return "not judged" if all(not_judged(point.comparison) for point in found.points) else "too close to call"


def range_text(found: Crossover, *, brief: bool = False) -> str:
    """Return the range of sizes that have a winner, if all have the same one."""
    first, last = (decided_points(found)[end].size for end in (0, -1))
    if first == last:
        return f"at {first:,}"
    if len(decided_points(found)) < len(found.points):
        return f"from {first:,} to {last:,}"
    return f"every size ({first:,}–{last:,})" if brief else f"at every size from {first:,} to {last:,}"


def _ranges(found: Crossover, axis: str, bracket: str) -> str:
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
            parts.append(f"from {point_text(found, axis)}{bracket}{_end(found)}")
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
    return f" to {last.size:,}" if any(contradicts(point, last) for point in beyond) else ""


def exceptions(found: Crossover, winner: str | None = None) -> str:
    """Return the sizes inside a range of wins (of `winner`, if named) that are no wins, in a few words."""
    points = against(found, winner)
    if not points:
        return ""
    sizes = joined([f"{point.size:,}" for point in points])
    whose = sizes if len(points) <= MOST_NAMED else f"{len(points)} sizes"
    reasons = dict.fromkeys(open_words(point.comparison) for point in points)
    return f", except at {whose} ({', '.join(reasons) if len(reasons) == 1 else 'not judged or too close'})"


def open_words(comparison: Comparison) -> str:
    """Return why a size has no winner."""
    if comparison.verdict == TIE:
        return f"equal {WITHIN}"
    reason = not_judged(comparison)
    return f"not judged, {reason}" if reason else "too close to call"


def point_text(found: Crossover, axis: str) -> str:
    """Return the crossover as a size inside the bracket, or both ends of a wide bracket.

    The size has three digits, or more if the bracket is so narrow that three digits lie outside it.
    """
    assert found.point is not None
    assert found.low is not None
    assert found.high is not None
    if is_wide(found):
        return " ".join(filter(None, (f"somewhere between {found.low:,} and {found.high:,}", noun_of(axis))))
    # The GPU does not win at the lower end, except where it loses above the bracket.
    least, most = (found.low, found.high - 1) if found.kind == FALLS else (found.low + 1, found.high)
    if least >= most:
        return named(axis, "=", most)
    for number in (round(float(f"{found.point:.3g}")), round(found.point)):
        if least <= number <= most:
            return named(axis, "≈", number)
    return named(axis, "≈", min(max(round(found.point), least), most))
