"""What tells saved runs apart in a list: the answer of each in a few words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpugpu_tui.model import LATENCY, Case, CaseFinished
from cpugpu_tui.model.quantities import factor, size_text, time_text
from cpugpu_tui.render.crossover_words import where
from cpugpu_tui.report.conditions import Condition
from cpugpu_tui.report.report import report
from cpugpu_tui.report.segments import GPU, NONE_TIMED
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.folding import folded
from cpugpu_tui.state.row import Row
from cpugpu_tui.state.state import RunState

if TYPE_CHECKING:
    from cpugpu_tui.store import RunSummary, Store
    from cpugpu_tui.store.reading import RoundTimes


MOST_CASES = 1_000
"""Cases of which a command reads the results: 1,000 take 0.15 s."""


@dataclass(frozen=True)
class Outcome:
    """The result of one saved run."""

    answer: str = ""
    """`GPU from ≈ 205`, `CPU 3.1× at 64`, `CPU 4.1 ms at 2,048`; of several workloads `GPU wins 18 of 20`; or empty."""
    sweeps: int = 0
    """Number of sweeps if the answer is only that of the first one with a winner."""


def affordable(runs: Sequence[RunSummary]) -> Sequence[RunSummary]:
    """Return the first of these runs, with at most `MOST_CASES` finished cases together."""
    cases = 0
    for index, run in enumerate(runs):
        cases += run.cases_ok
        if cases > MOST_CASES:
            return runs[:index]
    return runs


def outcomes(store: Store, runs: Sequence[RunSummary]) -> dict[int, Outcome]:
    """Return the outcomes of these runs, by number."""
    times = store.round_times(sorted(run.number for run in runs))
    return {run.number: outcome_of(times[run.number]) for run in runs}


def outcome_of(times: RoundTimes) -> Outcome:
    """Return the outcome of a run with these times."""
    rows = _rows(times)
    finished = folded((CaseFinished(case=key) for key in rows), RunState(rows=rows))
    found = report(finished.with_shared_correlation()).sweeps
    compared = [each.resident for each in found if each.resident.kind != NONE_TIMED]
    told = next((each for each in compared if each.decided), next(iter(compared), None))
    answer = _answer(told) if told is not None else _only_time(found[0].rows) if found else ""
    if len({each.sweep[0] for each in found}) == 1:
        return Outcome(answer, len(found))
    wins = sum(any(size.winner == GPU for size in each.decided) for each in compared)
    return Outcome(f"GPU wins {wins} of {len(compared)}" if compared else answer)


def _rows(times: RoundTimes) -> dict[str, Row]:
    """Return case key → row with these latencies."""
    found = {}
    for key, devices in times.items():
        workload, variant, size, dtype, threads = key.rsplit("/", 4)
        case = Case(workload, int(size), dtype, 0 if threads == "tall" else int(threads[1:]), variant)
        found[key] = Row(case, times={
            name: DeviceTimes(name, round_ns=starts.get(0, {}),
                              later={start: {LATENCY: rounds} for start, rounds in starts.items() if start})
            for name, starts in devices.items()
        })  # fmt: skip
    return found


def _answer(found: Condition) -> str:
    """Return the answer of one sweep."""
    if not found.decided or found.changes:
        return f"GPU {where(found, with_above=False)}" if found.changes else "unclear"
    last = found.decided[-1]
    speedup = last.comparison.speedup if last.comparison is not None else 1.0
    return f"{last.winner} {factor(max(speedup, 1 / speedup))} at {size_text(last.size)}"


def _only_time(rows: Sequence[Row]) -> str:
    """Return the time of the largest case of a run on one device."""
    for times in rows[-1].times.values():
        if times.latency_ns is not None:
            name = "CPU" if times.device == "cpu" else "GPU"
            return f"{name} {time_text(times.latency_ns)} at {size_text(rows[-1].case.size)}"
    return ""
