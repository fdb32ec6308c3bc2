"""Robust statistics of timing samples: medians, Student's t, lines, shared variances. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from cpugpu_tui import model

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


@lru_cache(maxsize=4096)
def quantile(two_sided: float, degrees: float) -> float:
    """Return t such that |T| is at least t with this probability: 0.05 gives the bound of a 95 % interval.

    Cached, because it takes 0.6 ms and all cases of two series need the same value.
    """
    from statistics import NormalDist  # takes 2 ms to import

    z = NormalDist().inv_cdf(1 - two_sided / 2)
    if degrees > MOST_DEGREES:
        return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
    log_c = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2) - 0.5 * math.log(math.pi * degrees)
    # Newton's method for ln p over ln t, which is almost a line in the tail.
    t = z
    for _ in range(NEWTON_STEPS):
        p = two_sided_p(t, degrees)
        density = math.exp(log_c - (degrees + 1) / 2 * math.log1p(t * t / degrees))
        step = math.log(p / two_sided) * p / (2 * density * t)
        t *= math.exp(step)
        if abs(step) < 1e-7:
            break
    return t


MOST_DEGREES = 200.0
"""Above this, Student's quantile comes from the expansion about the normal one (Abramowitz and Stegun, 26.7.5)."""

NEWTON_STEPS = 50
"""Most steps; four to seven are usual."""


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


LARGE = 1 / 16
"""The rate comes from sizes down to this share of the largest. Medium copies from pageable memory use a staging buffer
piece by piece, and would distort both constants."""

SMALL = 0.5
"""The start-up comes from sizes of whose time the rate explains at most this share."""

TURNS = 4
"""Iterations: each constant needs the other. With sizes from 4 B to 256 MiB they converge after two."""


def fit_line(points: Sequence[tuple[float, float]]) -> model.Line:
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
    return model.Line(alpha_ns, 1e9 / ns_per_byte)


# ------------------------------------------------------------------ moderated variances


LEAST_CASES = 3
"""Below this number of cases nothing is known of how the variances of a class differ."""

LENT = 8.0
"""Degrees of freedom that a class lends to a case. More would trust the class where it is wrong about a case.

It lends none if its variances differ by more than that of so many degrees of freedom. Lending fewer then, as Smyth's
estimate says, called 1.8 instead of 1.1 % of equal comparisons different whose noise differs by 4 to 8 times."""

LOUD = 3.0
"""A case whose variance exceeds the median of its class by this factor keeps its own: the class is too quiet for it."""


class Variance(NamedTuple):
    """A variance and what is behind it."""

    value: float
    degrees: float


def moderated(own: Sequence[Variance]) -> list[Variance]:
    """Return the variances of the cases of one class, each with what the class lends it; each value above 0."""
    loud = LOUD * median([each.value for each in own]) if own else 0.0
    alike = [each for each in own if each.value <= loud]
    lent = _common(alike) if len(own) >= LEAST_CASES else None
    if lent is None:
        return list(own)
    return [each if each.value > loud else _pooled(each, lent) for each in own]


def _pooled(own: Variance, lent: Variance) -> Variance:
    degrees = own.degrees + lent.degrees
    return Variance((own.degrees * own.value + lent.degrees * lent.value) / degrees, degrees)


def _common(own: Sequence[Variance]) -> Variance | None:
    """Return the variance that a class shares, with its degrees of freedom; None if it shares none.

    ln(s²) of a case has the variance trigamma(d/2) by chance alone; what it has beyond that tells how much true
    variances differ (Smyth 2004, section 6.2).
    """
    from statistics import fmean, variance  # as in `quantile`

    centred = [math.log(each.value) - _digamma(each.degrees / 2) + math.log(each.degrees / 2) for each in own]
    beyond = variance(centred) - fmean(_trigamma(each.degrees / 2) for each in own)
    if beyond > _trigamma(LENT / 2):
        return None
    return Variance(math.exp(fmean(centred) + _digamma(LENT / 2) - math.log(LENT / 2)), LENT)


def _digamma(x: float) -> float:
    """Return the derivative of ln Γ at x > 0 (Abramowitz and Stegun, 6.3.5 and 6.3.18); exact to 1e-9."""
    below = 0.0
    while x < 10:
        below, x = below + 1 / x, x + 1
    return math.log(x) - 1 / (2 * x) - 1 / (12 * x**2) + 1 / (120 * x**4) - 1 / (252 * x**6) - below


def _trigamma(x: float) -> float:
    """Return the second derivative of ln Γ at x > 0 (Abramowitz and Stegun, 6.4.6 and 6.4.12); exact to 1e-9."""
    below = 0.0
    while x < 10:
        below, x = below + 1 / x**2, x + 1
    return 1 / x + 1 / (2 * x**2) + 1 / (6 * x**3) - 1 / (30 * x**5) + 1 / (42 * x**7) + below
