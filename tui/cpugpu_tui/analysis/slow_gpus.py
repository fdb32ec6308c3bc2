"""Find slow GPUs among those of one model, with a rule that one slow GPU cannot distort."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cpugpu_tui.decide.stats import median

MOST_SLOWER = 0.05
"""GPUs within this share of the median are alike: chips, cooling and clocks differ by a few per cent."""

MOST_Z = 3.5
"""Robust z-score of an outlier (Iglewicz and Hoaglin, 1993): 0.6745 × distance from the median, over the MAD."""

NORMAL_MAD = 0.6745
"""Median absolute deviation of normal values of standard deviation 1."""

ENOUGH_ALIKE = 3
"""With fewer GPUs of a model there is no z-score, only the distance from their median."""


class Standing(NamedTuple):
    """How a GPU compares with those of its model."""

    ratio: float
    """Its time divided by the median time of its model, itself included: 1.1 takes 10 % longer."""
    z: float | None
    """Its robust z-score, above 0 for slower; infinite if more than half of the GPUs have exactly the same time.
    None with fewer than `ENOUGH_ALIKE` GPUs of its model."""
    alike: int
    """Number of GPUs of its model, itself included; at least 2."""

    @property
    def is_slow(self) -> bool:
        """Whether it is more than 5 % slower than the median of its model and, if three or more, an outlier."""
        return self.ratio > 1 + MOST_SLOWER and (self.z is None or self.z > MOST_Z)


def standings(times_ns: Mapping[str, float], models: Mapping[str, str]) -> dict[str, Standing]:
    """Return the standing of each GPU whose model has at least two.

    `times_ns` is GPU → time of the same work, above 0; `models` is GPU → name of its model.
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
    """Return each GPU's standing over many cases, from the median of its ratios.

    Each case is GPU → time; a GPU may be missing from some cases.
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
