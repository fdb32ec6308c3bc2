"""Comparisons and gates in words, shared by all faces."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from statistics import geometric_mean
from typing import Any

from cpugpu_tui.analysis import compare
from cpugpu_tui.analysis.compare import FAILED, NOT_JUDGED, PASSED, Gated
from cpugpu_tui.analysis.pairs import SINGLE, Change, Pair, change
from cpugpu_tui.compare.comparison import SeriesComparison
from cpugpu_tui.compare.gate import PLACEBO_MOVED, FleetGate, GateReport
from cpugpu_tui.compare.series import Series, numbers_text
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import DEVICE, LATENCY, names_apart, work_name
from cpugpu_tui.model.quantities import count_of, factor, joined, size_text, time_text
from cpugpu_tui.render.columns import NONE
from cpugpu_tui.render.gpus import simulated_words

VERDICT_WORDS = {
    compare.FASTER: "faster", compare.SLOWER: "slower", compare.SAME: "same", compare.UNDECIDED: "no clear change",
    compare.TOO_FEW: "too few runs", compare.NOT_COMPARABLE: "not comparable",
}  # fmt: skip
"""Verdicts beside a number."""

SHORT_WORDS = {compare.UNDECIDED: "unclear", compare.SAME: "same", compare.FASTER: "faster", compare.SLOWER: "slower"}
"""Verdicts in at most seven cells. Too few runs have no word there, because the title mentions them."""


def percent_text(ratio: float, *others: float) -> str:
    """Return a ratio of times: `+10.2 %`, `0.0 %`; `2.34×` if it, or the other end of an interval, is not in 0.5–2."""
    if not all(0.5 < each < 2 for each in (ratio, *others)):
        return factor(ratio)
    percent = round(100 * (ratio - 1), 1)
    return f"{percent:+.1f} %" if percent else "0.0 %"


def interval_text(change: Change) -> str:
    """Return `+7.1 % to +13.4 %`; a dash without an interval."""
    if change.low is None or change.high is None:
        return "–"
    return f"{percent_text(change.low, change.high)} to {percent_text(change.high, change.low)}"


def judged_text(judged: compare.Judged) -> str:
    """Return the case without its default settings; of a group both ends, `matmul 64 to 512 (4 sizes)`."""
    first, last = judged.pairs[0], judged.pairs[-1]
    if not judged.is_group:
        return f"{_sweep_text(first)} {size_text(first.size)}".strip()
    return f"{_sweep_text(first)} {size_text(first.size)} to {size_text(last.size)} ({len(judged.pairs)} sizes)"


def _sweep_text(pair: Pair) -> str:
    if not pair.sweep:
        return pair.case
    workload, variant, dtype, threads = pair.sweep
    parts = [work_name((pair.code or workload, variant, dtype, threads))]
    parts += [str(dtype)] if dtype != "float32" else []
    parts += [f"t{threads}"] if threads else []
    return " ".join(parts)


# ------------------------------------------------------------------ two series


MOST_IN_ONE = 6
"""Cases of one series that a sentence names; more are counted."""

NOTHING_DIFFERS = "No difference in machine or settings is known."

COPIED = "Runs that are equal to the last digit count once, because they show no noise."


def left_out(series: Series) -> str:
    """Return how many cases of a series lack times of some run, in a sentence; empty without any."""
    starved, count = series.starved_cases
    if not starved:
        return ""
    return f"{starved} of {count} cases had no free CPU core in some run; those times are left out."


def series_text(series: Series) -> str:
    """Return a series as the user named it, safe for a terminal."""
    return printable(series.text)


def against(found: SeriesComparison) -> str:
    """Return which series are compared; simulated ones are marked first."""
    simulated = simulated_words(found.base.runs[0])
    if not found.is_of_two_codes:
        return f"{simulated}{series_text(found.base)} against {series_text(found.new)}"
    names = names_apart(found.new.runs[0].plan.codes[0], found.base.runs[0].plan.codes[0])
    new, old = (
        f"{word} {name} ({numbers_text([run.number for run in side.runs if run.number is not None]) or 'not saved'})"
        for word, name, side in zip(("NEW", "OLD"), names, (found.new, found.base), strict=True)
    )
    return printable(f"{simulated}{new} against {old}")


CASE, TIME, BASE, NEW, CHANGE, INTERVAL, AT_LEAST, AT_MOST, RUNS, VERDICT, OUTCOME = (
    "case", "time", "base", "new", "change", "interval", "at least", "at most", "runs", "verdict", "outcome",
)  # fmt: skip
"""Headings of the columns. `at least` and `at most` are the ends of the gate's interval."""

COMPARED = (CASE, TIME, BASE, NEW, CHANGE, INTERVAL, RUNS, VERDICT)
GATED = (CASE, TIME, BASE, NEW, CHANGE, AT_LEAST, AT_MOST, RUNS, OUTCOME)
"""Columns of a comparison, and of a gate."""
WORDS = {CASE, TIME, VERDICT, OUTCOME}
"""Columns of words; the others hold numbers."""


def cells(each: compare.Judged) -> dict[str, str]:
    """Return heading → text of a verdict; dashes if nothing can be compared.

    The times are geometric means over the runs, so that the change is their ratio. Medians of five noisy runs once
    showed 46.0 and 45.6 µs beside -6.6 %. A group shows no times.
    """
    found = dict.fromkeys((BASE, NEW, CHANGE, INTERVAL, AT_LEAST, AT_MOST, RUNS), NONE)
    found |= {CASE: judged_text(each), TIME: each.label}
    found[VERDICT] = f"{each.verdict}: {each.trouble}" if each.trouble else each.verdict
    if each.change is None:
        return found
    if not each.is_group:
        sides = each.pairs[0].base_ns, each.pairs[0].new_ns
        found[BASE], found[NEW] = (time_text(geometric_mean(side.values())) for side in sides)
    found |= {CHANGE: percent_text(each.change.ratio), INTERVAL: interval_text(each.change)}
    count = f"{each.change.base_runs} vs {each.change.new_runs}"
    found |= {RUNS: count_of(each.change.base_runs, "pair") if each.change.is_duet else count}
    if each.change.low is not None and each.change.high is not None:
        low, high = each.change.low, each.change.high
        found |= {AT_LEAST: percent_text(low, high), AT_MOST: percent_text(high, low)}
    return found


def gated_cells(each: Gated) -> dict[str, str]:
    """Return heading → text of a verdict of the gate."""
    return {**cells(each.judged), OUTCOME: f"{each.outcome}: {each.why}" if each.why else each.outcome}


def code_answer(found: SeriesComparison) -> list[str]:
    """Return at which sizes a code is faster or slower, and by how much; a sentence for each device and verdict."""
    lines, groups = [], dict[object, list[compare.Judged]]()
    for each in found.judged if found.is_of_two_codes and not found.placebo_moved else ():
        groups.setdefault((each.label, each.pairs[0].sweep), []).append(each)
    is_one = len({each.pairs[0].sweep for each in found.judged}) == 1
    for judged in groups.values():
        judged, group = sorted(judged, key=lambda each: each.pairs[0].size), judged[0]
        name = group.label if is_one else f"{group.label}, {_sweep_text(group.pairs[0])}"
        for verdict, run in groupby(judged, lambda each: _NOT_FOUND.get(each.verdict, each.verdict)):
            part = [each for each in run if each.change is not None]
            if part and verdict in (compare.FASTER, compare.SLOWER, compare.SAME):
                lines.append(f"{name}: {_part_text(verdict, part, is_all=len(part) == len(judged))}")
    return lines


_NOT_FOUND = {compare.UNDECIDED: compare.SAME}
"""Verdicts that find no difference."""


def _part_text(verdict: str, part: Sequence[compare.Judged], *, is_all: bool) -> str:
    first, last = part[0].pairs[0].size, part[-1].pairs[-1].size
    where = f"at n = {size_text(first)}" if first == last else f"from n = {size_text(first)} to {size_text(last)}"
    where = "" if is_all and first == last == 1 else f" {where}"  # code without a size
    change = part[-1].change
    assert change is not None
    if verdict == compare.SAME:
        ends = [abs(end - 1) for each in part if each.change for end in (each.change.low, each.change.high) if end]
        return f"no difference above {max(0.1, 100 * max(ends, default=0.0)):.1f} % was found{where}."
    ends = [change.ratio, *sorted((change.low or 1.0, change.high or 1.0), key=lambda end: abs(math.log(end)))]
    is_far = not all(0.5 < end < 2 for end in ends)
    amount, least, most = (factor(max(end, 1 / end)) if is_far else f"{100 * abs(end - 1):.1f} %" for end in ends)
    at = f", at {size_text(last)}" if first != last else ","
    return f"NEW is {verdict.lower()} than OLD{where}{at} by {amount} ({least} to {most})."


def mean_text(label: str, mean: Change) -> str:
    """Return the geometric mean of a device in words."""
    interval = f" (95 % interval {interval_text(mean)})" if mean.low is not None else ""
    return f"{label}, geometric mean of the cases compared: {percent_text(mean.ratio)}{interval}"


def bands_text(bands: Mapping[str, float]) -> str:
    """Return `2 %`, or `2 % (kernel time: 0.5 %)` if the bands differ."""
    kernels = "" if bands[DEVICE] == bands[LATENCY] else f" (kernel time: {100 * bands[DEVICE]:g} %)"
    return f"{100 * bands[LATENCY]:g} %{kernels}"


def confidence_lines(judged: Sequence[compare.Judged], bands: Mapping[str, float]) -> list[str]:
    """Return what SAME and the intervals of a comparison mean; nothing without a verdict."""
    words = {each.verdict for each in judged if each.confidence is not None}
    if not words:
        return []
    # In a duet, the intervals of all looks together have this confidence.
    least = "at least " if any(each.change is not None and each.change.is_duet for each in judged) else ""
    confidence = f"{least}{100 * (1 - SINGLE):g} % confidence"
    same = f"SAME means within ± {bands_text(bands)}; each of these intervals has {confidence}."
    shared, named = _shared_confidence(judged)
    others = f"Confidence of the intervals of SLOWER, FASTER and UNDECIDED: {shared}."
    return [*((same,) if compare.SAME in words else ()), *((others, *named) if words - {compare.SAME} else ())]


def _shared_confidence(judged: Sequence[compare.Judged]) -> tuple[str, list[str]]:
    """Return the confidence of the intervals that share a level, and a sentence about false changes.

    In a duet, and until a case is called SLOWER or FASTER, all intervals together have this confidence. After that each
    has its own, and the sentence is added (`compare.shared_level`).
    """
    is_duet = any(each.change is not None and each.change.is_duet for each in judged)
    if is_duet or not any(each.verdict in (compare.SLOWER, compare.FASTER) for each in judged):
        return f"{100 * (1 - compare.FALSE_WORDS):g} % for all together", []
    least = min(each.confidence for each in judged if each.confidence is not None and each.verdict != compare.SAME)
    named = f"Expected share of false changes among those found: at most {100 * compare.FALSE_SHARE:g} %."
    return f"{100 * least:.4g} % for each", [named]


def gate_confidence_lines(gated: Sequence[Gated]) -> list[str]:
    """Return what the bounds of a gate mean; nothing without a verdict."""
    if not any(each.judged.confidence is not None for each in gated):
        return []
    lower, named = _shared_confidence([each.judged for each in gated])
    upper = f"{100 * (1 - SINGLE):g} % for each"
    return [f"Confidence of the lower bounds: {lower}. Of the upper bounds: {upper}.", *named]


def _only_in_one(found: SeriesComparison) -> list[str]:
    """Return the cases that one series alone has, a sentence for each series."""
    lines = []
    for name, series in (("base", found.base), ("new", found.new)):
        sweeps: dict[str, dict[str, None]] = {}
        for pair in (pair for each in found.judged for pair in each.pairs if pair.only_in == name):
            sweeps.setdefault(_sweep_text(pair), {})[size_text(pair.size)] = None
        count = sum(map(len, sweeps.values()))
        named = "; ".join(f"{sweep} {joined([*sizes])}" for sweep, sizes in sweeps.items())
        if count:
            lines.append(f"Only in {series_text(series)}: {named if count <= MOST_IN_ONE else f'{count} cases'}.")
    return lines


def summary(found: SeriesComparison) -> list[str]:
    """Return the sentences below the verdicts."""
    lines = [*_only_in_one(found), *code_answer(found), *confidence_lines(found.judged, found.bands)]
    lines += [] if found.is_of_two_codes else [mean_text(label, mean) for label, mean in found.means.items()]
    counts = Counter(each.verdict for each in found.shared)
    pairs = max((each.change.base_runs for each in found.shared if each.change is not None), default=0)
    if few := counts[compare.TOO_FEW]:
        sides = f"{compare.MIN_RUNS} on each side are needed, 5 are better"
        needed = f"{compare.FIRST_LOOK} pairs of agents are needed" if found.is_duet else sides
        lines += [f"Too few runs for {few} of {len(found.shared)} verdicts: {needed}. This does not mean `no change`."]
    if found.is_duet:  # of other series each run says it
        lines += filter(None, [left_out(Series("", (*found.base.runs, *found.new.runs)))])
    if any(each.change is not None and each.change.is_copied for each in found.judged):
        lines.append(COPIED)
    if unclear := counts[compare.UNDECIDED]:
        vary = f"the times vary too much for {pairs} pairs of agents"
        why = vary if found.is_duet else "more runs in each series would narrow the intervals"
        lines.append(f"{unclear} undecided: {why}.")
    if found.is_duet and few + unclear and pairs < compare.MOST_PAIRS:
        lines.append("Allow more time with --max-seconds.")
    if any(each.is_group for each in found.judged):
        lines.append("Because there are many cases, neighbouring sizes share a verdict.")
    if counts[compare.NOT_COMPARABLE] == len(found.shared):
        lines.append("No case can be compared.")
    return [*lines, *placebo_lines(found)]


def placebo_lines(found: SeriesComparison) -> list[str]:
    """Return whether the side that was measured twice differs from itself; nothing while no case has a verdict."""
    if all(each.verdict in (compare.TOO_FEW, compare.NOT_COMPARABLE) for each in found.placebo or ()):
        return []
    if not found.placebo_moved:
        return ["Placebo: one side was measured twice and did not move."]
    worst = max(found.placebo_moved, key=lambda each: abs(math.log(each.change.ratio)) if each.change else 0.0)
    change = "" if worst.change is None else f" by {percent_text(worst.change.ratio)} ({interval_text(worst.change)})"
    return [f"The placebo moved: {judged_text(worst)} ({worst.label}) differs from itself{change}.",
            "This comparison shows nothing. Stop other work on this machine and compare again."]  # fmt: skip


def in_short(found: SeriesComparison) -> str:
    """Return counts of verdicts, `2 slower, 1 faster of 28`; with too few runs, the devices' geometric means."""
    counts = Counter(each.verdict for each in found.judged)
    judged = sum(counts.values()) - counts[compare.TOO_FEW] - counts[compare.NOT_COMPARABLE]
    if not judged:
        means = ", ".join(f"{label} {percent_text(mean.ratio)}" for label, mean in found.means.items())
        return f"{means}, too few runs" if means else "nothing comparable"
    clear = [f"{counts[word]} {VERDICT_WORDS[word]}" for word in (compare.SLOWER, compare.FASTER) if counts[word]]
    if clear:
        return f"{', '.join(clear)} of {judged}"
    return VERDICT_WORDS[compare.SAME if counts[compare.SAME] == judged else compare.UNDECIDED]


# ------------------------------------------------------------------ the gate


def gate_sentence(report: GateReport) -> str:
    """Return the result of a gate in a sentence."""
    gated, outcome = report.gated, report.verdict
    counts = Counter(each.outcome for each in gated)
    left_out = counts[NOT_JUDGED]
    most, total = bands_text(report.limits), len(gated) - left_out
    if outcome == compare.SLOWER:
        return f"Not passed: {counts[compare.SLOWER]} of {total} slower by more than {most}."
    if outcome == FAILED:
        although = "" if report.found.is_duet else ", although the baseline has times for them"
        return f"Not passed: {counts[FAILED]} of {total} cases failed{although}."
    if report.found.placebo_moved:
        return f"Undecided: {PLACEBO_MOVED}."
    if outcome == PASSED:
        others = f"; {left_out} {'was' if left_out == 1 else 'were'} not judged" if left_out else ""
        return f"Passed: none of {total} is slower by more than {most}{others}."
    if not total:
        return "Undecided: no case can be judged."
    untimed = [each for each in gated if each.outcome == compare.UNDECIDED and not each.change]
    starved = sum(each.judged.pairs[0].is_starved for each in untimed)
    reasons = {
        "with too few runs": counts[compare.TOO_FEW],
        "not reached": len(untimed) - starved,
        "without a core": starved,
    }
    why = ", ".join(f"{count} {words}" for words, count in reasons.items() if count)
    open_ones = counts[compare.UNDECIDED] + counts[compare.TOO_FEW]
    sides = f"the baseline has {len(report.found.base.runs)}, the new series {len(report.found.new.runs)}"
    more = "the times vary too much" if report.found.is_duet else f"more runs are needed (--repeat): {sides}"
    why = why or more
    return f"Undecided: {open_ones} of {total} may be slower by more than {most}; {why}."


def fleet_gate_sentence(gate: FleetGate) -> str:
    """Return the result of a fleet's gate in a sentence, with the names of slow GPUs."""
    limit, total = bands_text(gate.limits), len(gate.gpus)
    named = {
        outcome: [each.name for each in gate.gpus if each.outcome == outcome] for outcome in (compare.SLOWER, FAILED)
    }
    troubled = ", ".join(each.host.host for each in gate.state.troubled)
    hosts = f"unusable hosts: {troubled}" if troubled else ""
    if gate.verdict == compare.SLOWER:
        slow = named[compare.SLOWER]
        slower = f"slower by more than {limit}: {', '.join(slow)} ({len(slow)} of {total} GPUs)"
        return f"Not passed: {'; '.join(filter(None, (slower, hosts)))}."
    if gate.verdict == FAILED:
        lost = f"cases failed on {', '.join(named[FAILED])}" if named[FAILED] else ""
        return f"Not passed: {'; '.join(filter(None, (lost, hosts)))}."
    if gate.verdict == PASSED:
        return f"Passed: none of {total} GPUs is slower by more than {limit}."
    if not total:
        return "Undecided: no host has a GPU."
    open_ones = sum(each.outcome == compare.UNDECIDED for each in gate.gpus)
    return f"Undecided: {open_ones} of {total} GPUs; they need more runs (--repeat 10) or a baseline of their model."


# ------------------------------------------------------------------ as JSON values


def comparison_data(found: SeriesComparison) -> dict[str, Any]:
    """Return the content of the tables in full precision; `event` tells it apart from events of a run."""
    return {
        "event": "Comparison", "simulated": found.new.runs[0].simulated,
        "base": series_data(found.base), "new": series_data(found.new),
        "margin": found.bands[LATENCY], "bands": dict(found.bands),
        "differences": [{"what": each.what, "base": each.base, "new": each.new} for each in found.differences],
        "geometric_mean": {label: change_data(mean) for label, mean in found.means.items()},
        "verdicts": [judged_data(each) for each in found.judged], "answer": code_answer(found),
        "placebo": None if found.placebo is None else
        {"moved": bool(found.placebo_moved), "verdicts": [judged_data(each) for each in found.placebo]},
    }  # fmt: skip


def series_data(series: Series) -> dict[str, Any]:
    """Return a series and its runs."""
    first = series.runs[0]
    return {
        "name": series.name or None,
        "series_id": first.series_id,
        "run_ids": [run.run_id for run in series.runs],
        "numbers": [run.number for run in series.runs],
    }


def judged_data(each: compare.Judged) -> dict[str, Any]:
    """Return a verdict with its cases; each case of a group has its own ratio, but no verdict and no interval."""
    return {
        "verdict": each.verdict, "device": each.pairs[0].device, "metric": each.metric,
        "trouble": each.trouble or None, "p": each.p, "confidence": each.confidence,
        **change_data(each.change), "cases": [_pair_data(pair) for pair in each.pairs],
    }  # fmt: skip


def _pair_data(pair: Pair) -> dict[str, Any]:
    base, new = list(pair.base_ns.values()), list(pair.new_ns.values())
    found = change(base, new)
    return {"case": pair.case, "base_ns": base, "new_ns": new, "ratio": found.ratio if found is not None else None}


def change_data(found: Change | None) -> dict[str, Any]:
    """Return a change, or nulls without one."""
    return {name: getattr(found, name, None) for name in ("ratio", "low", "high", "base_runs", "new_runs")}
