"""Robust statistics of timing samples: medians, spreads, Student intervals, lines. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist, fmean

from cpugpu_tui.model import Line

STEPS = 200
"""Steps of Simpson's rule. Up to 60 degrees, tails down to 1e-9 have a relative error below 1e-3 (against scipy)."""


def two_sided_p(t: float, degrees: float) -> float:
    """Return the probability that |T| is at least |t|; `degrees` ≥ 1.

    T = √degrees·tan θ turns the density into a finite integral: 2C ∫ sin^(degrees−1) u du from 0 to u(t), the angle
    left to π/2. Integrating the tail itself keeps small probabilities exact, unlike 1 − (almost 1).
    """
    if math.isinf(t):
        return 0.0
    rest = math.atan2(math.sqrt(degrees), abs(t))
    log_c = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2) - 0.5 * math.log(math.pi)
    # u = rest·s² removes the root at 0 that fractional exponents have.
    total = 0.0
    for step in range(1, STEPS + 1):
        s = step / STEPS
        weight = 1.0 if step == STEPS else 4.0 if step % 2 else 2.0
        total += weight * s * math.exp((degrees - 1) * math.log(math.sin(rest * s * s)))
    integral = total / (3 * STEPS) * 2 * rest
    return min(1.0, 2 * math.exp(log_c) * integral)


@lru_cache(maxsize=256)
def quantile(two_sided: float, degrees: float) -> float:
    """Return t such that |T| is at least t with this probability: 0.05 gives the bound of a 95 % interval.

    Cached, because it takes 2 ms and all cases of two series need the same value.
    """
    low, high = 0.0, NormalDist().inv_cdf(1 - two_sided / 2)
    while two_sided_p(high, degrees) > two_sided:
        low, high = high, 2 * high
    while high - low > 1e-7 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided_p(middle, degrees) > two_sided else (low, middle)
    return high


MIN_ROUNDS = 5
"""Least rounds for an interval (method.md, step 7)."""


def percentile(samples: Sequence[float], percent: float) -> float:
    """Return the `percent` percentile by linear interpolation between order statistics.

    Raises:
        ValueError: `samples` is empty.
    """
    if not samples:
        raise ValueError("a percentile needs at least one sample")
    ordered = sorted(samples)
    position = (len(ordered) - 1) * percent / 100.0
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    # The form a + (b-a)·f keeps the result inside [a, b] in floating point, too.
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def median(samples: Sequence[float]) -> float:
    """Return the middle sample, or the mean of the two middle ones."""
    return percentile(samples, 50.0)


def student_t_975(degrees: int) -> float:
    """Return the 97.5 % quantile of Student's t with `degrees` ≥ 3 degrees of freedom, within 0.5 %.

    Cornish-Fisher expansion about the normal quantile (Abramowitz and Stegun, 26.7.5). Unlike `quantile` it also works
    for thousands of degrees.
    """
    z = NormalDist().inv_cdf(0.975)
    v = float(degrees)
    return (
        z
        + (z**3 + z) / (4 * v)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * v**4)
    )


@dataclass(frozen=True)
class Interval:
    """A mean with its 95 % confidence interval."""

    mean: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the length of the interval."""
        return (self.high - self.low) / 2


def mean_interval(values: Sequence[float]) -> Interval | None:
    """Return the 95 % t-interval of the mean, or None for fewer than `MIN_ROUNDS` values.

    The values must be independent, so not samples of one block: with raw samples, 78-85 % of identical pairs were
    called different. Use `series_interval` for the medians of rounds.
    """
    if len(values) < MIN_ROUNDS:
        return None
    mean = fmean(values)
    # Not statistics.stdev: its exact fractions take 0.4 ms for 40 values, and the agent calls this after every round.
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    half = student_t_975(len(values) - 1) * math.sqrt(variance / len(values))
    return Interval(mean, mean - half, mean + half)


MOST_CORRELATION = 0.9
"""Upper bound of the correlation: 40 values cannot tell a stronger one from a trend."""


def serial_correlation(values: Sequence[float]) -> float:
    """Return the lag-1 autocorrelation of values in order of time, clamped to 0 and `MOST_CORRELATION`."""
    mean = fmean(values)
    offsets = [value - mean for value in values]
    spread = math.fsum(offset * offset for offset in offsets)
    if spread == 0.0:
        return 0.0
    shared = math.fsum(a * b for a, b in pairwise(offsets))
    return min(max(shared / spread, 0.0), MOST_CORRELATION)


def series_interval(values: Sequence[float]) -> Interval | None:
    """Return the 95 % t-interval of the mean of values in order of time, widened for serial correlation.

    The half-width of `mean_interval` times sqrt((1 + rho) / (1 - rho)), the error of the mean of an AR(1) series
    (method.md). Simulated 4000 times with two equal devices, 3 % noise, 2 % drift and 8 to 40 rounds, devices were
    called different with / without that factor: 0 / 0 % for drift without memory, 1.7 / 3.0 % if each round keeps 0.8
    of the drift, and 0.1 / 0.1 % if it keeps 0.4, as rounds spread over a window of four cases do.
    """
    interval = mean_interval(values)
    if interval is None:
        return None
    rho = serial_correlation(values)
    half = interval.half_width * math.sqrt((1 + rho) / (1 - rho))
    return Interval(interval.mean, interval.mean - half, interval.mean + half)


TRIMMED_SHARE = 8
"""At each end, 1 of this many values is trimmed, and at least one."""


def trimmed_interval(values: Sequence[float]) -> Interval | None:
    """Return the 95 % interval of the trimmed mean of values in order of time, or None below `MIN_ROUNDS` values.

    The mean after trimming, with the standard error from the winsorized values (Tukey and McLaughlin, 1963), widened
    for serial correlation as in `series_interval`. It resists outliers: eight rounds of 5 % noise, one of them three
    times as long, have ± 3.2 %; the t-interval of the mean has ± 33 %.
    """
    if len(values) < MIN_ROUNDS:
        return None
    cut = max(1, len(values) // TRIMMED_SHARE)
    ordered = sorted(values)
    trimmed = ordered[cut:-cut]
    winsorized = [min(max(value, trimmed[0]), trimmed[-1]) for value in values]
    middle, mean = fmean(winsorized), fmean(trimmed)
    variance = math.fsum((value - middle) ** 2 for value in winsorized) / (len(values) - 1)
    rho = serial_correlation(winsorized)
    error = math.sqrt(variance * len(values) * (1 + rho) / (1 - rho)) / len(trimmed)
    half = quantile(0.05, len(trimmed) - 1) * error
    return Interval(mean, mean - half, mean + half)


LARGE = 1 / 16
"""The rate comes from sizes down to this share of the largest. Medium copies from pageable memory use a staging buffer
piece by piece, and would distort both constants."""

SMALL = 0.5
"""The start-up comes from sizes of whose time the rate explains at most this share."""

TURNS = 4
"""Iterations: each constant needs the other. With sizes from 4 B to 256 MiB they converge after two."""


def fit_line(points: Sequence[tuple[float, float]]) -> Line:
    """Return start-up and rate of copies from (bytes, ns).

    The start-up is the median time of small copies beyond the rate; the rate is the median of large copies without
    the start-up. Medians make both robust against one disturbed size. A negative start-up becomes 0.

    Raises:
        ValueError: fewer than two different sizes, or larger copies take no longer.
    """
    if len({size for size, _ in points}) < 2:
        raise ValueError("a line needs two sizes")
    smallest, (largest, largest_ns) = min(points), max(points)
    large = [(size, ns) for size, ns in points if size >= LARGE * largest and size > smallest[0]]
    alpha_ns, ns_per_byte = 0.0, largest_ns / largest
    for _ in range(TURNS):
        small = [(size, ns) for size, ns in points if ns_per_byte * size <= SMALL * ns] or [smallest]
        alpha_ns = max(0.0, median([ns - ns_per_byte * size for size, ns in small]))
        ns_per_byte = median([(ns - alpha_ns) / size for size, ns in large])
        if ns_per_byte <= 0.0:
            raise ValueError("larger copies take no longer")
    return Line(alpha_ns, 1e9 / ns_per_byte)
