"""The gate: a series passes if no case is slower than the baseline by more than a limit. Undecided is not a pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from cpugpu_tui.analysis import compare
from cpugpu_tui.analysis.pairs import Change, Pair, together

PASSED, FAILED, NOT_JUDGED = "PASSED", "FAILED", "NOT JUDGED"


class Gated(NamedTuple):
    """One verdict of the gate."""

    judged: compare.Judged
    outcome: str
    """`PASSED`, `SLOWER`, `UNDECIDED`, `TOO FEW RUNS`, `NOT JUDGED`, or `FAILED`: the case lost its times."""
    why: str = ""
    """Reason for the outcome if the numbers beside it do not show it, one clause."""

    @property
    def change(self) -> Change | None:
        """How the time changed; None if nothing can be compared."""
        return self.judged.change


def judge_slowdowns(pairs: Sequence[Pair], limits: Mapping[str, float], sharers: int = 1) -> tuple[compare.Judged, ...]:
    """Return a verdict for every case and time; `limits` is metric → how much slower it may be, 0.05 for 5 %.

    SLOWER: the lower end of the interval lies above the limit. All verdicts, with those of `sharers` such gates, share
    the level of this test. PASSED: the upper end lies below. It holds for each case alone with 95 % confidence, because
    the gate passes only if all of them pass.
    """
    return compare.judge(
        pairs, limits, min_runs=compare.GATE_RUNS, sharers=sharers, rule=compare.Rule(_p_slower, _limited)
    )


def _p_slower(found: Change, limit: float) -> float:
    return found.p_above(1 + limit)


def _limited(each: compare.Judged, found: Change, limit: float, levels: compare.Levels) -> compare.Judged:
    low, high = found.ends(levels.shared, levels.single)
    verdict = compare.SLOWER if low > 1 + limit else PASSED if high <= 1 + limit else compare.UNDECIDED
    return replace(each, change=found.within(low, high), verdict=verdict, confidence=1 - levels.shared)


def gated(judged: Sequence[compare.Judged], limits: Mapping[str, float]) -> tuple[Gated, ...]:
    """Return the gate's verdicts on the results of `judge_slowdowns` with the same limits.

    A group passes only if no case of it exceeds the limit. What has no verdict has not passed.
    """
    return tuple(_gated(each, limits[each.metric]) for each in judged)


def _gated(each: compare.Judged, limit: float) -> Gated:
    found = each.change
    if each.verdict == compare.NOT_COMPARABLE or found is None:
        first = each.pairs[0]
        is_open = first.is_unreached or first.is_starved
        return Gated(each, FAILED if first.is_lost else compare.UNDECIDED if is_open else NOT_JUDGED, each.trouble)
    if each.verdict == compare.TOO_FEW:
        if each.pairs[0].is_chosen:
            return Gated(each, NOT_JUDGED, "the search chose it only in some runs")
        needed = f"{compare.FIRST_LOOK} pairs of agents" if found.is_duet else f"{compare.GATE_RUNS} runs on each side"
        why = "all runs are identical" if found.is_copied else f"a verdict needs {needed}"
        if any(pair.is_starved for pair in each.pairs):
            why += ", and some runs had no free core"
        return Gated(each, compare.TOO_FEW, why)
    if each.verdict == compare.SLOWER:
        return Gated(each, compare.SLOWER)
    if each.verdict == compare.UNDECIDED:
        why = (
            "the times vary too much"
            if found.is_duet and found.base_runs >= compare.MOST_PAIRS
            else "more runs are needed"
        )
        return Gated(each, compare.UNDECIDED, why)
    ratios = [together([pair]) for pair in each.pairs]
    worst = max((ratio.ratio for ratio in ratios if ratio is not None), default=1.0)
    if worst > 1 + limit:
        return Gated(each, compare.UNDECIDED, f"one of its cases is at {100 * (worst - 1):+.1f} %")
    return Gated(each, PASSED)


def verdict(found: Sequence[Gated]) -> str:
    """Return the overall verdict: `SLOWER` if any is, else `FAILED`, else `UNDECIDED`, else `PASSED`.

    Without any judged case it is `UNDECIDED`.
    """
    outcomes = [each.outcome for each in found]
    for outcome in (compare.SLOWER, FAILED):
        if outcome in outcomes:
            return outcome
    open_ones = compare.UNDECIDED in outcomes or compare.TOO_FEW in outcomes or PASSED not in outcomes
    return compare.UNDECIDED if open_ones else PASSED
