"""Whether a series of runs is faster or slower than another one, case by case. Pure functions on run medians.

One run gives one number for a case and a device: the samples of one process are not independent (on identical runs a
rank test on raw samples called 78-85 % of pairs different).
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
"""The same for the gate, which stops somebody's work."""

MOST_JUDGED = 25
"""More cases of a device than this are judged in groups."""

FALSE_ALARMS = 0.03
"""How often equal series may be called different in any of their cases (Holm). Promised are 5 % of 200 trials: at
0.05 every second set of trials would break that. 5 runs against 5, 2 % noise, 25 cases, simulated 4000 times: alarms in
3.1 %, and 10 % in a single case is found in 96 %."""


@dataclass(frozen=True)
class Pair:
    """One case on one device in two series."""

    case: str
    """`Case.key`."""
    device: str
    """`CPU`, `GPU`, `GPU 2`: the machines may differ, and so may what torch calls their devices."""
    base_ns: Mapping[str, float]
    """Run → its median, ns, for each run that has one."""
    new_ns: Mapping[str, float]
    sweep: tuple[object, ...] = ()
    """What cases share that are neighbours in size: groups do not reach beyond it."""
    size: int = 0
    trouble: str = ""
    """Why it cannot be compared, one clause; empty where it can."""
    is_lost: bool = False
    """Whether the base has times and the new series failed to give any: that is worse than slow."""
    is_unreached: bool = False
    """Whether the base has times and the new series was to give some, and was stopped before."""
    is_chosen: bool = False
    """Whether a search chose the case as it went: runs of one series need not have it."""
    is_starved: bool = False
    """Whether in some run its threads lacked a core: that run has no median."""


@dataclass(frozen=True)
class Change:
    """How the time changed from one series to the other."""

    ratio: float
    """Time of the new series / time of the base: above 1 it is slower."""
    low: float | None
    """Lower end of the 95 % interval; None with fewer than two runs on a side."""
    high: float | None
    at_most: float | None
    """The ratio is at most this, with 95 % confidence."""
    p: float | None
    """How often equal series would seem to differ as much; not corrected for the number of cases."""
    base_runs: int
    """Runs that were counted; copies count once."""
    new_runs: int
    is_copied: bool = False
    """Whether the runs of a side are copies of one."""


@dataclass(frozen=True)
class Judged:
    """A case on a device, or a group of them, with what can be said of it."""

    pairs: tuple[Pair, ...]
    """One, or those that were judged together."""
    change: Change | None
    """None where nothing can be compared."""
    verdict: str
    """One of the words above."""
    p: float | None = None
    """Corrected for the number of verdicts (Holm)."""

    @property
    def device(self) -> str:
        """The device; a group has one."""
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
    """Return the change between two sets of numbers of independent runs, each above 0; None where a side has none.

    Student's t on the difference of the means of their logarithms, with one variance for both sides: Welch's two find
    10 % in 90 instead of 96 % of the trials of `FALSE_ALARMS`, and with as many runs on both sides as usual one
    variance forgives sides that differ.
    """
    if not base or not new:
        return None
    return _change([math.log(ns) for ns in base], [math.log(ns) for ns in new])


def _change(base: Sequence[float], new: Sequence[float]) -> Change:
    difference, told = fmean(new) - fmean(base), (*base, *new)
    base, new = _without_copies(base), _without_copies(new)
    is_copied, degrees = len(base) + len(new) < len(told), len(base) + len(new) - 2
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
    """Return the logarithms of one side's runs; one of them where all are the same.

    Measured runs differ in some digit. Those of a made-up machine with one seed, or no noise, do not: they would give
    an interval without width, and with it certainty of any difference and of none. 1e-12 is what logarithms lose.
    """
    return side if max(side) - min(side) > 1e-12 else side[:1]


def together(pairs: Sequence[Pair]) -> Change | None:
    """Return the geometric mean of the changes of several cases; None without any.

    The cases of a run share its process, so a run counts once: with the mean of its logarithms. Only runs that have
    all these cases have such a mean; where that leaves none, the mean of the ratios is given without an interval.
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
    """Return the mean logarithm over all cases of each run that has them all."""
    return [fmean(math.log(side[run]) for side in sides) for run in sides[0] if all(run in side for side in sides)]


def judge(
    pairs: Sequence[Pair], *, margin: float = EQUIVALENCE, min_runs: int = MIN_RUNS, slower_only: bool = False
) -> tuple[Judged, ...]:
    """Return a verdict for every case, in groups where a device has more than `MOST_JUDGED`.

    SLOWER and FASTER: told apart from no change, all verdicts taken together (Holm), and further off than `margin`
    (0.02 for 2 %). SAME: the whole interval is inside ± `margin`. Anything else is UNDECIDED, never SAME. Who asks for
    `slower_only` spends no false alarms on what is faster, and is never told so.
    """
    judged = [_unjudged(group, min_runs) for group in grouped(pairs)]
    corrected = iter(holm([_p(each.change, slower_only) for each in judged if not each.verdict]))
    return tuple(each if each.verdict else _decided(each, next(corrected), margin) for each in judged)


def _unjudged(group: tuple[Pair, ...], min_runs: int) -> Judged:
    """Return a group without its verdict, or with one that needs no arithmetic."""
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
    """Return the values corrected for their number: below a level together as often as one alone would be.

    Holm 1979: the smallest times m, the next times m − 1, …, none below the one before, none above 1.
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    corrected, reached = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        reached = max(reached, min(1.0, p_values[index] * (len(p_values) - rank)))
        corrected[index] = reached
    return corrected


def grouped(pairs: Sequence[Pair]) -> list[tuple[Pair, ...]]:
    """Return what is judged together, in the given order: each case alone where a device has few enough.

    Otherwise neighbours in a sweep share a verdict. Cases that cannot be compared, or lack runs that others have,
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
