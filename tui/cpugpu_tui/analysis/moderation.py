"""Moderated variances: cases of one class of times (device and metric) lend each other degrees of freedom.

Five runs on each side give a case 8 degrees of freedom of its own. With 25 cases its interval is then 1.7 times as wide
as if its variance were known, and 10 % at a noise of 2 % is found in 76 of 100 comparisons only. The variances of a
class resemble each other, so that each is pulled towards the one they share (Smyth 2004, doi:10.2202/1544-6115.1027).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, variance
from typing import NamedTuple

from cpugpu_tui.decide.stats import median

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
