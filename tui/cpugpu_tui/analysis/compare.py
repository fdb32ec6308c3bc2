"""Compare two series of runs, case by case: groups, levels and verdicts. Pure functions on `pairs`.

Their variances are moderated: cases of one class of times (device and metric) lend each other degrees of freedom.
Five runs on each side give a case 8 degrees of freedom of its own. With 25 cases its interval is then 1.7 times as wide
as if its variance were known, and 10 % at a noise of 2 % is found in 76 of 100 comparisons only. The variances of a
class resemble each other, so that each is pulled towards the one they share (Smyth 2004, doi:10.2202/1544-6115.1027).

The gate is the last part: a series passes if no case is slower than the baseline by more than a limit. Undecided is
not a pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from cpugpu_tui.analysis.pairs import SINGLE, Change, Pair, together
from cpugpu_tui.decide.stats import Variance, moderated
from cpugpu_tui.model import DEVICE, LATENCY
from cpugpu_tui.model.quantities import count_of

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

FALSE_SHARE = 0.05
"""Expected share of wrong words among the words of a comparison, once its first word has passed `FALSE_WORDS`."""


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


class Levels(NamedTuple):
    """How often a verdict may be false, each on one side of its interval or on both together."""

    shared: float
    """Level of the interval that gives a word."""
    single: float = SINGLE
    """`SINGLE`, in a duet the part of it for this look."""


class Rule(NamedTuple):
    """What a comparison asks of a change; `band` is that of its metric."""

    p: Callable[[Change, float], float]
    """p-value of a word, before it is known how many verdicts there are; 1 if the change cannot get one."""
    decide: Callable[[Judged, Change, float, Levels], Judged]
    """Gives the verdict that follows from the interval at these levels."""


def judge(
    pairs: Sequence[Pair], bands: Mapping[str, float] = BANDS, *, min_runs: int = MIN_RUNS, sharers: int = 1,
    rule: Rule | None = None,
) -> tuple[Judged, ...]:  # fmt: skip
    """Return a verdict for every case and time, in groups if a device has more than `MOST_JUDGED` cases.

    The cases of a device and time lend each other degrees of freedom, see `moderated`. The verdicts share
    `FALSE_WORDS` with those of `sharers` such comparisons, see `shared_level`. A duet is judged at its looks.
    """
    rule = rule or CHANGED
    judged = [_unjudged(group, min_runs) for group in grouped(pairs)]
    # In a duet, a case that has too few pairs of agents now may be judged at a later look.
    is_open = [not each.verdict or (each.change is not None and each.change.is_duet) for each in judged]
    count = max(1, sharers * sum(is_open))
    if any(each.change is not None and each.change.is_duet for each in judged):
        return tuple(_at_looks(judged, bands, count, rule))
    judged = _moderated(judged)
    ps = [rule.p(each.change, bands[each.metric]) for each in judged if not each.verdict and each.change is not None]
    levels = Levels(shared_level(ps, count))
    return tuple(
        each if each.verdict or each.change is None
        else replace(rule.decide(each, each.change, bands[each.metric], levels),
                     p=min(1.0, count * rule.p(each.change, bands[each.metric])))
        for each in judged
    )  # fmt: skip


def shared_level(ps: Sequence[float], count: int) -> float:
    """Return the level of each interval if `count` verdicts share `FALSE_WORDS`; `ps` are the p-values of these.

    Equal parts (Bonferroni), until one passes: then at least one case has changed, and Benjamini and Hochberg's rule
    (1995) names the others, at most `FALSE_SHARE` of them wrongly. The interval at its level contains 1 just for the
    cases that it does not name (Benjamini and Yekutieli 2005, doi:10.1198/016214504000001907).
    """
    first = FALSE_WORDS / count
    if min(ps, default=1.0) >= first:
        return first
    part = FALSE_SHARE / count
    return part * max(rank for rank, p in enumerate(sorted(ps), start=1) if p <= rank * part)


def _moderated(judged: Sequence[Judged]) -> list[Judged]:
    """Return the judgements with moderated errors; those that have a verdict already stay as they are."""
    classes: dict[str, list[int]] = {}
    for index, each in enumerate(judged):
        if not each.verdict and each.change is not None and each.change.error:
            classes.setdefault(each.label, []).append(index)
    found = list(judged)
    for indices in classes.values():
        changes = [each.change for each in (found[index] for index in indices) if each.change is not None]
        variances = moderated([Variance(one.error**2 / one.variance_factor, one.degrees) for one in changes])
        for index, one, new in zip(indices, changes, variances, strict=True):
            error = math.sqrt(new.value * one.variance_factor)
            one = replace(one, error=error, lent=one.lent + new.degrees - one.degrees)
            found[index] = replace(found[index], change=one.within(*one.ends(SINGLE / 2, SINGLE / 2)))
    return found


def _at_looks(judged: list[Judged], bands: Mapping[str, float], count: int, rule: Rule) -> Iterator[Judged]:
    """Yield the verdict of the first look that decides, or of the last one; later pairs of agents do not count.

    Each look spends its part of the level in equal parts. At a look, cases that have all its pairs lend to each other.
    """
    decided: dict[int, Judged] = {}
    for pairs_needed, share in LOOKS.items():
        there = [
            index for index, each in enumerate(judged)
            if each.change is not None and not each.trouble and each.change.base_runs >= pairs_needed
        ]  # fmt: skip
        seen = [_seen(judged[index], pairs_needed) for index in there]
        for index, each in zip(there, _moderated(seen), strict=True):
            if index in decided and decided[index].verdict not in (UNDECIDED, TOO_FEW):
                continue
            assert each.change is not None
            band, levels = bands[each.metric], Levels(share * FALSE_WORDS / count, share * SINGLE)
            p = min(1.0, count / share * rule.p(each.change, band))
            decided[index] = each if each.verdict else replace(rule.decide(each, each.change, band, levels), p=p)
    for index, each in enumerate(judged):
        yield decided.get(index, each)


def _seen(each: Judged, count: int) -> Judged:
    """Return a case of a duet as its first `count` pairs of agents show it."""
    pairs = tuple(pair.first(count) for pair in each.pairs)
    found = together(pairs)
    assert found is not None
    return Judged(pairs, found, TOO_FEW if found.low is None else "")


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


def _p_changed(found: Change, band: float) -> float:
    return 1.0 if _is_same(found, band, SINGLE) else 2 * min(found.p_above(1), 1 - found.p_above(1))


def _is_same(found: Change, band: float, level: float) -> bool:
    low, high = found.ends(level / 2, level / 2)
    return 1 / (1 + band) <= low and high <= 1 + band


def _decided(each: Judged, found: Change, band: float, levels: Levels) -> Judged:
    """Return SAME if its own 95 % interval lies inside ± `band`; otherwise the word of its shared interval.

    SLOWER and FASTER: the interval does not contain 1. UNDECIDED: it does.
    """
    is_same = _is_same(found, band, levels.single)
    level = levels.single if is_same else levels.shared
    low, high = found.ends(level / 2, level / 2)
    verdict = SAME if is_same else SLOWER if low > 1 else FASTER if high < 1 else UNDECIDED
    return replace(each, change=found.within(low, high), verdict=verdict, confidence=1 - level)


CHANGED = Rule(_p_changed, _decided)
"""Whether a time changed, and in which direction."""


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


# ------------------------------------------------------------------ the gate


PASSED, FAILED, NOT_JUDGED = "PASSED", "FAILED", "NOT JUDGED"


class Gated(NamedTuple):
    """One verdict of the gate."""

    judged: Judged
    outcome: str
    """`PASSED`, `SLOWER`, `UNDECIDED`, `TOO FEW RUNS`, `NOT JUDGED`, or `FAILED`: the case lost its times."""
    why: str = ""
    """Reason for the outcome if the numbers beside it do not show it, one clause."""

    @property
    def change(self) -> Change | None:
        """How the time changed; None if nothing can be compared."""
        return self.judged.change


def judge_slowdowns(pairs: Sequence[Pair], limits: Mapping[str, float], sharers: int = 1) -> tuple[Judged, ...]:
    """Return a verdict for every case and time; `limits` is metric → how much slower it may be, 0.05 for 5 %.

    SLOWER: the lower end of the interval lies above the limit. All verdicts, with those of `sharers` such gates, share
    the level of this test. PASSED: the upper end lies below. It holds for each case alone with 95 % confidence, because
    the gate passes only if all of them pass.
    """
    return judge(
        pairs,
        limits,
        min_runs=GATE_RUNS,
        sharers=sharers,
        rule=Rule(lambda found, limit: found.p_above(1 + limit), _limited),
    )


def _limited(each: Judged, found: Change, limit: float, levels: Levels) -> Judged:
    low, high = found.ends(levels.shared, levels.single)
    verdict = SLOWER if low > 1 + limit else PASSED if high <= 1 + limit else UNDECIDED
    return replace(each, change=found.within(low, high), verdict=verdict, confidence=1 - levels.shared)


def gated(judged: Sequence[Judged], limits: Mapping[str, float]) -> tuple[Gated, ...]:
    """Return the gate's verdicts on the results of `judge_slowdowns` with the same limits.

    A group passes only if no case of it exceeds the limit. What has no verdict has not passed.
    """
    return tuple(_gated(each, limits[each.metric]) for each in judged)


def _gated(each: Judged, limit: float) -> Gated:
    found = each.change
    if each.verdict == NOT_COMPARABLE or found is None:
        first = each.pairs[0]
        is_open = first.is_unreached or first.is_starved
        return Gated(each, FAILED if first.is_lost else UNDECIDED if is_open else NOT_JUDGED, each.trouble)
    if each.verdict == TOO_FEW:
        if each.pairs[0].is_chosen:
            return Gated(each, NOT_JUDGED, "the search chose it only in some runs")
        needed = f"a verdict needs {GATE_RUNS} runs on each side"
        if found.is_duet:
            needed = f"a verdict needs {FIRST_LOOK} pairs of agents"
        elif found.base_runs < GATE_RUNS <= found.new_runs:
            needed = f"the baseline has {count_of(found.base_runs, 'run')} of it, and a verdict needs {GATE_RUNS}"
        why = "all runs are identical" if found.is_copied else needed
        if any(pair.is_starved for pair in each.pairs):
            why += ", and some runs had no free core"
        return Gated(each, TOO_FEW, why)
    if each.verdict == SLOWER:
        return Gated(each, SLOWER)
    if each.verdict == UNDECIDED:
        why = "the times vary too much" if found.is_duet and found.base_runs >= MOST_PAIRS else "more runs are needed"
        return Gated(each, UNDECIDED, why)
    ratios = [together([pair]) for pair in each.pairs]
    worst = max((ratio.ratio for ratio in ratios if ratio is not None), default=1.0)
    if worst > 1 + limit:
        return Gated(each, UNDECIDED, f"one of its cases is at {100 * (worst - 1):+.1f} %")
    return Gated(each, PASSED)


def verdict(found: Sequence[Gated]) -> str:
    """Return the overall verdict: `SLOWER` if any is, else `FAILED`, else `UNDECIDED`, else `PASSED`.

    Without any judged case it is `UNDECIDED`.
    """
    outcomes = [each.outcome for each in found]
    for outcome in (SLOWER, FAILED):
        if outcome in outcomes:
            return outcome
    open_ones = UNDECIDED in outcomes or TOO_FEW in outcomes or PASSED not in outcomes
    return UNDECIDED if open_ones else PASSED
