"""Compare two series of runs, case by case. Pure functions on the medians of runs.

Each run gives one number for a case and a device, because samples of one process are not independent: on identical
runs, a rank test on raw samples called 78-85 % of pairs different.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from cpugpu_tui.decide.stats import quantile, two_sided_p
from cpugpu_tui.decide.verdict import EQUIVALENCE

FASTER, SLOWER, SAME, UNDECIDED = "FASTER", "SLOWER", "SAME", "UNDECIDED"
NOT_COMPARABLE, TOO_FEW = "NOT COMPARABLE", "TOO FEW RUNS"

MIN_RUNS = 3
"""Runs on each side below which there is no verdict word (method.md, "Comparing runs")."""

GATE_RUNS = 5
"""The same for the gate."""

MOST_JUDGED = 25
"""More cases of a device than this are judged in groups."""

FALSE_ALARMS = 0.03
"""Level at which equal series may be called different in any case (Holm). The method promises at most 5 % of 200
trials; a level of 0.05 would break that in every second set of trials. Simulated 4000 times with 5 runs on each side,
2 % noise and 25 cases: false alarms in 3.1 %, and a slowdown of 10 % in one case is found in 96 %."""


@dataclass(frozen=True)
class Pair:
    """One case on one device in two series."""

    case: str
    """`Case.key`."""
    device: str
    """`CPU`, `GPU` or `GPU 2`, independent of torch's names on each machine."""
    base_ns: Mapping[str, float]
    """Run → median, ns, for each run that has one."""
    new_ns: Mapping[str, float]
    sweep: tuple[object, ...] = ()
    """What the case shares with other sizes of its sweep; groups stay within one sweep."""
    size: int = 0
    trouble: str = ""
    """Why it cannot be compared, one clause; empty if it can."""
    is_lost: bool = False
    """Whether the base has times but the case failed in the new series."""
    is_unreached: bool = False
    """Whether the base has times but the new series stopped before the case."""
    is_chosen: bool = False
    """Whether a search chose the case, so that runs of one series may lack it."""
    is_starved: bool = False
    """Whether its threads had no free core in some run; that run has no median."""


@dataclass(frozen=True)
class Change:
    """How the time changed from one series to the other."""

    ratio: float
    """Time of the new series / time of the base; above 1 is slower."""
    low: float | None
    """Lower end of the 95 % interval; None with fewer than two runs on a side."""
    high: float | None
    at_most: float | None
    """One-sided upper bound of the ratio, with 95 % confidence."""
    p: float | None
    """p-value, not corrected for the number of cases."""
    base_runs: int
    """Number of runs; identical runs count once."""
    new_runs: int
    is_copied: bool = False
    """Whether all runs of a side are identical."""


@dataclass(frozen=True)
class Judged:
    """A case on a device, or a group of cases, with its verdict."""

    pairs: tuple[Pair, ...]
    """One case, or those that were judged together."""
    change: Change | None
    """None if nothing can be compared."""
    verdict: str
    """One of the words above."""
    p: float | None = None
    """Corrected for the number of verdicts (Holm)."""

    @property
    def device(self) -> str:
        """The device, the same for all cases of a group."""
        return self.pairs[0].device

    @property
    def trouble(self) -> str:
        """Why it cannot be compared."""
        return self.pairs[0].trouble

    @property
    def is_group(self) -> bool:
        """Whether several cases share this verdict."""
        return len(self.pairs) > 1


def change(base: Sequence[float], new: Sequence[float]) -> Change | None:
    """Return the change between the numbers of independent runs, each above 0; None if a side has none.

    Student's t on the difference of the mean logarithms, with a pooled variance. Welch's test finds a slowdown of 10 %
    in only 90 instead of 96 % of the trials of `FALSE_ALARMS`, and with equal numbers of runs the pooled test tolerates
    unequal variances.
    """
    if not base or not new:
        return None
    return _change([math.log(ns) for ns in base], [math.log(ns) for ns in new])


def _change(base: Sequence[float], new: Sequence[float]) -> Change:
    difference, count = fmean(new) - fmean(base), len(base) + len(new)
    base, new = _without_copies(base), _without_copies(new)
    is_copied, degrees = len(base) + len(new) < count, len(base) + len(new) - 2
    if min(len(base), len(new)) < 2:
        return Change(math.exp(difference), None, None, None, None, len(base), len(new), is_copied)
    squares = sum(math.fsum((value - fmean(side)) ** 2 for value in side) for side in (base, new))
    error = math.sqrt(squares / degrees * (1 / len(base) + 1 / len(new)))
    half = quantile(0.05, degrees) * error
    return Change(
        math.exp(difference), math.exp(difference - half), math.exp(difference + half),
        math.exp(difference + quantile(0.1, degrees) * error), two_sided_p(difference / error, degrees),
        len(base), len(new),
    )  # fmt: skip


def _without_copies(side: Sequence[float]) -> Sequence[float]:
    """Return the logarithms of one side's runs; only one of them if all are the same.

    Measured runs differ in some digit, but simulated runs with one seed or without noise do not. Their interval would
    have no width, so that any difference would seem certain. 1e-12 covers the rounding of logarithms.
    """
    return side if max(side) - min(side) > 1e-12 else side[:1]


def together(pairs: Sequence[Pair]) -> Change | None:
    """Return the geometric mean of the changes of several cases; None without any.

    The cases of a run share its process, so each run counts once, with the mean of its logarithms over all cases.
    Runs that lack a case are left out; if none is left, the result is the mean ratio without an interval.
    """
    timed = [pair for pair in pairs if pair.base_ns and pair.new_ns]
    if not timed:
        return None
    base, new = (_means([getattr(pair, side) for pair in timed]) for side in ("base_ns", "new_ns"))
    if base and new:
        return _change(base, new)
    ratios = [change(list(pair.base_ns.values()), list(pair.new_ns.values())) for pair in timed]
    difference = fmean(math.log(each.ratio) for each in ratios if each is not None)
    return Change(math.exp(difference), None, None, None, None, len(base), len(new))


def _means(sides: Sequence[Mapping[str, float]]) -> list[float]:
    """Return the mean logarithm of each run that has all cases."""
    return [fmean(math.log(side[run]) for side in sides) for run in sides[0] if all(run in side for side in sides)]


def judge(
    pairs: Sequence[Pair], *, margin: float = EQUIVALENCE, min_runs: int = MIN_RUNS, slower_only: bool = False
) -> tuple[Judged, ...]:
    """Return a verdict for every case, in groups if a device has more than `MOST_JUDGED`.

    SLOWER and FASTER: significant with Holm's correction, and a change larger than `margin` (0.02 for 2 %). SAME: the
    whole interval lies inside ± `margin`. Everything else is UNDECIDED. With `slower_only` the test is one-sided.
    """
    judged = [_unjudged(group, min_runs) for group in grouped(pairs)]
    corrected = iter(holm([_p(each.change, slower_only) for each in judged if not each.verdict]))
    return tuple(each if each.verdict else _decided(each, next(corrected), margin) for each in judged)


def _unjudged(group: tuple[Pair, ...], min_runs: int) -> Judged:
    """Return a group without a verdict, or with `NOT COMPARABLE` or `TOO FEW RUNS`."""
    if group[0].trouble:
        return Judged(group, None, NOT_COMPARABLE)
    found = together(group)
    if found is None:
        return Judged(group, None, NOT_COMPARABLE)
    too_few = found.p is None or min(found.base_runs, found.new_runs) < min_runs
    return Judged(group, found, TOO_FEW if too_few else "")


def _p(found: Change | None, slower_only: bool) -> float:
    assert found is not None
    assert found.p is not None
    if not slower_only:
        return found.p
    return found.p / 2 if found.ratio > 1 else 1 - found.p / 2


def _decided(each: Judged, p: float, margin: float) -> Judged:
    found = each.change
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    least, most = 1 / (1 + margin), 1 + margin
    verdict = UNDECIDED
    if p < FALSE_ALARMS and found.ratio > most:
        verdict = SLOWER
    elif p < FALSE_ALARMS and found.ratio < least:
        verdict = FASTER
    elif least <= found.low and found.high <= most:
        verdict = SAME
    return Judged(each.pairs, found, verdict, p)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values corrected for their number (Holm, 1979).

    The smallest times m, the next times m − 1, and so on; none below the one before, none above 1.
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    corrected, reached = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        reached = max(reached, min(1.0, p_values[index] * (len(p_values) - rank)))
        corrected[index] = reached
    return corrected


def grouped(pairs: Sequence[Pair]) -> list[tuple[Pair, ...]]:
    """Return the cases to judge together, in the given order: each alone up to `MOST_JUDGED` cases of a device.

    With more, neighbours in a sweep share a verdict. Cases that cannot be compared, or lack runs that others have,
    stay alone.
    """
    devices: dict[str, list[Pair]] = {}
    for pair in pairs:
        devices.setdefault(pair.device, []).append(pair)
    return [group for each in devices.values() for group in _groups_of(each)]


def _groups_of(pairs: list[Pair]) -> list[tuple[Pair, ...]]:
    sets: dict[object, list[Pair]] = {}
    for pair in pairs:
        alone = pair.case if pair.trouble else None
        runs = frozenset(pair.base_ns), frozenset(pair.new_ns)
        sets.setdefault((pair.sweep, alone, runs), []).append(pair)
    sound = [each for each in sets.values() if not each[0].trouble]
    longest, length = max(map(len, sound), default=1), 1
    while length < longest and sum(math.ceil(len(each) / length) for each in sound) > MOST_JUDGED:
        length += 1
    return [piece for each in sets.values() for piece in _pieces(each, length)]


def _pieces(pairs: list[Pair], length: int) -> list[tuple[Pair, ...]]:
    """Return consecutive pieces of at most `length`, none much shorter than the others."""
    count = math.ceil(len(pairs) / length)
    bounds = [round(index * len(pairs) / count) for index in range(count + 1)]
    return [tuple(pairs[start:stop]) for start, stop in pairwise(bounds)]
