"""The crossover of a sweep as a point and a bracket.

The bracket is the published result: the largest size at which the CPU clearly wins, and the smallest above it at which
the GPU does. Within one start it covered the truth in 300 of 300 simulated searches, a bootstrap of the point in 0-61 %
(figures.md, method.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from cpugpu_tui.decide.comparison import (
    GPU_WINS,
    LOOKS,
    SURE_RATIO,
    SURE_ROUNDS,
    TOO_FEW,
    Change,
    Comparison,
    SweepPoint,
)
from cpugpu_tui.decide.interval import LEVEL, TAIL
from cpugpu_tui.decide.stats import quantile
from cpugpu_tui.decide.verdict import ratio_of, word


def judged(points: Iterable[SweepPoint]) -> tuple[SweepPoint, ...]:
    """Return the points of a sweep in order of size, without the winners that the whole sweep does not make sure.

    Of a repeated size the point with most rounds counts. Points without a finite speedup above 0 are left out.
    """
    return _sure(_over_starts(usable(points)))


def changes_of(points: Sequence[SweepPoint]) -> tuple[Change, ...]:
    """Return each change of winner between `judged` points."""
    decided = [index for index, point in enumerate(points) if point.comparison.winner is not None]
    found = []
    for below, above in pairwise(decided):
        inside = points[below : above + 1]
        rises = inside[-1].comparison.winner == GPU_WINS
        if inside[0].comparison.winner != inside[-1].comparison.winner:
            found.append(Change(inside[0].size, inside[-1].size, _level(inside, rises=rises), rises))
    return tuple(found)


def usable(points: Iterable[SweepPoint]) -> tuple[SweepPoint, ...]:
    """Return the points with a finite speedup above 0, in order of size, each size once."""
    best: dict[int, SweepPoint] = {}
    for point in points:
        speedup = point.comparison.speedup
        if not (math.isfinite(speedup) and speedup > 0 and point.size > 0):
            continue
        if point.comparison.winner != point.comparison.faster:  # seen in fewer rounds than a bracket rests on
            point = point._replace(comparison=point.comparison._replace(verdict=TOO_FEW))
        if point.size not in best or _weight(point) > _weight(best[point.size]):
            best[point.size] = point
    return tuple(best[size] for size in sorted(best))


def _over_starts(points: Sequence[SweepPoint]) -> tuple[SweepPoint, ...]:
    """Return the points, without winners of one start that another start could refute.

    Further starts time a part of the sizes. A size of one start keeps its winner only if its interval still decides
    when it is widened by the widest interval over starts of the sweep, for a single start: √k times as wide.
    """
    wide = [point.comparison for point in points if point.comparison.covers_starts]
    reach = max(
        (math.sqrt(max(1, each.starts)) * each.half_width for each in wide if each.half_width < math.inf), default=0.0
    )
    if not reach:
        return tuple(points)
    return tuple(
        point if point.comparison.covers_starts or point.comparison.faster is None
        else point._replace(comparison=_if_refutable(point.comparison, reach))
        for point in points
    )  # fmt: skip


def _if_refutable(comparison: Comparison, reach: float) -> Comparison:
    """Return a comparison with the interval that takes its winner, or as it is."""
    log = math.log(comparison.speedup)
    ends = (math.log(end) - log if end and 0 < end < math.inf else 0.0 for end in (comparison.low, comparison.high))
    low, high = (log + math.copysign(math.hypot(end, reach), sign) for end, sign in zip(ends, (-1, 1), strict=True))
    found = _with_ends(comparison, low, high)
    if found.faster == comparison.faster:
        return comparison
    if comparison.low is None:
        return comparison._replace(verdict=TOO_FEW)
    # Its interval is about other starts now, as far as those of other sizes tell.
    return found._replace(degrees=1, within_low=comparison.low, within_high=comparison.high)


def _sure(points: Sequence[SweepPoint]) -> tuple[SweepPoint, ...]:
    """Return the points without winners of a device that wins nowhere at the level that all sizes share.

    Each interval may miss the truth in 5 %. Without this, searches with equal devices named a winner in up to 27 %. A
    point without its winner has the interval of that level.
    """
    count, winners = len(points), {point.comparison.faster for point in points} - {None}
    sure = {
        device for device in winners
        if any(point.comparison.faster == device == shared(point.comparison, count).faster for point in points)
    }  # fmt: skip
    return tuple(
        point if point.comparison.faster in {None, *sure}
        else point._replace(comparison=shared(point.comparison, count)) for point in points
    )  # fmt: skip


def shared(comparison: Comparison, sizes: int) -> Comparison:
    """Return a comparison judged at 5 % that all `sizes` at which a sweep looks share (Bonferroni), with that interval.

    The ends of the interval move outward by the quotient of two quantiles of Student's t. Too few rounds leave no
    interval.
    """
    own = comparison
    if own.winner is not None and (sizes == 1 or max(own.speedup, 1 / own.speedup) >= SURE_RATIO):
        return own
    low, high = own.low or 0.0, own.high or math.inf
    if own.winner is None or not (own.degrees or own.rounds >= SURE_ROUNDS) or not 0 < low <= high < math.inf:
        return own._replace(low=None, high=None, verdict=TOO_FEW)
    degrees, center = own.degrees or (own.rounds - 1) / TAIL, math.log(own.speedup)
    factor = quantile(LEVEL / (LOOKS * sizes), degrees) / quantile(LEVEL, degrees)
    return _with_ends(own, *(center + factor * (math.log(end) - center) for end in (low, high)))


def _with_ends(comparison: Comparison, low: float, high: float) -> Comparison:
    """Return a comparison judged by an interval [low, high] of ln(cpu/gpu)."""
    return comparison._replace(low=ratio_of(low), high=ratio_of(high), verdict=word(low, high))


def _weight(point: SweepPoint) -> tuple[int, str]:
    """Return the sort key of points of one size; the text makes the choice independent of their order."""
    return point.comparison.rounds, repr(point.comparison)


LEAST_SPREAD = 0.01
"""Added to the half-width of ln(speedup), so that very narrow intervals do not dominate the line."""


def _level(points: Sequence[SweepPoint], *, rises: bool) -> float:
    """Return the size at which the speedup is 1: least squares of ln(speedup) over ln(size), clamped to the bracket.

    Points are weighted by their intervals: on a shared host, a point of ± 85 % once bent the line to the bracket's end.
    If the line has the wrong slope or crosses 1 outside the bracket, the bracket's ends are interpolated.
    """
    low, high = points[0].size, points[-1].size
    xs = [math.log(point.size) for point in points]
    ys = [math.log(point.comparison.speedup) for point in points]
    level_x = _zero(xs, ys, [_precision(point.comparison) for point in points], rises=rises)
    if level_x is None or not xs[0] < level_x < xs[-1]:
        level_x = _zero([xs[0], xs[-1]], [ys[0], ys[-1]], [1.0, 1.0], rises=rises)
    if level_x is None:
        level_x = (xs[0] + xs[-1]) / 2
    # Clamped by sizes, not by their logarithms, because exp(log(5)) is 4.999….
    return min(max(math.exp(min(level_x, xs[-1])), low), high)


def placed(change: Change, points: Sequence[SweepPoint]) -> Change:
    """Return a change with the sizes inside its bracket between which the speedup passes 1, and its point between them.

    The point is on the line through these two, in logarithms, so that a reader can compute it from their rows. Of 410
    simulated crossovers it was off by 1.5 % at the median and 6.7 % at the 95th percentile, the line through all rows
    of the bracket by 1.3 and 7.6 %. If sizes inside contradict every point, it stays as it is without them: "wins from
    179" was said above a row of 200 that read 0.859×. A search goes by the line through all, because on a plateau this
    point moves to its end.
    """
    inside = [point for point in points if change.low <= point.size <= change.high]
    signs = [(point.comparison.speedup > 1) == change.rises for point in inside]
    if len({*signs}) < 2 or signs != sorted(signs):
        return change
    below, above = inside[signs.index(True) - 1 :][:2]
    return change._replace(point=_level([below, above], rises=change.rises), gap=(below.size, above.size))


def _precision(comparison: Comparison) -> float:
    """Return the weight of a point: the reciprocal of its variance, 1 without an interval."""
    width = comparison.half_width
    return 1.0 if math.isinf(width) else 1 / (LEAST_SPREAD + width) ** 2


def _zero(xs: Sequence[float], ys: Sequence[float], weights: Sequence[float], *, rises: bool) -> float | None:
    """Return where the weighted line through the points is 0; None if its slope is 0 or has the wrong sign."""
    total = math.fsum(weights)
    middle_x = math.fsum(w * x for w, x in zip(weights, xs, strict=True)) / total
    middle_y = math.fsum(w * y for w, y in zip(weights, ys, strict=True)) / total
    slope_up = math.fsum(w * (x - middle_x) * (y - middle_y) for w, x, y in zip(weights, xs, ys, strict=True))
    spread = math.fsum(w * (x - middle_x) ** 2 for w, x in zip(weights, xs, strict=True))
    if slope_up == 0 or (slope_up > 0) != rises:
        return None
    return middle_x - middle_y * spread / slope_up
