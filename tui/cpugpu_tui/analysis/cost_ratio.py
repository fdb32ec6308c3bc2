"""What watching the machine costs: the ratio of paired blocks of work, telemetry on over telemetry off."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cpugpu_tui.decide.stats import series_interval

WANTED_HALF_WIDTH = 0.01
"""Rounds are taken until the 95 % interval of the ratio is this narrow."""

LEAST_ROUNDS = 8
"""As for a case (method.md, step 7)."""

ALLOWED = 1.01
"""Telemetry at its default rate may cost so much of a launch-bound loop."""


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
        """Whether there are rounds enough and the interval is as narrow as wanted."""
        return self.rounds >= LEAST_ROUNDS and self.half_width <= WANTED_HALF_WIDTH

    @property
    def is_cost(self) -> bool:
        """Whether it may be said that telemetry costs anything at all."""
        return self.low > 1.0

    @property
    def is_allowed(self) -> bool:
        """Whether the cost, as well as it is known, is within what we promise."""
        return self.is_settled and self.ratio <= ALLOWED


def cost_ratio(rounds: Sequence[tuple[float, float]]) -> CostRatio | None:
    """Return the ratio of (off_ns, on_ns) per call, one pair a round in order of time; None for fewer than 5 rounds.

    The t-interval of the mean of ln(on / off), wider where neighbouring rounds resemble each other: a clock that
    wanders over seconds is in several rounds alike.
    """
    interval = series_interval([math.log(on_ns / off_ns) for off_ns, on_ns in rounds])
    if interval is None:
        return None
    return CostRatio(math.exp(interval.mean), math.exp(interval.low), math.exp(interval.high), len(rounds))
