"""Compare two series of runs, case by case. Pure functions on the medians of runs.

Each run gives one number for a case and a device, because samples of one process are not independent: on identical
runs, a rank test on raw samples called 78-85 % of pairs different. In a duet the runs of both sides belong together,
and each pair of agents gives one ratio.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from statistics import fmean
from typing import NamedTuple

from cpugpu_tui.decide.stats import quantile, two_sided_p
from cpugpu_tui.model import DEVICE, LATENCY, SweepKey

LOOKS = {5: 0.05, 7: 0.15, 10: 0.8}
"""Number of pairs of a duet at a look → its share of the level. Together 1.

A verdict that is tried again and again as pairs come in is false more often than its level says. So the looks are fixed
beforehand and share the level (alpha spending with Bonferroni's inequality, which needs nothing about how looks depend
on each other). The last look gets most of it, because small changes are found there.
"""

VISITS = 4
"""Visits to each agent of a pair, in each case: A B B A A B B A. Slow drift of the machine cancels within a pair."""

FIRST_LOOK, MOST_PAIRS = min(LOOKS), max(LOOKS)
"""Least and most pairs of agents: at most 40 visits to each side."""


FASTER, SLOWER, SAME, UNDECIDED = "FASTER", "SLOWER", "SAME", "UNDECIDED"
NOT_COMPARABLE, TOO_FEW = "NOT COMPARABLE", "TOO FEW RUNS"

MIN_RUNS = 3
"""Runs on each side below which there is no verdict word (method.md, "Comparing runs")."""

GATE_RUNS = 5
"""The same for the gate."""

MOST_JUDGED = 25
"""More cases of a device than this are judged in groups."""

BANDS: Mapping[str, float] = {LATENCY: 0.02, DEVICE: 0.005}
"""Metric → band: changes within ± this count as no change. Between fresh processes on an H200, kernel times of 60 µs
and more repeat within 0.3 %, but latencies only within 1 to 15 %."""

DUET_BANDS: Mapping[str, float] = {**BANDS, LATENCY: 0.007}
"""The same in a duet, in which the latencies of steps of 300 µs and more repeat within 0.4 %."""

FALSE_WORDS = 0.005
"""Level that all verdicts of a comparison share: the risk that any of them calls equal series different, or that a gate
fails a case that keeps the limit. At most 1 % is promised. A level of 0.01 would break that in 4 of 10 sets of 800
comparisons, this one in 2 of 100."""

SINGLE = 0.05
"""Level of a verdict that is not shared: SAME, PASSED, and intervals without a verdict."""


@dataclass(frozen=True)
class Pair:
    """One case on one device in two series."""

    case: str
    """`Case.key`."""
    device: str
    """`CPU`, `GPU` or `GPU 2`, independent of torch's names on each machine."""
    base_ns: Mapping[str, float]
    """Run, in a duet pair of agents → median, ns, for each that has one. In a duet both sides have the same keys."""
    new_ns: Mapping[str, float]
    sweep: SweepKey | tuple[()] = ()
    """What the case shares with other sizes of its sweep; groups stay within one sweep."""
    size: int = 0
    trouble: str = ""
    """Why it cannot be compared, one clause; empty if it can."""
    is_lost: bool = False
    """Whether the base has times but the case failed in the new series; in a duet, whether it failed on a side."""
    is_unreached: bool = False
    """Whether the base has times but the new series stopped before the case."""
    is_chosen: bool = False
    """Whether a search chose the case, so that runs of one series may lack it."""
    is_starved: bool = False
    """Whether its threads had no free core in some run; that run has no median."""
    metric: str = LATENCY
    """`LATENCY`, or `DEVICE` for the kernel time of a GPU."""

    @property
    def label(self) -> str:
        """`CPU`, `GPU`, or `GPU kernels` for kernel time."""
        return f"{self.device} kernels" if self.metric == DEVICE else self.device

    def first(self, count: int) -> Pair:
        """Return it with its first runs only."""
        sides = (dict(islice(side.items(), count)) for side in (self.base_ns, self.new_ns))
        return replace(self, base_ns=next(sides), new_ns=next(sides))


@dataclass(frozen=True)
class Change:
    """How the time changed from one series to the other."""

    ratio: float
    """Time of the new series / time of the base; above 1 is slower."""
    low: float | None
    """Lower end of the interval; None with fewer than two runs on a side."""
    high: float | None
    base_runs: int
    """Number of runs; identical runs count once."""
    new_runs: int
    is_copied: bool = False
    """Whether all runs of a side are identical."""
    error: float = 0.0
    """Standard error of ln(ratio)."""
    is_duet: bool = False
    """Whether the runs of both sides belong together in pairs."""

    @property
    def degrees(self) -> int:
        """Degrees of freedom of `error`."""
        return self.base_runs - 1 if self.is_duet else self.base_runs + self.new_runs - 2

    def ends(self, below: float, above: float) -> tuple[float, float]:
        """Return the ends of the interval that misses the truth at most this often on each side."""
        low, high = (math.exp(quantile(2 * level, self.degrees) * self.error) for level in (below, above))
        return self.ratio / low, self.ratio * high

    def within(self, low: float, high: float) -> Change:
        """Return the change with this interval."""
        return replace(self, low=low, high=high)

    def p_above(self, bound: float) -> float:
        """Return the one-sided p-value of a ratio that is at most `bound`."""
        distance = math.log(self.ratio / bound)
        p = two_sided_p(distance / self.error, self.degrees) / 2
        return p if distance > 0 else 1 - p


@dataclass(frozen=True)
class Judged:
    """A case on a device, or a group of cases, with its verdict on one of its times."""

    pairs: tuple[Pair, ...]
    """One case, or those that were judged together."""
    change: Change | None
    """With the interval that decided the verdict; None if nothing can be compared."""
    verdict: str
    """One of the words above."""
    p: float | None = None
    """p-value, times the number of verdicts (Bonferroni)."""
    confidence: float | None = None
    """Of the interval alone, 0.95 for 95 %; None without a verdict."""

    @property
    def label(self) -> str:
        """Device and time, the same for all cases of a group, see `Pair.label`."""
        return self.pairs[0].label

    @property
    def metric(self) -> str:
        """Which time, the same for all cases of a group."""
        return self.pairs[0].metric

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
    in only 90 instead of 96 % of trials with 5 runs on each side and 25 cases, and with equal numbers of runs the
    pooled test tolerates unequal variances. The interval is that of `SINGLE`, not shared with other cases.
    """
    if not base or not new:
        return None
    return _change([math.log(ns) for ns in base], [math.log(ns) for ns in new])


def _change(base: Sequence[float], new: Sequence[float]) -> Change:
    difference, count = fmean(new) - fmean(base), len(base) + len(new)
    base, new = _without_copies(base), _without_copies(new)
    found = Change(
        math.exp(difference), None, None, len(base), len(new), is_copied=len(base) + len(new) < count
    )  # fmt: skip
    if min(len(base), len(new)) < 2:
        return found
    squares = sum(math.fsum((value - fmean(side)) ** 2 for value in side) for side in (base, new))
    error = math.sqrt(squares / found.degrees * (1 / len(base) + 1 / len(new)))
    found = replace(found, error=error)
    return found.within(*found.ends(SINGLE / 2, SINGLE / 2))


def _paired(ratios: Sequence[float]) -> Change:
    """Return the change from the ln(ratio) of each pair of agents: Student's t on their mean."""
    count = len(ratios)
    distinct = _without_copies(ratios)
    is_copied = len(distinct) < count
    found = Change(math.exp(fmean(ratios)), None, None, len(distinct), len(distinct), is_copied=is_copied, is_duet=True)
    if len(distinct) < 2:
        return found
    variance = math.fsum((ratio - fmean(ratios)) ** 2 for ratio in ratios) / (count - 1)
    found = replace(found, error=math.sqrt(variance / count))
    return found.within(*found.ends(SINGLE / 2, SINGLE / 2))


def _without_copies(side: Sequence[float]) -> Sequence[float]:
    """Return the logarithms of one side's runs; only one of them if all are the same.

    Measured runs differ in some digit, but simulated runs with one seed or without noise do not. Their interval would
    have no width, so that any difference would seem certain. 1e-12 covers the rounding of logarithms.
    """
    return side if max(side) - min(side) > 1e-12 else side[:1]


def together(pairs: Sequence[Pair]) -> Change | None:
    """Return the geometric mean of the changes of several cases; None without any.

    The cases of a run share its process, so each run counts once, with the mean of its logarithms over all cases.
    Runs that lack a case are left out; if none is left, the result is the mean ratio without an interval. Sides with
    runs in common are a duet.
    """
    timed = [pair for pair in pairs if pair.base_ns and pair.new_ns]
    if not timed:
        return None
    base, new = (_means([getattr(pair, side) for pair in timed]) for side in ("base_ns", "new_ns"))
    if both := base.keys() & new.keys():
        return _paired([new[run] - base[run] for run in base if run in both])
    if base and new:
        return _change(list(base.values()), list(new.values()))
    ratios = [change(list(pair.base_ns.values()), list(pair.new_ns.values())) for pair in timed]
    difference = fmean(math.log(each.ratio) for each in ratios if each is not None)
    return Change(math.exp(difference), None, None, len(base), len(new))


def _means(sides: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean logarithm of each run that has all cases."""
    return {run: fmean(math.log(side[run]) for side in sides) for run in sides[0] if all(run in side for side in sides)}


class Levels(NamedTuple):
    """How often a verdict may be false, each on one side of its interval or on both together."""

    shared: float
    """Share of `FALSE_WORDS` for this verdict, in a duet for this look."""
    single: float = SINGLE
    """`SINGLE`, in a duet the part of it for this look."""

    def p(self, p: float) -> float:
        """Return a p-value that accounts for all verdicts and looks."""
        return min(1.0, p * FALSE_WORDS / self.shared)


Decide = Callable[[Judged, Change, float, Levels], Judged]
"""Gives a verdict: the cases, their change, and the band of their metric."""


def judge(
    pairs: Sequence[Pair], bands: Mapping[str, float] = BANDS, *, min_runs: int = MIN_RUNS, sharers: int = 1,
    decide: Decide | None = None,
) -> tuple[Judged, ...]:  # fmt: skip
    """Return a verdict for every case and time, in groups if a device has more than `MOST_JUDGED` cases.

    The verdicts share `FALSE_WORDS` in equal parts (Bonferroni), with those of `sharers` such comparisons. Holm's
    correction finds no more if one case has changed, and the intervals that go with it say little: those of the cases
    that it calls different end at 1. A duet is judged at its looks.
    """
    judged = [_unjudged(group, min_runs) for group in grouped(pairs)]
    # In a duet, a case that has too few pairs of agents now may be judged at a later look.
    count = sum(not each.verdict or (each.change is not None and each.change.is_duet) for each in judged)
    levels = Levels(FALSE_WORDS / max(1, sharers * count))
    decide = decide or _decided
    return tuple(
        each if each.verdict or each.change is None
        else _at_looks(each, bands[each.metric], levels, decide) if each.change.is_duet
        else decide(each, each.change, bands[each.metric], levels)
        for each in judged
    )  # fmt: skip


def _at_looks(each: Judged, band: float, levels: Levels, decide: Decide) -> Judged:
    """Return the verdict of the first look that decides, or of the last one; later pairs of agents do not count."""
    assert each.change is not None
    for count, share in LOOKS.items():
        if count > each.change.base_runs:
            break
        pairs = tuple(pair.first(count) for pair in each.pairs)
        found = together(pairs)
        assert found is not None
        if found.low is None:
            judged = Judged(pairs, found, TOO_FEW)
        else:
            spent = Levels(levels.shared * share, levels.single * share)
            judged = decide(replace(each, pairs=pairs), found, band, spent)
        if judged.verdict not in (UNDECIDED, TOO_FEW):
            break
    return judged


def _unjudged(group: tuple[Pair, ...], min_runs: int) -> Judged:
    """Return a group without a verdict, or with `NOT COMPARABLE` or `TOO FEW RUNS`."""
    if group[0].trouble:
        return Judged(group, None, NOT_COMPARABLE)
    found = together(group)
    if found is None:
        return Judged(group, None, NOT_COMPARABLE)
    least = max(min_runs, FIRST_LOOK) if found.is_duet else min_runs
    if found.low is None or min(found.base_runs, found.new_runs) < least:
        # Without its interval, which would promise what a verdict denies.
        return Judged(group, replace(found, low=None, high=None), TOO_FEW)
    return Judged(group, found, "")


def _decided(each: Judged, found: Change, band: float, levels: Levels) -> Judged:
    """Return SAME if its own 95 % interval lies inside ± `band`; otherwise the word of its shared interval.

    SLOWER and FASTER: the interval does not contain 1. UNDECIDED: it does.
    """
    p = levels.p(2 * min(found.p_above(1), 1 - found.p_above(1)))
    low, high = found.ends(levels.single / 2, levels.single / 2)
    if 1 / (1 + band) <= low and high <= 1 + band:
        return replace(each, change=found.within(low, high), verdict=SAME, p=p, confidence=1 - levels.single)
    low, high = found.ends(levels.shared / 2, levels.shared / 2)
    verdict = SLOWER if low > 1 else FASTER if high < 1 else UNDECIDED
    return replace(each, change=found.within(low, high), verdict=verdict, p=p, confidence=1 - levels.shared)


def grouped(pairs: Sequence[Pair]) -> list[tuple[Pair, ...]]:
    """Return the cases to judge together, in the given order: each alone up to `MOST_JUDGED` cases of a device.

    With more, neighbours in a sweep share a verdict. Cases that cannot be compared, or lack runs that others have,
    stay alone.
    """
    devices: dict[str, list[Pair]] = {}
    for pair in pairs:
        devices.setdefault(pair.label, []).append(pair)
    return [group for each in devices.values() for group in _groups_of(each)]


def _groups_of(pairs: list[Pair]) -> list[tuple[Pair, ...]]:
    sets: dict[object, list[Pair]] = {}
    for pair in pairs:
        alone = pair.case if pair.trouble else None
        # In a duet, decided cases are no longer timed. They stay in the group in which they were judged.
        is_duet = not pair.trouble and pair.base_ns.keys() == pair.new_ns.keys()
        both = pair.first(FIRST_LOOK) if is_duet else pair
        runs = frozenset(both.base_ns), frozenset(both.new_ns)
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
