"""Whether a new series may pass: no case slower than the baseline by more than a limit. Undecided is never a pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cpugpu_tui.analysis.compare import (
    GATE_RUNS,
    NOT_COMPARABLE,
    SLOWER,
    TOO_FEW,
    UNDECIDED,
    Change,
    Judged,
    Pair,
    change,
    judge,
)

PASSED, FAILED, NOT_JUDGED = "PASSED", "FAILED", "NOT JUDGED"


@dataclass(frozen=True)
class Gated:
    """One verdict of the gate."""

    judged: Judged
    outcome: str
    """`PASSED`, `SLOWER`, `UNDECIDED`, `TOO FEW RUNS`, `FAILED`: the case has no times any more; `NOT JUDGED`."""
    why: str = ""
    """What the outcome rests on where the numbers beside it do not say so, one clause."""

    @property
    def change(self) -> Change | None:
        """How the time changed; None where nothing can be compared."""
        return self.judged.change


def judge_slowdowns(pairs: Sequence[Pair], limit: float) -> tuple[Judged, ...]:
    """Return a verdict for every case, as `judge`; `limit` is 0.05 for 5 %, and faster is never told."""
    return judge(pairs, margin=limit, min_runs=GATE_RUNS, slower_only=True)


def gated(judged: Sequence[Judged], limit: float) -> tuple[Gated, ...]:
    """Return the gate's verdicts on what `judge_slowdowns` found with the same limit.

    SLOWER: told apart from no change, all verdicts taken together, and slower by more than the limit. PASSED: with
    95 % confidence slower by at most the limit; in a group, none of its cases reads more. All else has not passed.
    """
    return tuple(_gated(each, limit) for each in judged)


def _gated(each: Judged, limit: float) -> Gated:
    found = each.change
    if each.verdict == NOT_COMPARABLE or found is None:
        first = each.pairs[0]
        is_open = first.is_unreached or first.is_starved
        return Gated(each, FAILED if first.is_lost else UNDECIDED if is_open else NOT_JUDGED, each.trouble)
    if each.verdict == TOO_FEW:
        if each.pairs[0].is_chosen:
            return Gated(each, NOT_JUDGED, "a search chose it in some runs only")
        why = "its runs are copies of one" if found.is_copied else f"a verdict takes {GATE_RUNS} runs on each side"
        if any(pair.is_starved for pair in each.pairs):
            why += ", and in some its threads had no core"
        return Gated(each, TOO_FEW, why)
    if each.verdict == SLOWER:
        return Gated(each, SLOWER)
    if found.at_most is None or found.at_most > 1 + limit:
        return Gated(each, UNDECIDED, "more runs would tell")
    ratios = [change(list(pair.base_ns.values()), list(pair.new_ns.values())) for pair in each.pairs]
    worst = max((ratio.ratio for ratio in ratios if ratio is not None), default=1.0)
    if worst > 1 + limit:
        return Gated(each, UNDECIDED, f"one of its cases reads {worst - 1:+.1%}")
    return Gated(each, PASSED)


def verdict(found: Sequence[Gated]) -> str:
    """Return what all of them mean: `SLOWER` if any is, else `FAILED`, else `UNDECIDED`, else `PASSED`.

    Nothing judged is undecided.
    """
    outcomes = [each.outcome for each in found]
    for outcome in (SLOWER, FAILED):
        if outcome in outcomes:
            return outcome
    open_ones = UNDECIDED in outcomes or TOO_FEW in outcomes or PASSED not in outcomes
    return UNDECIDED if open_ones else PASSED
