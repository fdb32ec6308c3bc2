"""GPUs of one model beside each other: which of them is slow, by a rule that one slow GPU cannot bend."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cpugpu_tui.decide.stats import median

MOST_SLOWER = 0.05
"""GPUs of a model that are this close are alike: chips, cooling and clocks differ by a few per cent."""

MOST_Z = 3.5
"""Robust z-score of an outlier (Iglewicz and Hoaglin, 1993): distance from the median over MAD / 0.6745."""

NORMAL_MAD = 0.6745
"""Median absolute deviation of normal values of standard deviation 1."""

ENOUGH_ALIKE = 3
"""With fewer of a model nothing says which one is off: only the distance from their median can be told."""


@dataclass(frozen=True)
class Standing:
    """Where a GPU stands among those of its model."""

    ratio: float
    """Its time over the median time of its model, itself included: 1.1 takes 10 % longer."""
    z: float | None
    """Its robust z-score, above 0 for slower; infinite where the others agree exactly. None with fewer than
    `ENOUGH_ALIKE` of its model."""
    alike: int
    """GPUs of its model, itself included; at least 2."""

    @property
    def is_slow(self) -> bool:
        """Whether it is more than 5 % slower than its model's median and, with three or more alike, an outlier."""
        return self.ratio > 1 + MOST_SLOWER and (self.z is None or self.z > MOST_Z)


def standings(times_ns: Mapping[str, float], models: Mapping[str, str]) -> dict[str, Standing]:
    """Return where each GPU stands that is not alone of its model.

    `times_ns` is GPU → time of the same work, above 0; `models` GPU → name of its model.
    """
    found: dict[str, Standing] = {}
    for group in grouped({name: models[name] for name in times_ns}).values():
        if len(group) < 2:
            continue
        middle = median([times_ns[name] for name in group])
        spread = median([abs(times_ns[name] - middle) for name in group])
        for name in group:
            z = _z(times_ns[name] - middle, spread) if len(group) >= ENOUGH_ALIKE else None
            found[name] = Standing(times_ns[name] / middle, z, len(group))
    return found


def overall(cases: Sequence[Mapping[str, float]], models: Mapping[str, str]) -> dict[str, Standing]:
    """Return where each GPU stands over many cases: its ratio is the median of those of the cases.

    Each case is GPU → time; one that lacks a GPU counts for the others.
    """
    ratios: dict[str, list[float]] = {}
    for times_ns in cases:
        for name, standing in standings(times_ns, models).items():
            ratios.setdefault(name, []).append(standing.ratio)
    return standings({name: median(each) for name, each in ratios.items()}, models)


def grouped(models: Mapping[str, str]) -> dict[str, list[str]]:
    """Return model → its GPUs, both in the order given."""
    groups: dict[str, list[str]] = {}
    for name, model in models.items():
        groups.setdefault(model, []).append(name)
    return groups


def _z(distance: float, spread: float) -> float:
    if spread == 0.0:
        return math.copysign(math.inf, distance) if distance else 0.0
    return NORMAL_MAD * distance / spread
