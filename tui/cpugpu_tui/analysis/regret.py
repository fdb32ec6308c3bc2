"""How much time is lost by choosing a device by a file of thresholds instead of timing both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from cpugpu_tui.thresholds import CPU, GPU, Threshold

NARROW = 1.1
"""Gaps up to this ratio are neither verified nor counted as unanswered. No search narrows a bracket further."""

MOST_MEAN, LEAST_ANSWERED = 0.02, 0.95
"""Limits of a file: mean regret, and share of the sizes that it answers."""

MOST_OF_ONE = 0.05
"""Limit of the lower bound of the mean regret of one threshold."""


def held_out(threshold: Threshold) -> dict[int, float]:
    """Return sizes to verify: the middle of each gap between timed sizes in which the file answers, with its width."""
    gaps = (gap for gap in pairwise(threshold.timed) if gap[1] > gap[0] * NARROW)
    middles = {round(math.sqrt(low * high)): math.log(high / low) for low, high in gaps}
    known = {*threshold.timed}
    return {size: width for size, width in middles.items() if size not in known and chosen(threshold, size) is not None}


def chosen(threshold: Threshold, size: int) -> str | None:
    """Return the device that a threshold names at a size; empty for either, None for none."""
    return next((device for device, first, last in threshold.answered if first <= size <= last), None)


def answered(threshold: Threshold) -> float:
    """Return the share of the range, on a logarithmic axis, that a threshold answers, without its narrow gaps."""
    parts, (lowest, highest) = threshold.answered, (threshold.timed[0], threshold.timed[-1])
    inside = sum(math.log(last / first) for _, first, last in parts)
    ends = [lowest, *(end for _, first, last in parts for end in (first, last)), highest]
    gaps = zip(ends[::2], ends[1::2], strict=True)
    outside = sum(math.log(high / low) for low, high in gaps if high > max(low + 1, low * NARROW))
    return inside / (inside + outside) if outside else 1.0


class Choice(NamedTuple):
    """The choice at one size that was timed."""

    size: int
    device: str
    """`cpu`, `cuda`, or empty for either."""
    ratio: float
    """Time on the CPU / time on the GPU."""
    low: float
    high: float
    """Ends of its interval."""
    width: float
    """Width of the gap that it stands for, in ln(size)."""

    @property
    def regret(self) -> float:
        """Time of the chosen device / time of the faster one - 1; for either device, of the slower one."""
        return self._cost(self.ratio, self.ratio)

    @property
    def least(self) -> float:
        """Lower bound of the regret."""
        return self._cost(self.low, self.high)

    def _cost(self, low: float, high: float) -> float:
        cpu, gpu = low - 1, 1 / high - 1
        return max(0.0, *([cpu] if self.device != GPU else []), *([gpu] if self.device != CPU else []))


class Regret(NamedTuple):
    """The choices of one threshold, or of all."""

    choices: tuple[Choice, ...]
    answered: float
    """See `answered`; of several thresholds the mean."""

    @property
    def mean(self) -> float:
        """Mean regret over the range, on a logarithmic axis."""
        return self._mean([choice.regret for choice in self.choices])

    @property
    def worst(self) -> Choice | None:
        """The choice with the largest regret; None without choices."""
        return max(self.choices, key=lambda choice: choice.regret, default=None)

    @property
    def least(self) -> float:
        """Lower bound of the mean regret."""
        return self._mean([choice.least for choice in self.choices])

    @property
    def is_failed(self) -> bool:
        """Whether one threshold certainly exceeds its limit."""
        return self.least > MOST_OF_ONE

    def _mean(self, values: Sequence[float]) -> float:
        total = math.fsum(choice.width for choice in self.choices)
        each = zip(values, self.choices, strict=True)
        return math.fsum(value * choice.width for value, choice in each) / total if total else 0.0
