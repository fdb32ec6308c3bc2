"""Which size next: an adaptive sweep's choices, from what is known so far. Pure; the agent asks after every pass."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from cpugpu_tui.decide.crossover import SweepPoint, crossover
from cpugpu_tui.decide.verdict import CPU_WINS, GPU_WINS, NARROW, TOO_FEW, Comparison

MOST_GRID = 13
"""Sizes of the coarse grid at most: 1-2-5 over four decades; longer axes are taken in steps of ten."""

NEAR_END = 1.4
"""A grid size closer than this to an end of the axis is left out: the end stands for it."""

LEAST_GAP = 1.02
"""Sizes closer than this are not told apart: with it time differs by some 4 %, twice the margin of a tie."""

STEP = 0.45
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
    step = math.pow(ratio, STEP * max(1, len(inside) - 2))
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
