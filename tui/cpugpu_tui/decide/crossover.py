"""From which size on the GPU is faster: a point and a bracket, from the verdicts of a sweep.

The bracket is what is published: the largest size whose interval says CPU, and the smallest above it whose interval
says GPU (method.md: a bootstrap of the point covers the truth in 0-61 % of sweeps, this bracket in 90-100 %).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from cpugpu_tui.decide.verdict import CPU_WINS, GPU_WINS, TIE, TOO_FEW, Comparison

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
