"""The report of a run: what its sweeps show, decided once for all faces."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from cpugpu_tui import model
from cpugpu_tui.analysis import costs
from cpugpu_tui.analysis.costs import Decomposition, decompose
from cpugpu_tui.decide import verdict
from cpugpu_tui.decide.comparison import DECISIVE_ROUNDS
from cpugpu_tui.decide.starts import LEAST_EARLIER
from cpugpu_tui.report.conditions import Condition, condition_of
from cpugpu_tui.report.segments import ALWAYS, CLASSES, FROM, NONE_TIMED, NOT_TIMED, Size
from cpugpu_tui.state.folding import once
from cpugpu_tui.state.row import Row, threads_of
from cpugpu_tui.state.state import RunState
from cpugpu_tui.workloads import REGISTRY

WITH_COPIES = (costs.END_TO_END, costs.PINNED, costs.TEN_CALLS, costs.HUNDRED_CALLS)
"""Conditions that add copies to the call with its inputs on the GPU."""


class Printed(NamedTuple):
    """Times by the paper's clock at one size, and the GPU's when that clock waits for it; ns."""

    size: int
    cpu_ns: float
    gpu_ns: float
    gpu_waited_ns: float


@dataclass(frozen=True, eq=False)
class SweepReport:
    """What the sizes of one workload show on one GPU."""

    sweep: model.SweepKey
    gpu: model.Device | None
    """The GPU that it is about; None if the run has only one, or none."""
    axis: str
    """Meaning of a size: `n of two n×n matrices`, `hidden units`."""
    threads: int
    """CPU threads in force; 0 if not known."""
    rows: tuple[Row, ...] = field(repr=False)
    """In order of size."""
    one_thread: tuple[Row, ...] = field(repr=False)
    """Those of the same sweep with one CPU thread."""
    has_paper: bool = True
    """Whether a publication's clock belongs to the run."""

    @cached_property
    def _conditions(self) -> dict[str, Condition]:
        return {}

    def under(self, key: str) -> Condition:
        """Return the judgement under the condition with this key of a `WhatIf`."""
        if key not in self._conditions:
            found = condition_of(key, self.one_thread if key == costs.ONE_THREAD else self.rows)
            self._conditions[key] = found.not_below(self.resident) if key in WITH_COPIES else found
        return self._conditions[key]

    @property
    def resident(self) -> Condition:
        """With the inputs on the GPU."""
        return self.under(costs.RESIDENT)

    @property
    def with_copies(self) -> Condition:
        """With copies from and to pageable memory."""
        return self.under(costs.END_TO_END)

    @property
    def conditions(self) -> dict[str, Condition]:
        """Key → judgement, for the conditions with times."""
        found = {what_if.key: self.under(what_if.key) for what_if in costs.WHAT_IFS}
        return {key: each for key, each in found.items() if each.kind != NONE_TIMED}

    def cause(self, *, moved: bool) -> Decomposition | None:
        """Return the parts of a call at the smallest size that was timed, `moved` with copies."""
        smallest = next((row for row in self.rows if row.own_comparison is not None and row.status in _USABLE), None)
        return decomposition_of(smallest, moved=moved) if smallest is not None else None

    def is_same_as(self, other: SweepReport) -> bool:
        """Whether another report of the sweep would say the same, because it is made of the same rows."""
        both = zip((*self.rows, *self.one_thread), (*other.rows, *other.one_thread), strict=False)
        return (
            (len(self.rows), len(self.one_thread)) == (len(other.rows), len(other.one_thread))
            and (self.gpu, self.axis, self.threads, self.has_paper)
            == (other.gpu, other.axis, other.threads, other.has_paper)
            and all(own is their for own, their in both)
        )

    @property
    def printed(self) -> tuple[Printed, ...]:
        """Times by the paper's clock, in order of size."""
        rows = self.rows if self.has_paper else ()
        return tuple(found for row in rows if row.status in _USABLE and (found := printed(row)) is not None)


_USABLE = ("active", "ok")
"""Status of the rows that count."""


@dataclass(frozen=True, eq=False)
class RunReport:
    """What a run shows. Made of its state and never stored."""

    sweeps: tuple[SweepReport, ...]
    """In plan order, of each GPU in turn; thread counts that are a column of another sweep are left out."""
    is_survey: bool
    """Whether the run searches many workloads, which share its time."""

    @cached_property
    def answered(self) -> tuple[SweepReport, ...]:
        """Those with a size timed on both devices; of a survey those first in which the GPU wins earliest."""
        found = [each for each in self.sweeps if each.resident.kind != NONE_TIMED]
        return tuple(sorted(found, key=_place) if self.is_survey else found)


@once
def report(run: RunState) -> RunReport:
    """Return the report of a run, cached in its state."""
    runs = [(gpu, run.on(gpu.name)) for gpu in run.gpus] if len(run.gpus) > 1 else [(None, run)]
    sweeps = tuple(
        sweep_report(seen, sweep, gpu) for gpu, seen in runs for sweep in seen.sweeps if not is_column(seen, sweep)
    )
    search = run.plan.search
    is_survey = search is not None and search.is_survey and len(sweeps) > len(runs)
    return RunReport(sweeps, is_survey)


_REPORT = f"{report.__module__}.{report.__qualname__}"


def sweep_report(run: RunState, sweep: model.SweepKey, gpu: model.Device | None = None) -> SweepReport:
    """Return the report of one sweep, on the only GPU of the run or on `gpu`."""
    rows = tuple(sorted(run.sweeps.get(sweep, ()), key=lambda row: row.case.size))
    usable = [row for row in rows if row.status in _USABLE]
    axis, threads = axis_of(run, rows), threads_of(usable)
    found = SweepReport(sweep, gpu, axis, threads, rows, _one_thread(run, sweep), has_paper(run))
    earlier = run.derived.get(_EARLIER, {}).get((sweep, gpu.name if gpu is not None else ""))
    return earlier if earlier is not None and earlier.is_same_as(found) else found


_EARLIER = f"{__name__}.earlier"
"""Place in `RunState.derived` of the reports that `carry_over` put there."""


def carry_over(before: RunState, after: RunState) -> None:
    """Let a later state of a run keep the judged sweeps of an earlier one as far as their rows are the same objects.

    A gap of a run changes a few rows. Judging all 20 sweeps of a survey again took 130 ms of each gap.
    """
    if after is not before:
        after.derived[_EARLIER] = _by_sweep(before) if _REPORT in before.derived else before.derived.get(_EARLIER, {})


@once
def without_first_rounds(run: RunState) -> RunState:
    """Return a run in progress without the times of sizes that have too few rounds to name a winner.

    Each such size turned the answer to `no winner at 96 (only 1 round)` and back, within seconds. A sweep without other
    times keeps them.
    """
    left_out: dict[str, Row] = {}
    for rows in run.sweeps.values():
        few = [row for row in rows if row.status == "active" and not row.is_starved and _rounds(row) < DECISIVE_ROUNDS]
        if sum(_rounds(row) > 0 for row in few) < sum(_rounds(row) > 0 for row in rows):
            left_out |= {row.case.key: Row(row.case) for row in few}
    if run.status != "running" or not left_out:
        return run
    found = replace(run, rows={**run.rows, **left_out})
    carry_over(run, found)
    return found


def _rounds(row: Row) -> int:
    return row.own_comparison.rounds if row.own_comparison is not None else 0


def sweep_in(run: RunState, sweep: model.SweepKey) -> SweepReport:
    """Return the report of a sweep on the first GPU, also of one that is a column of another sweep."""
    return next((each for each in report(run).sweeps if each.sweep == sweep), None) or sweep_report(run, sweep)


# ------------------------------------------------------------------ one row


def judged(run: RunState, row: Row, key: str = costs.RESIDENT) -> Size:
    """Return the size of a row, on its first GPU under a condition, as its whole sweep judges it."""
    return _report_of(run, row).under(key).at(row) or Size(row.case.size, NOT_TIMED)


def covers_starts(row: Row) -> bool:
    """Return whether the interval of a row is about other starts of the process, too."""
    if row.own_comparison is not None:
        return row.own_comparison.covers_starts
    return row.starts > 1 or any(len(times.earlier) >= LEAST_EARLIER for times in row.times.values())


def is_known(row: Row) -> bool:
    """Whether devices are compared, so that the report tells of a winner; with one, whether its time is within 10 %."""
    rounds = [each.round_ns for each in row.times.values()]
    return row.own_comparison is not None or verdict.is_usable(rounds, row.others, is_compared=False)


def alone_plus_minus(row: Row) -> float | None:
    """Return the relative half-width of the time's 95 % interval if only one device was timed."""
    if len(row.times) != 1 or row.status == "mismatch":
        return None
    (times,) = row.times.values()
    later = [metrics.get(model.LATENCY, {}) for metrics in times.later.values()]
    earlier = [each[model.LATENCY] for each in times.earlier if model.LATENCY in each]
    return verdict.plus_minus(times.round_ns, row.others, later, earlier)


def _report_of(run: RunState, row: Row) -> SweepReport:
    gpu = row.gpu.device if len(run.gpus) > 1 and row.gpu is not None else ""
    known, key = _by_sweep(run), (row.case.sweep, gpu)
    if key not in known:  # a column of another sweep
        known[key] = sweep_report(run.on(gpu) if gpu else run, row.case.sweep)
    return known[key]


@once
def _by_sweep(run: RunState) -> dict[tuple[model.SweepKey, str], SweepReport]:
    return {(each.sweep, each.gpu.name if each.gpu is not None else ""): each for each in report(run).sweeps}


def _place(found: SweepReport) -> tuple[int, float]:
    """Return the sort key of a sweep in a survey: the earlier on its axis the GPU wins, the smaller."""
    condition = found.resident
    decided = condition.decided
    last_speedup = _speedup((condition.timed)[-1])
    if condition.kind in (ALWAYS, FROM) and not condition.changes:
        return CLASSES.index(ALWAYS), -_speedup(decided[0])
    if condition.crossover is None:
        return CLASSES.index(condition.kind), -last_speedup
    first, last = condition.timed[0].size, condition.timed[-1].size
    place = CLASSES.index(FROM) if condition.crossover.rises else CLASSES.index(condition.kind)
    return place, math.log(condition.crossover.point / first) / math.log(last / first)


def _speedup(size: Size) -> float:
    return size.comparison.speedup if size.comparison is not None else 0.0


# ------------------------------------------------------------------ sweeps that share their rows


def main_threads(run: RunState, sweep: model.SweepKey) -> int:
    """Return the threads of the row shared by sweeps that differ only in threads; 0 stands for all.

    It is the largest number, preferably among sweeps with a size timed on both devices.
    """
    return _main_threads(run).get(sweep[:-1], sweep[-1])


@once
def _main_threads(run: RunState) -> dict[tuple[str, ...], int]:
    """Return sweep without its threads → `main_threads`, computed once for a state, because each row asks for it."""
    counts: dict[tuple[str, ...], dict[int, bool]] = {}
    for sweep, rows in run.sweeps.items():
        has_both = any(row.own_comparison is not None for row in rows)
        counts.setdefault(sweep[:-1], {})[sweep[-1]] = has_both
    found = {}
    for sweep_name, of in counts.items():
        compared = [count for count, has_both in of.items() if has_both] or list(of)
        found[sweep_name] = 0 if 0 in compared else max(compared)
    return found


def is_column(run: RunState, sweep: model.SweepKey) -> bool:
    """Whether a sweep is a column in the rows of another sweep that differs only in CPU threads."""
    return sweep[-1] != main_threads(run, sweep)


def _one_thread(run: RunState, sweep: model.SweepKey) -> tuple[Row, ...]:
    """Return the rows of the same sweep with one CPU thread, whose sizes a search may have chosen differently."""
    return tuple(
        other
        for key, others in run.sweeps.items()
        if key[:-1] == sweep[:-1] and key[-1] != sweep[-1]
        for other in others
        if other.status in _USABLE and threads_in_force(other) == 1
    )


def threads_in_force(row: Row) -> int:
    """Return the CPU threads of a row, as calibrated or else as planned."""
    calibrated = row.cpu.calibrated if row.cpu is not None else None
    return calibrated.threads if calibrated is not None else row.case.threads


def axis_of(run: RunState, rows: Sequence[Row]) -> str:
    """Return the meaning of the sizes of a workload: `n`, `batch`, `elements of each vector`."""
    name = rows[0].case.workload if rows else ""
    if any(code.name == name for code in run.plan.codes):
        from cpugpu_tui.workloads.python_text import SIZE  # see `OwnWorkloads.infos`

        return SIZE
    workload = REGISTRY.get(name)
    return workload.axis if workload is not None else ""


# ------------------------------------------------------------------ causes, and a publication's clock


@once
def has_paper(run: RunState) -> bool:
    """Whether a run repeats what a publication timed. Searches do not; older versions timed them by its clock, too."""
    plan = run.plan
    is_asked = model.AS_WRITTEN in plan.metrics and plan.search is None
    return is_asked and any(_is_published(case, plan.scale) for case in plan.cases)


def _is_published(case: model.Case, scale: str) -> bool:
    workload = REGISTRY.get(case.workload)
    facts = workload.as_written if workload is not None else None
    return facts is not None and facts.covers(case.variant, case.size, scale)


def decomposition_of(row: Row, *, moved: bool) -> Decomposition | None:
    """Return the parts of one call on the GPU, `moved` with copies to and from the host."""
    times = row.gpu
    if times is None or row.status == "mismatch":
        return None
    to_gpu, back = times.median_ns(model.H2D_PAGEABLE), times.median_ns(model.D2H_PAGEABLE)
    if moved and (to_gpu is None or back is None):
        return None
    return decompose(
        times.median_ns(model.PAGEABLE) if moved else times.latency_ns,
        times.median_ns(model.ENQUEUE), times.median_ns(model.DEVICE_WARM) or times.kernels_ns,
        times.median_ns(model.SYNCHRONISE),
        to_gpu if moved else None, back if moved else None,
    )  # fmt: skip


def printed(row: Row) -> Printed | None:
    """Return the times of a row by the paper's clock; None without them."""
    if row.cpu is None or row.gpu is None or row.status == "mismatch":
        return None
    cpu, gpu, waited = (
        row.cpu.median_ns(model.AS_WRITTEN),
        row.gpu.median_ns(model.AS_WRITTEN),
        row.gpu.median_ns(model.SYNCED),
    )
    return Printed(row.case.size, cpu, gpu, waited) if cpu and gpu and waited else None
