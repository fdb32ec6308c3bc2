"""The correlation of a run's rounds. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

MIN_ROUNDS = 6
"""Least rounds for an interval: the range of five values covers their median in 93.75 %, that of six in 96.9 %."""

MOST_CORRELATION = 0.9
"""Upper bound of the correlation: 40 rounds cannot tell a stronger one from a trend."""

PRIOR_ROUNDS = 10
"""Rounds of the most correlation that are assumed beside the measured ones, because few rounds say almost nothing."""

WINSORIZED_SHARE = 8
"""At each end, 1 of this many values and at least one is moved to the next value before correlations are computed."""


class Correlation(NamedTuple):
    """Lag-1 autocorrelation of several series of rounds, as sums to which further series can be added."""

    products: float = 0.0
    """Sum over series of rounds × their correlation, plus 1 each, which removes the bias of independent rounds."""
    rounds: int = 0
    series: int = 0

    def plus(self, other: Correlation) -> Correlation:
        """Return the sums of both."""
        return Correlation(self.products + other.products, self.rounds + other.rounds, self.series + other.series)

    def minus(self, other: Correlation) -> Correlation:
        """Return these sums without the `other` that they contain."""
        return Correlation(self.products - other.products, self.rounds - other.rounds, self.series - other.series)

    @property
    def estimate(self) -> float:
        """Cautious estimate, from 0 to `MOST_CORRELATION`, which it is without rounds.

        That of a series alone is too low by (1 + 4 rho) / rounds (Kendall, 1954).
        """
        weight = self.rounds - 4 * self.series + PRIOR_ROUNDS
        return min(max((self.products + PRIOR_ROUNDS * MOST_CORRELATION) / weight, 0.0), MOST_CORRELATION)


NONE = Correlation()


def correlation(values: Sequence[float]) -> Correlation:
    """Return the correlation of values in order of time; `NONE` if they are fewer than `MIN_ROUNDS` or all equal."""
    count = len(values)
    if count < MIN_ROUNDS:
        return NONE
    ordered, cut = sorted(values), max(1, count // WINSORIZED_SHARE)
    least, most = ordered[cut], ordered[-1 - cut]
    moved = [min(max(value, least), most) for value in values]
    mean = math.fsum(moved) / count
    offsets = [value - mean for value in moved]
    squares = math.fsum(offset * offset for offset in offsets)
    if squares == 0.0:
        return NONE
    return Correlation(count * math.fsum(a * b for a, b in pairwise(offsets)) / squares + 1.0, count, 1)


class Pool:
    """The correlation of all rounds of a run in progress."""

    def __init__(self) -> None:
        self._total = NONE
        self._cases: dict[str, Correlation] = {}

    def others(self, case: str, own: Correlation) -> Correlation:
        """Replace the correlation of a case, and return that of the other cases."""
        others = self._total.minus(self._cases.get(case, NONE))
        self._cases[case] = own
        self._total = others.plus(own)
        return others
