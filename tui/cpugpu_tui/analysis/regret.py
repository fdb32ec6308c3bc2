"""How much time is lost by choosing a device by a file of thresholds instead of timing both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from cpugpu_tui.thresholds import CPU, Part

NEAR = 1.1
"""Ratio between the end of a bracket and the size beside it that is verified. A search narrows no bracket further."""

SPREAD, ASKED = 4, 200
"""Sizes that are spread over the range to be timed, and to count how many of them are answered."""

MOST_MEAN, MOST_WORST, LEAST_ANSWERED = 0.05, 0.20, 0.95
"""Limits: mean and largest regret, and share of the sizes for which the file names a device."""


def _spread(faster: Sequence[Part], count: int) -> list[int]:
    """Return the middles of `count` equal parts of the range's logarithm."""
    lowest, highest = faster[0][1], faster[-1][2]
    step = math.log(highest / lowest) / count
    return [round(lowest * math.exp(step * (index + 0.5))) for index in range(count)]


def _is_answered(faster: Sequence[Part], size: int) -> bool:
    return any(first <= size <= last for _, first, last in faster)


def held_out(faster: Sequence[Part]) -> list[int]:
    """Return sizes to verify: beside each bracket, and spread over the range. The ends of the brackets are left out."""
    ends = {end for _, first, last in faster for end in (first, last)}
    beside = {round(last / NEAR) for _, _, last in faster[:-1]} | {round(first * NEAR) for _, first, _ in faster[1:]}
    return sorted(size for size in beside.union(_spread(faster, SPREAD)) - ends if _is_answered(faster, size))


def answered(faster: Sequence[Part]) -> float:
    """Return the share of sizes, spread over the range, for which a device is named: those outside the brackets.

    Brackets within a factor of `NEAR` are left out: in a narrow range, the best of searches would miss the limit.
    """
    narrow = [(low, high) for (_, _, low), (_, high, _) in pairwise(faster) if high <= low * NEAR]
    sizes = [size for size in _spread(faster, ASKED) if not any(low < size < high for low, high in narrow)]
    return sum(_is_answered(faster, size) for size in sizes) / len(sizes) if sizes else 1.0


class Choice(NamedTuple):
    """The choice at one size."""

    size: int
    device: str
    """`cpu` or `cuda`."""
    cpu_ns: float
    gpu_ns: float

    @property
    def regret(self) -> float:
        """Time of the chosen device / time of the faster one - 1."""
        return (self.cpu_ns if self.device == CPU else self.gpu_ns) / min(self.cpu_ns, self.gpu_ns) - 1


class Regret(NamedTuple):
    """The choices of one threshold, or of all."""

    choices: tuple[Choice, ...]
    answered: float
    """See `answered`; of several thresholds the mean."""

    @property
    def mean(self) -> float:
        """Mean regret."""
        return math.fsum(choice.regret for choice in self.choices) / max(1, len(self.choices))

    @property
    def worst(self) -> float:
        """Largest regret."""
        return max((choice.regret for choice in self.choices), default=0.0)

    @property
    def is_kept(self) -> bool:
        """Whether all limits are kept, and anything was verified."""
        is_small = self.mean <= MOST_MEAN and self.worst <= MOST_WORST
        return is_small and self.answered >= LEAST_ANSWERED and bool(self.choices)
