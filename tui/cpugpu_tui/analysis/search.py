"""Which size next: an adaptive sweep's choices, from what is known so far. Pure; the agent asks after every pass."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence

from cpugpu_tui.analysis.crossover import SweepPoint, crossover
from cpugpu_tui.analysis.verdict import CPU_WINS, GPU_WINS, NARROW, TOO_FEW, Comparison

MOST_GRID = 13
"""Sizes of the coarse grid at most: 1-2-5 over four decades; longer axes are taken in steps of ten."""

NEAR_END = 1.4
"""A grid size closer than this to an end of the axis is left out: the end stands for it."""

LEAST_GAP = 1.02
"""Sizes closer than this are not told apart: with it time differs by some 4 %, twice the margin of a tie."""

HOPELESS = 20.0
"""From this speed-up at two sizes in a row the CPU is left out above (measurement.md §7.3)."""


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

    The first choices lie just beside where the line through the bracket's ends is level, on the side that is farther
    away; what is left is halved in ln(size). Sizes in `tried` are not proposed again.
    """
    found = crossover(points)
    if found.low is None or found.high is None or found.point is None or found.high / found.low <= ratio:
        return None
    inside = sorted({found.low, found.high, *(size for size in tried if found.low < size < found.high)})
    if len(inside) == 2:
        beside = _beside(found.low, found.high, found.point, math.sqrt(ratio))
        if beside is not None:
            return beside
    gaps = sorted(itertools.pairwise(inside), key=lambda gap: gap[1] / gap[0], reverse=True)
    for low, high in gaps:
        middle = round(math.sqrt(low * high))
        if high / low >= LEAST_GAP and low < middle < high:
            return middle
    return None


def _beside(low: int, high: int, point: float, step: float) -> int | None:
    """Return the size one step beside the level point that cuts off the longer part; None where that is no size."""
    upward = point / low < high / point
    size = round(point * step if upward else point / step)
    return size if low * LEAST_GAP < size < high / LEAST_GAP else None


def is_clear(comparison: Comparison | None) -> bool:
    """Whether more rounds would not change what a search does next: a winner, or an interval as narrow as it gets."""
    if comparison is None or comparison.verdict == TOO_FEW or comparison.plus_minus is None:
        return False
    return comparison.verdict in (CPU_WINS, GPU_WINS) or comparison.plus_minus <= NARROW


def is_hopeless(speedups: Sequence[float]) -> bool:
    """Whether the CPU need not be timed at larger sizes, from the speed-ups at the sizes so far, rising."""
    return len(speedups) >= 2 and min(speedups[-2:]) > HOPELESS
