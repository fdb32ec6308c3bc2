"""The cost of telemetry: the ratio of paired blocks of work, telemetry on over telemetry off."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cpugpu_tui.decide.interval import median_interval

WANTED_HALF_WIDTH = 0.01
"""Rounds continue until the half-width of the ratio's 95 % interval is this small."""

LEAST_ROUNDS = 8
"""As for a case (method.md, step 7)."""

ALLOWED = 1.01
"""Largest ratio allowed for telemetry at its default rate beside a launch-bound loop."""


@dataclass(frozen=True)
class CostRatio:
    """Time of a call with telemetry over its time without, with its 95 % interval."""

    ratio: float
    low: float
    high: float
    rounds: int

    @property
    def half_width(self) -> float:
        """Half the length of the interval of ln(ratio)."""
        return math.log(self.high / self.low) / 2

    @property
    def is_settled(self) -> bool:
        """Whether there are enough rounds and the interval is narrow enough."""
        return self.rounds >= LEAST_ROUNDS and self.half_width <= WANTED_HALF_WIDTH

    @property
    def is_cost(self) -> bool:
        """Whether the interval shows any cost at all."""
        return self.low > 1.0

    @property
    def is_allowed(self) -> bool:
        """Whether the cost is known well enough and within `ALLOWED`."""
        return self.is_settled and self.ratio <= ALLOWED


def cost_ratio(rounds: Sequence[tuple[float, float]]) -> CostRatio | None:
    """Return the ratio of (off_ns, on_ns) per call, one pair a round in order of time; None below 6 rounds.

    The interval of the median of ln(on / off), widened for serial correlation: slow drift of the clock affects several
    rounds alike.
    """
    interval = median_interval([math.log(on_ns / off_ns) for off_ns, on_ns in rounds])
    if interval is None:
        return None
    return CostRatio(math.exp(interval.center), math.exp(interval.low), math.exp(interval.high), len(rounds))
