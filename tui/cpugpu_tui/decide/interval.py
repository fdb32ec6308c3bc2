"""The interval of a median from few rounds that may be correlated.

Standard library only. `make bench ONLY=trust` measures how often it covers the truth (method.md,
"Interval and verdict").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from cpugpu_tui.decide.correlation import MIN_ROUNDS, NONE, Correlation, correlation
from cpugpu_tui.decide.stats import median, percentile, quantile

LEVEL = 0.05
"""Share of intervals that may miss the truth."""

MEMORY = 0.8
"""Assumed correlation of a drift from round to round. A smaller measured lag-1 correlation r means that the drift has
the share r / 0.8 of the variance and independent noise the rest, as on most machines; an AR(1) series forgets faster.
With 0.6, intervals covered such a drift in 90 % instead of 94 %."""


class Interval(NamedTuple):
    """A median with its 95 % confidence interval."""

    center: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the length of the interval."""
        return (self.high - self.low) / 2


def median_interval(values: Sequence[float], others: Correlation = NONE) -> Interval | None:
    """Return the interval of the median of values in order of time, or None below `MIN_ROUNDS` values.

    Order statistics (the sign test), interpolated to 95 % (Hettmansperger and Sheather, 1986). Their distances from the
    median are stretched for correlated values, and reach at least the ranks that as many independent values would need;
    `others` is the correlation of the other cases of the run.
    """
    count = len(values)
    if count < MIN_ROUNDS:
        return None
    ordered, middle = sorted(values), median(values)
    rank, weight, reach = _order(count)
    low = ordered[rank] + weight * (ordered[rank + 1] - ordered[rank])
    high = ordered[-1 - rank] + weight * (ordered[-2 - rank] - ordered[-1 - rank])
    rho = others.plus(correlation(values)).estimate
    stretch, percent = _correlated(count, round(rho * GRID) / GRID)
    factor = reach * stretch
    return Interval(
        middle,
        min(middle - factor * (middle - low), percentile(ordered, percent)),
        max(middle + factor * (high - middle), percentile(ordered, 100 - percent)),
    )


@lru_cache(maxsize=1024)
def _order(count: int) -> tuple[int, float, float]:
    """Return rank (from 0) of the lower end, its weight towards the next rank, and a factor on its distance.

    The values of a rank and of the same rank from above cover the median with a binomial probability. It is above 95 %
    for the returned rank and below for the next one. Up to eight values the extremes would be needed, and one outlier
    would enter. So the next rank is taken, and its distance is stretched to 95 % by Student's t.
    """
    total, ways, rank = 2**count, 1, 0
    outside = ways  # of `total`: at most `rank` values lie below the median
    while True:
        ways = ways * (count - rank) // (rank + 1)
        if 2 * ((outside + ways) / total) > LEVEL:
            break
        outside += ways
        rank += 1
    if rank == 0:
        degrees = (count - 1) / TAIL
        return 1, 0.0, quantile(LEVEL, degrees) / quantile(2 * ((outside + ways) / total), degrees)
    outer, inner = 1 - 2 * (outside / total), 1 - 2 * ((outside + ways) / total)
    share, place = (outer - (1 - LEVEL)) / (outer - inner), rank + 1
    return rank, (count - place) * share / (place + (count - 2 * place) * share), 1.0


TAIL = 2.0
"""Where order statistics stand for a level that is not theirs, the degrees of freedom of Student's t are divided by
this, because their distances vary more than a standard deviation. Without it, searches with equal devices named a
winner in up to 10 %."""

GRID = 40
"""Correlations are rounded to 1 / `GRID`, so that the factors of few pairs of rounds and correlation are needed."""


SIGNS = 0.85
"""Standard error of the share of values below the median, over that of a mean, if values correlate by 0.8: signs of
normal values correlate less, by (2 / π) arcsin ρ."""


@lru_cache(maxsize=4096)
def _correlated(count: int, rho: float) -> tuple[float, float]:
    """Return the factor on the distances of an interval of independent values, and the percentile of its lower end.

    Values of two modes lie close together within each, so that no factor reaches from one to the other: without the
    percentile 87 to 92 % of intervals covered such rounds at a correlation of 0.8. It leaves out one value at each end,
    so that a single outlier does not enter.
    """
    memory = max(rho, MEMORY)
    inflation, degrees = _series(count, memory)
    share = rho / memory
    inflation = 1 + share * (inflation - 1)
    degrees = (1 - share) * (count - 1) + share * degrees
    error = SIGNS * math.sqrt(inflation / count)
    percent = max(50 - 50 * quantile(LEVEL, math.inf) * error, 100 / (count - 1))
    return math.sqrt(inflation) * quantile(LEVEL, degrees) / quantile(LEVEL, count - 1), percent


def _series(count: int, rho: float) -> tuple[float, float]:
    """Return how much larger the variance of an AR(1) series' mean is than its usual estimate, and that one's degrees.

    Exact expectations for `count` values: with R the matrix of correlations, C = R after both means are subtracted,
    the estimate has tr(C) degrees on average, and tr(C)² / tr(C²) in Satterthwaite's sense.
    """
    powers = [rho**lag for lag in range(count + 1)]
    total = count + 2 * math.fsum((count - lag) * powers[lag] for lag in range(1, count))
    squares = count + 2 * math.fsum((count - lag) * powers[lag] ** 2 for lag in range(1, count))
    rows = math.fsum(((1 + rho - powers[i + 1] - powers[count - i]) / (1 - rho)) ** 2 for i in range(count))
    trace = count - total / count
    return total / count * (count - 1) / trace, trace**2 / (squares - 2 * rows / count + (total / count) ** 2)
