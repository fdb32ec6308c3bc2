"""The noise floor of a machine: the smallest change of a time that a comparison finds on it, and how to measure it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist, fmean
from typing import NamedTuple

from cpugpu_tui.analysis.compare import FALSE_WORDS, MIN_RUNS, Variance, moderated
from cpugpu_tui.analysis.pairs import SINGLE
from cpugpu_tui.compare.series import Series
from cpugpu_tui.decide.stats import quantile
from cpugpu_tui.model import DEVICE, LATENCY, Plan, Simulation
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.state.folding import MeasuredRun

NAME = "noise"
"""Name of its runs in the history."""

REPEATS = 5
"""Runs of a series, each in a fresh process."""

SIZES = "64,512,2048"
"""Matrix products of microseconds, of about a millisecond on a CPU, and of tens of them."""

MOST_S = 8.0
"""Time limit of a run, so that five of them and their starts end within a minute."""

ROUNDS = 8

RUNS = (1, 5, 10)
"""Runs on each side for which the floor is told."""

FOUND = NormalDist().inv_cdf(0.9)
"""A change as large as the floor is found in 90 % of comparisons."""

MUCH_NOISIER = 1.5
"""A spread that grew by this factor is told. Two spreads of five runs each differ by 2.5 times in 5 % by chance, and
six classes together by 1.5 times."""


@dataclass(frozen=True)
class Floor:
    """How much a time of one case varies between fresh processes, and what that hides."""

    case: str
    """`Case.key`."""
    device: str
    """`CPU`, `GPU` or `GPU 2`."""
    metric: str
    """`LATENCY`, or `DEVICE` for kernel time."""
    median_ns: float
    """Geometric mean over the runs of their medians."""
    spread: float
    """Standard deviation of ln(time) between runs, moderated within its class (`moderation`)."""
    degrees: float
    """Degrees of freedom of `spread`."""
    lent: float
    """Those of them that other cases of the class lend, to a comparison as well."""

    @property
    def label(self) -> str:
        """`CPU`, `GPU`, or `GPU kernels` for kernel time."""
        return f"{self.device} kernels" if self.metric == DEVICE else self.device

    def change(self, runs: int) -> float:
        """Return the smallest change that shows with so many runs on each side, 0.05 for 5 %.

        With `MIN_RUNS` or more: found in 90 % of comparisons of this case alone, at the level of their words. With
        fewer there is no word; a larger change would be chance in 5 % of pairs of runs.
        """
        error = self.spread * math.sqrt(2 / runs)
        if runs < MIN_RUNS:
            return math.expm1(quantile(SINGLE, self.degrees) * error)
        degrees = 2 * (runs - 1) + self.lent
        least = quantile(FALSE_WORDS, degrees)
        # The noncentral t that exceeds `least` in 90 % (Johnson and Welch 1940, doi:10.1093/biomet/31.3-4.362).
        return math.expm1((least + FOUND * math.sqrt(1 + least**2 / (2 * degrees))) * error)


class Noise(NamedTuple):
    """The noise floor of a machine, and the series that showed it before."""

    now: Series
    floors: tuple[Floor, ...]
    before: Series | None


def noise_plan(devices: tuple[str, ...], simulation: Simulation | None) -> Plan:
    """Return the plan of a run that measures the noise floor."""
    asked = PlanRequest(("matmul",), sizes=SIZES, devices=devices, max_seconds=MOST_S, simulation=simulation)
    return replace(build_plan(asked), name=NAME, metrics=(LATENCY, DEVICE), rounds=ROUNDS, max_rounds=ROUNDS)


def newest(series: Iterable[Series]) -> Noise | None:
    """Return the floor of the first of these series that has one, and the next series; None without any."""
    rest = iter(series)
    found = next(((each, own) for each in rest if (own := floors(each.runs))), None)
    return Noise(*found, next(rest, None)) if found is not None else None


def floors(runs: Sequence[MeasuredRun]) -> tuple[Floor, ...]:
    """Return the floor of each time that two runs or more have, device by device in the order of the plan."""
    classes: dict[tuple[str, str], list[Floor]] = {}
    for key in dict.fromkeys(key for run in runs for key in run.cases):
        cases = [run.cases[key] for run in runs if key in run.cases]
        for metric, found in ((LATENCY, [each.median_ns for each in cases]), (DEVICE, [c.kernel_ns for c in cases])):
            for device in dict.fromkeys(name for times in found for name in times):
                own = _floor(key, device, metric, [times[device] for times in found if device in times])
                if own is not None:
                    classes.setdefault((device, metric), []).append(own)
    return tuple(each for alike in classes.values() for each in _moderated(alike))


def _floor(case: str, device: str, metric: str, times_ns: Sequence[float]) -> Floor | None:
    logs = [math.log(ns) for ns in times_ns]
    if len(logs) < 2:
        return None
    middle, degrees = fmean(logs), len(logs) - 1
    spread = math.sqrt(math.fsum((each - middle) ** 2 for each in logs) / degrees)
    return Floor(case, device, metric, math.exp(middle), spread, degrees, 0.0) if spread else None


def _moderated(alike: Sequence[Floor]) -> list[Floor]:
    shared = moderated([Variance(each.spread**2, each.degrees) for each in alike])
    return [
        replace(each, spread=math.sqrt(new.value), degrees=new.degrees, lent=new.degrees - each.degrees)
        for each, new in zip(alike, shared, strict=True)
    ]


def by_class(found: Sequence[Floor]) -> Mapping[str, float]:
    """Return `Floor.label` → spread of its times, in quadratic mean."""
    labels = dict.fromkeys(each.label for each in found)
    return {label: math.sqrt(fmean(each.spread**2 for each in found if each.label == label)) for label in labels}


def grown(before: Sequence[Floor], now: Sequence[Floor]) -> Mapping[str, float]:
    """Return label → factor for the classes whose spread grew by `MUCH_NOISIER` or more."""
    old, new = by_class(before), by_class(now)
    factors = {label: new[label] / old[label] for label in new if old.get(label)}
    return {label: factor for label, factor in factors.items() if factor >= MUCH_NOISIER}
