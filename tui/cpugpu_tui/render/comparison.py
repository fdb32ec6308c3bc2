"""Comparisons and gates in words: changes, verdicts, and the sentences below them, for every face."""

from __future__ import annotations

from collections import Counter
from statistics import geometric_mean
from typing import Any

from cpugpu_tui.analysis.compare import (
    FASTER,
    MIN_RUNS,
    NOT_COMPARABLE,
    SAME,
    SLOWER,
    TOO_FEW,
    UNDECIDED,
    Change,
    Judged,
    Pair,
    change,
)
from cpugpu_tui.analysis.gating import FAILED, NOT_JUDGED, PASSED, Gated
from cpugpu_tui.compare.comparison import SeriesComparison
from cpugpu_tui.compare.gate import FleetGate, GateReport
from cpugpu_tui.compare.series import Series
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model.quantities import factor, time_text
from cpugpu_tui.render.columns import NONE

VERDICT_WORDS = {FASTER: "faster", SLOWER: "slower", SAME: "same", UNDECIDED: "no clear change",
                 TOO_FEW: "too few runs", NOT_COMPARABLE: "not comparable"}  # fmt: skip
"""Verdicts as they stand beside a number."""

SHORT_WORDS = {UNDECIDED: "unclear", SAME: "same", FASTER: "faster", SLOWER: "slower"}
"""The same in the seven cells that 120 columns leave; too few runs have no word there, the title says it."""


def percent_text(ratio: float) -> str:
    """Return a ratio of times as a change: `+10.2 %`, `0.0 %`; from twice and half on as a factor, `2.34×`."""
    if not 0.5 < ratio < 2:
        return factor(ratio)
    percent = round(100 * (ratio - 1), 1)
    return f"{percent:+.1f} %" if percent else "0.0 %"


def interval_text(change: Change) -> str:
    """Return `+7.1 % to +13.4 %`; a dash without an interval."""
    if change.low is None or change.high is None:
        return "–"
    return f"{percent_text(change.low)} to {percent_text(change.high)}"


def judged_text(judged: Judged) -> str:
    """Return the case with what is not usual in it; of a group its ends: `matmul 64 to 512 (4 sizes)`."""
    first, last = judged.pairs[0], judged.pairs[-1]
    if not judged.is_group:
        return f"{_sweep_text(first)} {first.size:,}".strip()
    return f"{_sweep_text(first)} {first.size:,} to {last.size:,} ({len(judged.pairs)} sizes)"


def _sweep_text(pair: Pair) -> str:
    if len(pair.sweep) != 4:
        return pair.case
    workload, variant, dtype, threads = pair.sweep
    parts = [str(workload)]
    parts += [str(variant)] if variant != "default" else []
    parts += [str(dtype)] if dtype != "float32" else []
    parts += [f"t{threads}"] if threads else []
    return " ".join(parts)


# ------------------------------------------------------------------ two series


NOTHING_DIFFERS = "Nothing that is known of machine and settings differs."

COPIED = "Runs that agree to the last digit are copies of one and count once: they tell nothing of chance."


def left_out(series: Series) -> str:
    """Return how many cases of a series are no baseline, in a sentence; empty where all are."""
    starved, count = series.starved_cases
    if not starved:
        return ""
    return f"{starved} of {count} cases lacked a core in some run; those times are left out."


def said(series: Series) -> str:
    """Return a series as it was named, fit for a terminal."""
    return printable(series.text)


def against(found: SeriesComparison) -> str:
    """Return what is compared with what; made-up series say so first."""
    made_up = "SIMULATED: no number here was measured. " if found.base.runs[0].simulated else ""
    return f"{made_up}{said(found.base)} against {said(found.new)}"


CASE, ON, BASE, NEW, CHANGE, INTERVAL, AT_MOST, RUNS, VERDICT, OUTCOME = (
    "case", "on", "base", "new", "change", "95 % interval", "at most", "runs", "verdict", "outcome",
)  # fmt: skip
"""Headings of the columns; `at most`: the change is no larger, with 95 % confidence."""

COMPARED = (CASE, ON, BASE, NEW, CHANGE, INTERVAL, RUNS, VERDICT)
GATED = (CASE, ON, BASE, NEW, CHANGE, AT_MOST, RUNS, OUTCOME)
"""Columns of a comparison, and of a gate."""
WORDS = {CASE, ON, VERDICT, OUTCOME}
"""Columns of words; the others are of numbers."""


def cells(each: Judged) -> dict[str, str]:
    """Return heading → text of a verdict; dashes where nothing can be compared.

    The times of both sides are geometric means over their runs, and the change is the ratio of just these: of medians,
    five runs that scatter read 46.0 and 45.6 µs beside -6.6 %. A group has many times, and shows none.
    """
    found = dict.fromkeys((BASE, NEW, CHANGE, INTERVAL, AT_MOST, RUNS), NONE)
    found |= {CASE: judged_text(each), ON: each.device}
    found[VERDICT] = f"{each.verdict}: {each.trouble}" if each.trouble else each.verdict
    if each.change is None:
        return found
    if not each.is_group:
        sides = each.pairs[0].base_ns, each.pairs[0].new_ns
        found[BASE], found[NEW] = (time_text(geometric_mean(side.values())) for side in sides)
    found |= {CHANGE: percent_text(each.change.ratio), INTERVAL: interval_text(each.change)}
    found |= {RUNS: f"{each.change.base_runs} vs {each.change.new_runs}"}
    return found if each.change.at_most is None else {**found, AT_MOST: percent_text(each.change.at_most)}


def gated_cells(each: Gated) -> dict[str, str]:
    """Return heading → text of a verdict of the gate."""
    return {**cells(each.judged), OUTCOME: f"{each.outcome}: {each.why}" if each.why else each.outcome}


def mean_text(device: str, mean: Change) -> str:
    """Return the geometric mean of a device in words."""
    interval = f" ({interval_text(mean)})" if mean.low is not None else ""
    return f"{device}, geometric mean of all cases: {percent_text(mean.ratio)}{interval}"


def summary(found: SeriesComparison) -> list[str]:
    """Return what is said below the verdicts."""
    lines = [mean_text(device, mean) for device, mean in found.means.items()]
    counts = Counter(each.verdict for each in found.judged)
    if counts[TOO_FEW]:
        lines.append(
            f"Too few runs for {counts[TOO_FEW]} of {len(found.judged)} verdicts: {MIN_RUNS} on each side are needed, "
            "five are better. That is not `no change`."
        )
    if any(each.change is not None and each.change.is_copied for each in found.judged):
        lines.append(COPIED)
    if counts[UNDECIDED]:
        lines.append(f"{counts[UNDECIDED]} undecided: more runs in each series would narrow the intervals.")
    if any(each.is_group for each in found.judged):
        lines.append("Many cases: neighbours in size share a verdict.")
    if counts[NOT_COMPARABLE] == len(found.judged):
        lines.append("Nothing here can be compared.")
    return lines


def in_short(found: SeriesComparison) -> str:
    """Return the verdicts counted: `2 slower, 1 faster of 28`; with too few runs the geometric means of the devices."""
    counts = Counter(each.verdict for each in found.judged)
    judged = sum(counts.values()) - counts[TOO_FEW] - counts[NOT_COMPARABLE]
    if not judged:
        means = ", ".join(
            f"{device} {percent_text(mean.ratio).replace(' ', '')}" for device, mean in found.means.items()
        )
        return f"{means}, too few runs" if means else "nothing comparable"
    told = [f"{counts[word]} {VERDICT_WORDS[word]}" for word in (SLOWER, FASTER) if counts[word]]
    if told:
        return f"{', '.join(told)} of {judged}"
    return VERDICT_WORDS[SAME if counts[SAME] == judged else UNDECIDED]


# ------------------------------------------------------------------ the gate


def gate_sentence(report: GateReport) -> str:
    """Return what all verdicts of a gate mean."""
    gated, outcome = report.gated, report.verdict
    counts = Counter(each.outcome for each in gated)
    left_out = counts[NOT_JUDGED]
    most, total = f"{100 * report.limit:g} %", len(gated) - left_out
    if outcome == SLOWER:
        return f"Not passed: {counts[SLOWER]} of {total} slower by more than {most}."
    if outcome == FAILED:
        return f"Not passed: {counts[FAILED]} of {total} failed that the baseline has."
    if outcome == PASSED:
        others = f"; {left_out} {'was' if left_out == 1 else 'were'} not judged" if left_out else ""
        return f"Passed: none of {total} is slower by more than {most}{others}."
    if not total:
        return "Undecided: nothing here can be judged."
    untimed = [each for each in gated if each.outcome == UNDECIDED and not each.change]
    starved = sum(each.judged.pairs[0].is_starved for each in untimed)
    reasons = {"with too few runs": counts[TOO_FEW], "not reached": len(untimed) - starved, "without a core": starved}
    why = ", ".join(f"{count} {words}" for words, count in reasons.items() if count)
    open_ones = counts[UNDECIDED] + counts[TOO_FEW]
    why = why or "more runs (--repeat 10) would tell"
    return f"Undecided: {open_ones} of {total} may be slower by more than {most}; {why}."


def fleet_gate_sentence(gate: FleetGate) -> str:
    """Return what the gate of a fleet means, with the names of what is slow."""
    limit, total = f"{100 * gate.limit:g} %", len(gate.gpus)
    named = {outcome: [each.name for each in gate.gpus if each.outcome == outcome] for outcome in (SLOWER, FAILED)}
    troubled = ", ".join(each.host.host for each in gate.state.troubled)
    hosts = f"; not usable: {troubled}" if troubled else ""
    if gate.verdict == SLOWER:
        slow = named[SLOWER]
        return f"Not passed: slower by more than {limit}: {', '.join(slow)} ({len(slow)} of {total} GPUs){hosts}."
    if gate.verdict == FAILED:
        lost = f"cases failed on {', '.join(named[FAILED])}" if named[FAILED] else "no case was slower"
        return f"Not passed: {lost}{hosts}."
    if gate.verdict == PASSED:
        return f"Passed: none of {total} GPUs is slower by more than {limit}."
    if not total:
        return "Undecided: no host has a GPU."
    open_ones = sum(each.outcome == UNDECIDED for each in gate.gpus)
    return f"Undecided: {open_ones} of {total} GPUs; more runs (--repeat 10) or a baseline of their model would tell."


# ------------------------------------------------------------------ as JSON values


def comparison_data(found: SeriesComparison) -> dict[str, Any]:
    """Return all that the tables show, in full precision; `event` tells it from the events of a run's stream."""
    return {
        "event": "Comparison",
        "base": series_data(found.base),
        "new": series_data(found.new),
        "margin": found.margin,
        "differences": [{"what": each.what, "base": each.base, "new": each.new} for each in found.differences],
        "geometric_mean": {device: change_data(mean) for device, mean in found.means.items()},
        "verdicts": [judged_data(each) for each in found.judged],
    }


def series_data(series: Series) -> dict[str, Any]:
    """Return which runs a series has."""
    first = series.runs[0]
    return {
        "name": series.name or None,
        "series_id": first.series_id,
        "run_ids": [run.run_id for run in series.runs],
        "numbers": [run.number for run in series.runs],
    }


def judged_data(each: Judged) -> dict[str, Any]:
    """Return a verdict with the cases that it is about; in a group each has a ratio of its own, and no verdict."""
    return {
        "verdict": each.verdict,
        "device": each.device,
        "trouble": each.trouble or None,
        "p": each.p,
        **change_data(each.change),
        "cases": [_pair_data(pair) for pair in each.pairs],
    }


def _pair_data(pair: Pair) -> dict[str, Any]:
    base, new = list(pair.base_ns.values()), list(pair.new_ns.values())
    return {"case": pair.case, "base_ns": base, "new_ns": new, **change_data(change(base, new))}


def change_data(found: Change | None) -> dict[str, Any]:
    """Return a change; nulls where there is none."""
    if found is None:
        return {"ratio": None, "low": None, "high": None, "base_runs": None, "new_runs": None}
    return {
        "ratio": found.ratio,
        "low": found.low,
        "high": found.high,
        "base_runs": found.base_runs,
        "new_runs": found.new_runs,
    }
