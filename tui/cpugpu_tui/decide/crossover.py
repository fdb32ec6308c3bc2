"""From which size on the GPU is faster: a point and a bracket, from the verdicts of a sweep; and the next size to try.

The bracket is what is published: the largest size whose interval says CPU, and the smallest above it whose interval
says GPU (method.md: a bootstrap of the point covers the truth in 0-61 % of sweeps, this bracket in 90-100 %).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from cpugpu_tui.decide.verdict import CPU_WINS, GPU_WINS, NARROW, TIE, TOO_FEW, Comparison

NOTHING, TOO_FEW_ROUNDS, TIES, NO_WINNER, ALWAYS, NEVER, RISES, FALLS, SEVERAL = (
    "nothing timed", "too few rounds", "ties", "undecided", "always", "never", "crossover", "falls behind", "several"
)  # fmt: skip
"""What a sweep can say: no size on both devices; no interval anywhere; only ties; no winner; the GPU wins at every
decided size; the CPU does; the CPU up to the bracket, the GPU above; the reverse; the lead changes more than once."""


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """One size of a sweep with its comparison."""

    size: int
    comparison: Comparison


@dataclass(frozen=True)
class Crossover:
    """Where the lead changes for the last time, and how often it does."""

    kind: str
    """One of the words above."""
    low: int | None = None
    """Lower end of the bracket: the last change lies above this size."""
    high: int | None = None
    """Upper end: and below this one."""
    point: float | None = None
    """Where the speed-up is 1 within the bracket."""
    first_win: int | None = None
    """Smallest size at which the GPU wins; below `high` where the lead changes several times."""
    changes: int = 0
    """How often the winner differs between neighbouring decided sizes."""
    rises: bool = False
    """Whether the GPU is the winner above the bracket."""
    points: tuple[SweepPoint, ...] = ()
    """What it was found from: sizes rising, each once."""

    @property
    def ratio(self) -> float | None:
        """Upper end / lower end; None without a bracket."""
        return self.high / self.low if self.low and self.high else None


def crossover(points: Iterable[SweepPoint]) -> Crossover:
    """Return the crossover of a sweep; points in any order, of a repeated size the one with most rounds."""
    usable = _usable(points)
    decided = [point for point in usable if point.comparison.verdict in (CPU_WINS, GPU_WINS)]
    if not decided:
        return Crossover(_without_winner(usable), points=usable)
    wins = [point.size for point in decided if point.comparison.verdict == GPU_WINS]
    changes = [(a, b) for a, b in pairwise(decided) if a.comparison.verdict != b.comparison.verdict]
    first_win = min(wins, default=None)
    if not changes:
        return Crossover(ALWAYS if wins else NEVER, first_win=first_win, rises=bool(wins), points=usable)
    below, above = changes[-1]
    rises = above.comparison.verdict == GPU_WINS
    kind = SEVERAL if len(changes) > 1 else RISES if rises else FALLS
    inside = [point for point in usable if below.size <= point.size <= above.size]
    return Crossover(
        kind, below.size, above.size, _level(inside, rises=rises), first_win, len(changes), rises, usable
    )  # fmt: skip


def _usable(points: Iterable[SweepPoint]) -> tuple[SweepPoint, ...]:
    """Return points with a speed-up that is a number, sizes rising, each once."""
    best: dict[int, SweepPoint] = {}
    for point in points:
        speedup = point.comparison.speedup
        if not (math.isfinite(speedup) and speedup > 0 and point.size > 0):
            continue
        if point.size not in best or _weight(point) > _weight(best[point.size]):
            best[point.size] = point
    return tuple(best[size] for size in sorted(best))


def _weight(point: SweepPoint) -> tuple[int, str]:
    """Return what decides between two points of one size; the text only keeps their order out of the answer."""
    return point.comparison.rounds, repr(point.comparison)


def _without_winner(points: Sequence[SweepPoint]) -> str:
    verdicts = {point.comparison.verdict for point in points}
    if not verdicts:
        return NOTHING
    return {frozenset({TOO_FEW}): TOO_FEW_ROUNDS, frozenset({TIE}): TIES}.get(frozenset(verdicts), NO_WINNER)


LEAST_SPREAD = 0.01
"""A half-width of ln(speed-up) below which a point is not worth more: sizes are told apart no finer."""


def _level(points: Sequence[SweepPoint], *, rises: bool) -> float:
    """Return the size at which the speed-up is 1: least squares of ln(speed-up) over ln(size), held in the bracket.

    Points count by what their intervals leave open: on a shared host one of ±85 % had bent the line to the bracket's
    end. With two points this is interpolation, and so it is where the line is level outside of the bracket or leans
    the wrong way.
    """
    low, high = points[0].size, points[-1].size
    xs = [math.log(point.size) for point in points]
    ys = [math.log(point.comparison.speedup) for point in points]
    level_x = _zero(xs, ys, [_precision(point.comparison) for point in points], rises=rises)
    if level_x is None or not xs[0] < level_x < xs[-1]:
        level_x = _zero([xs[0], xs[-1]], [ys[0], ys[-1]], [1.0, 1.0], rises=rises)
    if level_x is None:
        level_x = (xs[0] + xs[-1]) / 2
    # Held in the bracket by its sizes, not their logarithms: exp(log(5)) is 4.999….
    return min(max(math.exp(min(level_x, xs[-1])), low), high)


def _precision(comparison: Comparison) -> float:
    """Return how much a point counts: the reciprocal of its variance, 1 for one without an interval."""
    low, high = comparison.low, comparison.high
    if low is None or high is None or not 0 < low <= high < math.inf:
        return 1.0
    return 1 / (LEAST_SPREAD + (math.log(high) - math.log(low)) / 2) ** 2


def _zero(xs: Sequence[float], ys: Sequence[float], weights: Sequence[float], *, rises: bool) -> float | None:
    """Return where the weighted line through the points is 0; None where it leans the wrong way or not at all."""
    total = math.fsum(weights)
    middle_x = math.fsum(w * x for w, x in zip(weights, xs, strict=True)) / total
    middle_y = math.fsum(w * y for w, y in zip(weights, ys, strict=True)) / total
    slope_up = math.fsum(w * (x - middle_x) * (y - middle_y) for w, x, y in zip(weights, xs, ys, strict=True))
    spread = math.fsum(w * (x - middle_x) ** 2 for w, x in zip(weights, xs, strict=True))
    if slope_up == 0 or (slope_up > 0) != rises:
        return None
    return middle_x - middle_y * spread / slope_up


# ------------------------------------------------------------------ which size next

MOST_GRID = 13
"""Sizes of the coarse grid at most: 1-2-5 over four decades; longer axes are taken in steps of ten."""

NEAR_END = 1.4
"""A grid size closer than this to an end of the axis is left out: the end stands for it."""

LEAST_GAP = 1.02
"""Sizes closer than this are not told apart: with it time differs by some 4 %, twice the margin of a tie."""

SEARCH_STEP = 0.45
"""Choices lie ratio^0.45 beside the level point, so that two of them are closer than the ratio."""

HOPELESS = 20.0
"""From this speed-up at two sizes in a row the CPU is left out above (method.md, "Crossover")."""


def grid(lowest: int, highest: int) -> tuple[int, ...]:
    """Return the sizes that a search starts with: both ends, and 1-2-5 (or 1) times powers of ten in between."""
    lowest, highest = min(lowest, highest), max(lowest, highest)
    for digits in ((1, 2, 5), (1,)):
        powers = range(int(math.log10(lowest)), int(math.log10(highest)) + 1)
        between = [digit * 10**power for power in powers for digit in digits]
        sizes = [lowest, *(size for size in between if lowest * NEAR_END <= size <= highest / NEAR_END), highest]
        if len(sizes) <= MOST_GRID:
            break
    return tuple(dict.fromkeys(sizes))


def next_size(points: Sequence[SweepPoint], tried: Collection[int], ratio: float) -> int | None:
    """Return the size that narrows the last change of the lead most, None where that is narrow or nothing can.

    It lies in the wider of the two gaps between the bracket's ends and what is undecided inside, one step beyond the
    level point or the undecided sizes: two such choices, one on each side, make a narrow bracket. Where no step fits
    one of these gaps is halved in ln(size). Sizes in `tried` are not proposed again.
    """
    found = crossover(points)
    if found.low is None or found.high is None or found.point is None or found.high / found.low <= ratio:
        return None
    low, high = found.low, found.high
    inside = [low, *sorted(size for size in set(tried) if low < size < high), high]
    # The more is undecided the wider is the noise: with equal steps a search crept through ±15 % in ten of them.
    step = math.pow(ratio, SEARCH_STEP * max(1, len(inside) - 2))
    lower, upper = inside[1] / low, high / inside[-2]
    above = max(found.point, inside[-2] if len(inside) > 2 else 0) * step
    below = min(found.point, inside[1] if len(inside) > 2 else math.inf) / step
    if len(inside) == 2:
        lower, upper = found.point / low, high / found.point
    beside = round(above if upper >= lower else below)
    if beside not in inside and low * LEAST_GAP < beside < high / LEAST_GAP:
        return beside
    # Only a winner moves an end of the bracket, and between undecided sizes there will hardly be one. Where these are
    # too far apart for a narrow bracket, its ends are brought near them and no more: 5 sizes instead of 13 for a
    # speed-up that grows with the root of the size.
    is_wide = len(inside) > 2 and inside[-2] / inside[1] * LEAST_GAP**2 > ratio
    least = math.sqrt(ratio) if is_wide else LEAST_GAP
    gaps = ((low, inside[1]), (inside[-2], high))
    for start, end in sorted(gaps, key=lambda gap: gap[1] / gap[0], reverse=True):
        middle = round(math.sqrt(start * end))
        if end / start >= least and start < middle < end:
            return middle
    return None


def is_clear(comparison: Comparison | None) -> bool:
    """Whether more rounds would not change what a search does next: a winner, or an interval as narrow as it gets."""
    if comparison is None or comparison.verdict == TOO_FEW or comparison.plus_minus is None:
        return False
    return comparison.verdict in (CPU_WINS, GPU_WINS) or comparison.plus_minus <= NARROW


def is_hopeless(speedups: Sequence[float]) -> bool:
    """Whether the CPU need not be timed at larger sizes, from the speed-ups at the sizes so far, rising."""
    return len(speedups) >= 2 and min(speedups[-2:]) > HOPELESS
