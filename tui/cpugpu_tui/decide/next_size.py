"""The sizes of a search: its coarse grid, the next size, and when a size needs no more rounds."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from itertools import pairwise

from cpugpu_tui.decide.comparison import (
    CPU_WINS,
    GPU_WINS,
    MOST_COST,
    TOO_FEW,
    WIDEST_GAP,
    Change,
    Comparison,
    SweepPoint,
    cheap_between,
)
from cpugpu_tui.decide.crossover import changes_of, judged
from cpugpu_tui.decide.verdict import NARROW

MOST_GRID = 13
"""Most sizes of the coarse grid: 1-2-5 over four decades. Longer axes use steps of ten."""

NEAR_END = 1.4
"""A grid size within this factor of an end of the axis is left out."""

LEAST_GAP = 1.02
"""Smallest ratio between two sizes: times then differ by about 4 %, twice the margin of a tie."""

REACH = 0.12
"""ln(speedup) at which a size is expected to be decided: rounds on an H200 vary by 12 %, and forty of them leave an
interval of about this half-width. New sizes lie where the slope of the curve reaches it, or the half-width at an end
of the bracket if that is less."""

SEARCH_STEP = 0.45
"""The least step, as a share of ln(ratio): one such size on each side makes a bracket narrower than the ratio."""

MOST_DOUBLED = 10
"""Undecided sizes after which the step is doubled no more."""

WORTH = 0.1
"""Least part of a bracket, in ln(size), of a gap beside its undecided sizes. Narrower gaps cannot narrow it much."""

CHECKED_GAP = 2.0
"""A gap of at least this ratio above a crossover gets a size in its middle, in case the winner changes back there."""

FUTILE_ROUNDS, FUTILE = 9, 0.8
"""From so many rounds on, a size is given up if the interval expected at its last round would still hold 1, with this
factor of caution."""

FULL_ROUNDS = 36
"""Rounds after which a full search takes a size that is cheap for one device only. Neighbours that are cheap for
different devices name none between them."""

HOPELESS = 20.0
"""After this speedup at two sizes in a row, larger sizes are not timed on the CPU (method.md, "Crossover")."""


def full_grid(lowest: int, highest: int) -> tuple[int, ...]:
    """Return both ends and 1-2-5 times powers of ten, as few near the ends as leave no gap over `WIDEST_GAP`."""
    powers = range(int(math.log10(lowest)), int(math.log10(highest)) + 1)
    between = (digit * 10**power for power in powers for digit in (1, 2, 5))
    sizes = [lowest, *(size for size in between if lowest < size < highest), highest]
    for inner in (1, -2):
        if len(sizes) > 2 and sizes[inner + 1] <= WIDEST_GAP * sizes[inner - 1]:
            del sizes[inner]
    return tuple(dict.fromkeys(sizes))


FINE_STEPS = (1.0, 1.4, 2.0, 3.0, 5.0, 7.0)
"""Sizes of a reference within each power of ten: narrow enough for a bracket of 1.7×."""


def fine_grid(lowest: int, highest: int) -> tuple[int, ...]:
    """Return both ends and the sizes of a reference between them."""
    between = (round(step * 10**power) for power in range(len(str(highest))) for step in FINE_STEPS)
    return tuple(sorted({lowest, highest, *(size for size in between if lowest < size < highest)}))


def grid(lowest: int, highest: int, most: int = MOST_GRID) -> tuple[int, ...]:
    """Return the sizes that a search starts with: both ends, and 1-2-5 (or 1) times powers of ten between them.

    More than `most` are only returned if powers of ten alone are more.
    """
    lowest, highest = min(lowest, highest), max(lowest, highest)
    for digits in ((1, 2, 5), (1,)):
        powers = range(int(math.log10(lowest)), int(math.log10(highest)) + 1)
        between = [digit * 10**power for power in powers for digit in digits]
        sizes = [lowest, *(size for size in between if lowest * NEAR_END <= size <= highest / NEAR_END), highest]
        if len(sizes) <= most:
            break
    return tuple(dict.fromkeys(sizes))


def next_size(points: Sequence[SweepPoint], tried: Collection[int], ratio: float, worth: float = WORTH) -> int | None:
    """Return the size that narrows a change of the winner most; None if all are narrow enough or cannot be narrowed.

    The widest bracket is narrowed first. Sizes in `tried` are not proposed again. `worth` is the part of a
    bracket that a gap beside its undecided sizes must have.
    """
    usable = judged(points)
    known = {point.size: point.comparison for point in usable}
    changes = sorted(changes_of(usable), key=lambda change: change.ratio, reverse=True)
    proposed = (_narrowing(change, known, tried, ratio, worth) for change in changes)
    return next((size for size in proposed if size is not None), None)


def _narrowing(
    change: Change, known: dict[int, Comparison], tried: Collection[int], ratio: float, worth: float
) -> int | None:
    """Return a size in the wider of the two gaps between the bracket's ends and the undecided sizes inside.

    It lies beyond the crossover point, where the slope of the curve reaches `REACH`. After each undecided size on that
    side the step doubles, up to the middle of the gap: where a curve has a plateau, steps of 4 % tried 1,044, 1,187,
    1,350 and 1,603 between 505 and 10,000.
    """
    low, high, point = change.low, change.high, change.point
    if change.ratio <= ratio:
        return None
    inside = sorted(size for size in set(tried) if low < size < high)
    gaps = (
        (low, min([point, *inside]), sum(size < point for size in inside)),
        (high, max([point, *inside]), sum(size > point for size in inside)),
    )
    reach = min(REACH, known[low].half_width, known[high].half_width)
    is_wide = bool(inside) and inside[-1] / inside[0] * LEAST_GAP**2 > ratio
    least = max(math.log(ratio) / 2, worth * math.log(change.ratio)) if is_wide else math.log(LEAST_GAP)
    for end, start, undecided in sorted(gaps, key=lambda gap: abs(math.log(gap[0] / gap[1])), reverse=True):
        gap = math.log(end / start)
        slope = abs(math.log(known[end].speedup) / gap) if gap else 0.0
        step = max(reach / slope if slope else 0.0, SEARCH_STEP * math.log(ratio)) * 2 ** min(undecided, MOST_DOUBLED)
        step = min(step, abs(gap) / 2)
        size = round(start * math.exp(math.copysign(step, gap)))
        if abs(gap) >= least and low < size < high and size not in inside:
            return size
    return None


def size_above(points: Sequence[SweepPoint], tried: Collection[int], checked: Collection[int]) -> int | None:
    """Return the middle of the first or second gap above the last change of the winner; None if both are narrow.

    `checked` are sizes that were chosen so. They do not divide a gap, so that each gets one size.
    """
    changes = changes_of(judged(points))
    if not changes:
        return None
    end = changes[-1].high
    above = [end, *sorted(size for size in {*tried} - {*checked} if size > end)]
    middles = [round(math.sqrt(a * b)) for a, b in pairwise(above[:3]) if b / a >= CHECKED_GAP]
    return next((size for size in middles if size not in tried), None)


def unanswered_size(points: Sequence[SweepPoint], tried: Collection[int], ratio: float) -> int | None:
    """Return the middle of the widest gap in which no device is known to cost little; None if all are narrow.

    On an H100 thresholds stayed open between 500, where the CPU won, and 1,000, which had no winner: no change of the
    winner was known there that could be narrowed.
    """
    gaps = ((low.size, high.size) for low, high in open_gaps(points))
    middles = (round(math.sqrt(low * high)) for low, high in gaps if high > ratio * low)
    return next((size for size in middles if size not in tried), None)


def open_gaps(points: Sequence[SweepPoint]) -> list[tuple[SweepPoint, SweepPoint]]:
    """Return the neighbouring sizes between which no device is known to cost little, the widest gap first."""
    known = judged(points)
    gaps = [(a, b) for (a, b), several in zip(pairwise(known), cheap_between(known), strict=True)
            if b.size > WIDEST_GAP * a.size or not (a.comparison.cheap & b.comparison.cheap or several)]  # fmt: skip
    return sorted(gaps, key=lambda gap: gap[0].size / gap[1].size)


def unsure_sizes(points: Sequence[SweepPoint]) -> list[int]:
    """Return the sizes beside open gaps whose intervals are too wide for either device, those of the widest gap first.

    On an H100 sizes were added between such neighbours, each with 6 to 12 rounds, which decided nothing.
    """
    return [end.size for gap in open_gaps(points) for end in gap if not end.comparison.cheap]


def is_clear(comparison: Comparison | None) -> bool:
    """Whether more rounds would not change the next step of a search: a winner, or the narrowest useful interval."""
    if comparison is None or comparison.verdict == TOO_FEW or comparison.plus_minus is None:
        return False
    return comparison.verdict in (CPU_WINS, GPU_WINS) or comparison.plus_minus <= NARROW


def is_settled(comparison: Comparison | None, most_rounds: int, *, full: bool) -> bool:
    """Whether a size needs no more rounds: it has a winner, or more rounds are futile.

    In a `full` search without a winner, either device costs at most `MOST_COST` more, or one after `FULL_ROUNDS`.
    """
    if is_clear(comparison) or comparison is None or comparison.low is None or comparison.high is None:
        return is_clear(comparison)
    if full:
        costs = sorted(map(comparison.cost, (CPU_WINS, GPU_WINS)))
        return costs[comparison.rounds < FULL_ROUNDS] <= MOST_COST
    return is_futile(comparison, most_rounds)


def is_futile(comparison: Comparison | None, most_rounds: int) -> bool:
    """Whether a size is so close to a speedup of 1 that its last possible round, `most_rounds`, would not decide it."""
    if comparison is None or comparison.rounds < FUTILE_ROUNDS or math.isinf(comparison.half_width):
        return False
    return abs(math.log(comparison.speedup)) < FUTILE * comparison.half_width * math.sqrt(
        comparison.rounds / most_rounds
    )


def is_hopeless(speedups: Sequence[float]) -> bool:
    """Whether larger sizes need no CPU times, by the speedups so far in order of size."""
    return len(speedups) >= 2 and min(speedups[-2:]) > HOPELESS
