"""The interval of a value that differs from start to start of a process, and the sizes that further starts time.

Within one start a case's rounds agree more than those of another start do: memory lies elsewhere, threads on other
cores. Measured on a GPU server, the same code differs between starts by 5 to 14 %, sometimes by 2×. So an interval of
one start's rounds says little about the next run (method.md, "Starts").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from cpugpu_tui.decide.interval import LEVEL, Interval
from cpugpu_tui.decide.stats import quantile

LEAST_EARLIER = 3
"""Least earlier starts whose spread is used: from two of them, Student's t would be 12.7."""

MOST_EARLIER = 20
"""Most earlier starts of a case that are used, the newest."""


class Spread(NamedTuple):
    """How much a value differs between starts of one case: a sum of squares, and its degrees of freedom."""

    squares: float = 0.0
    degrees: int = 0

    def plus(self, other: Spread) -> Spread:
        """Return the sums of both, which moderate each other's variance."""
        return Spread(self.squares + other.squares, self.degrees + other.degrees)


NO_SPREAD = Spread()


def spread(values: Sequence[float]) -> Spread:
    """Return the spread of one value for each start; `NO_SPREAD` for fewer than two."""
    if len(values) < 2:
        return NO_SPREAD
    mean = math.fsum(values) / len(values)
    return Spread(math.fsum((value - mean) ** 2 for value in values), len(values) - 1)


def earlier_spread(values: Sequence[float]) -> Spread:
    """Return the spread of the newest earlier starts, which stand last in `values`; `NO_SPREAD` if they are too few."""
    return spread(values[-MOST_EARLIER:]) if len(values) >= LEAST_EARLIER else NO_SPREAD


def starts_interval(values: Sequence[float], earlier: Spread = NO_SPREAD) -> Interval | None:
    """Return the interval of the mean over all starts, from one value for each start that was timed.

    mean ± t(d)·√(s²/k): the variance s² of k starts is moderated by that of `earlier` starts of the same case (Smyth,
    2004), and d is the degrees of freedom of both. With one start it is that of earlier starts alone, and ± t·s then
    also covers the next start. None if nothing is known of the variance.
    """
    both = spread(values).plus(earlier)
    if not values or not both.degrees:
        return None
    mean = math.fsum(values) / len(values)
    half = quantile(LEVEL, both.degrees) * math.sqrt(both.squares / both.degrees / len(values))
    return Interval(mean, mean - half, mean + half)


# ------------------------------------------------------------------ which sizes the further starts time

MOST_SIZES = 6
"""Most sizes of a sweep that further starts time in a search."""

CLEAR = 0.3
"""|ln(speedup)| from which a size is likely to stay decided when starts differ by 10 to 14 %."""


def sizes_to_repeat(logs: Sequence[tuple[int, float]], other_logs: Sequence[tuple[int, float]] = ()) -> list[int]:
    """Return up to `MOST_SIZES` sizes of a sweep that decide its answer, from (size, ln(speedup)) in order of size.

    These are the sizes on both sides of the last change of the sign and, beyond each, the next one with a clear
    winner; the largest size; and the two sides of the change in `other_logs`, those with copies. Without a change they
    are spread over the sweep.
    """
    sizes = [size for size, _ in logs]
    wanted = [*_beside_change(logs), *sizes[-1:], *_beside_change(other_logs)[:2], *sizes[:1]]
    if not _beside_change(logs):
        nearest = min(logs, key=lambda each: abs(each[1]), default=None)
        wanted[:0] = [] if nearest is None else [nearest[0]]
        wanted += [sizes[index * (len(sizes) - 1) // (MOST_SIZES - 1)] for index in range(MOST_SIZES) if sizes]
    known = [size for size in dict.fromkeys(wanted) if size in sizes]
    return sorted(known[:MOST_SIZES])


def _beside_change(logs: Sequence[tuple[int, float]]) -> list[int]:
    """Return the sizes beside the last change of the sign, and beyond each the next that is clear; inner ones first."""
    last = next((index for index in range(len(logs) - 1, 0, -1) if logs[index - 1][1] * logs[index][1] < 0), None)
    if last is None:
        return []
    below, above = logs[:last][::-1], logs[last:]
    clear = [next((size for size, log in side[1:] if abs(log) >= CLEAR), None) for side in (below, above)]
    return [below[0][0], above[0][0], *(size for size in clear if size is not None)]
