"""Compare a run with the previous series of the same plan, row by row, and the runs of one series with each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

from cpugpu_tui.analysis.compare import Judged, judge
from cpugpu_tui.analysis.pairs import change
from cpugpu_tui.compare.comparison import differences, pairs_of
from cpugpu_tui.compare.series import MOST_LOOKED_THROUGH, Series, numbers_text
from cpugpu_tui.decide.stats import median
from cpugpu_tui.model import DEVICE, LATENCY, Case, OwnCode, Plan, RunStarted
from cpugpu_tui.session.repeat import case_words
from cpugpu_tui.state.folding import MeasuredRun, device_names
from cpugpu_tui.state.row import Row
from cpugpu_tui.state.state import RunState
from cpugpu_tui.store import RunSummary


class Reader(Protocol):
    """The history as this module reads it; every method raises `CpuGpuError` if it cannot be read now."""

    def runs(self, limit: int, before: int | None = None) -> list[RunSummary]:
        """Return the newest runs, or those with a lower number."""

    def plan_of(self, run_id: str) -> Plan:
        """Return the plan of a run."""

    def series(self, series_id: str) -> Series:
        """Return a series by its id."""


TRIVIAL = ("which GPU", "host", "kernel", "python", "interpreter", "throttled by", "others on the GPU")
"""Facts that are too minor to show beside every run; `compare` lists them all."""


@dataclass(frozen=True)
class DeviceChange:
    """A row on one device: its times in the previous and in this series, and the verdict."""

    device: str
    """`CPU` or `GPU`."""
    base_ns: tuple[float, ...]
    """Median of each run of the previous series, ns; empty without one."""
    new_ns: tuple[float, ...]
    """Median of each run of this series so far, ns."""
    judged: Judged | None = None
    """Its verdict, which neighbours in size may share; None during the run and without a previous series."""
    kernels: Judged | None = None
    """The same for the kernel time; None also if it has none."""

    @property
    def verdict(self) -> str:
        """One of the verdicts of `analysis.compare`; empty without one."""
        return self.judged.verdict if self.judged is not None else ""

    @property
    def ratio(self) -> float | None:
        """Time of this series / time of the previous one; None while either is missing."""
        found = change(self.base_ns, self.new_ns)
        return found.ratio if found is not None else None

    @property
    def spread(self) -> float | None:
        """Slowest minus fastest run of this series, as a share of their median; None with one run."""
        if len(self.new_ns) < 2:
            return None
        return (max(self.new_ns) - min(self.new_ns)) / median(self.new_ns)


@dataclass(frozen=True, eq=False)
class Changes:
    """What the rows of one run are compared with. Instances are equal only if they are the same object."""

    run_id: str
    """The run of these rows."""
    base: Series | None = None
    """The previous series of the same plan, or the run of which one row is run again."""
    new: tuple[MeasuredRun, ...] = ()
    """Finished runs of this series, including this run once it has ended."""
    age: str = ""
    """How much older the base is: `3 min`; empty for less than a minute."""
    remark: str = ""
    """Other differences between the sides, see `remark_on`."""
    number: int | None = None
    """Number of this run in its database."""

    def with_run(self, run: MeasuredRun) -> Changes:
        """Return the changes after the end of the run."""
        return replace(self, new=(*self.new, run))

    @property
    def is_over(self) -> bool:
        """Whether the run has ended, so that its rows have verdicts."""
        return any(run.run_id == self.run_id for run in self.new)

    @property
    def runs(self) -> int:
        """Number of runs of this series so far, including one in progress."""
        return len(self.new) + (not self.is_over)

    @cached_property
    def judged(self) -> Mapping[tuple[str, str, str], Judged]:
        """Case, device and metric → verdict; neighbours in size may share one."""
        if self.base is None or not self.is_over:
            return {}
        found = judge(pairs_of(self.base.runs, self.new))
        return {(pair.case, pair.device, pair.metric): each for each in found for pair in each.pairs}

    def of(self, run: RunState, row: Row) -> tuple[DeviceChange, ...]:
        """Return the row on the CPU and on the first GPU, if timed; nothing for a row of another run."""
        if run.run is None or run.run.run_id != self.run_id:
            return ()
        names = device_names(run)
        timed = [times for times in (row.cpu, row.gpu) if times is not None]
        return tuple(self._on(row, names[times.device], times.latency_ns) for times in timed if times.device in names)

    def _on(self, row: Row, device: str, now_ns: float | None) -> DeviceChange:
        key = row.case.key
        new_ns = _medians(self.new, key, device)
        if not self.is_over and row.status == "ok" and now_ns:
            new_ns = (*new_ns, now_ns)
        base_ns = _medians(self.base.runs, key, device) if self.base is not None else ()
        latency, kernels = (self.judged.get((key, device, metric)) for metric in (LATENCY, DEVICE))
        return DeviceChange(device, base_ns, new_ns, latency, kernels)

    def widest(self, run: RunState) -> float | None:
        """Return the largest spread of any row on any device; None with one run."""
        if len(self.new) < 2:
            return None
        spreads = [each.spread for row in run.rows.values() for each in self.of(run, row)]
        return max((spread for spread in spreads if spread is not None), default=None)

    @property
    def against(self) -> str:
        """The compared runs: `run 7 vs run 6 (3 min earlier)`; empty without a base."""
        return " vs ".join(self._sides())

    @property
    def heading(self) -> str:
        """The same in words: `Change: run 7 (this one) against run 6 (3 min earlier)`."""
        mine, theirs = self._sides()
        is_this = f"run {self.number}" == mine
        return f"Change: {mine}{' (this one)' if is_this else ''} against {theirs}"

    def _sides(self) -> tuple[str, ...]:
        """Return the new runs and the old ones in words; empty without a base."""
        if self.base is None:
            return ()
        numbers = [run.number for run in self.new if run.number is not None] or [self.number or 0]
        mine = numbers_text([number for number in {*numbers, self.number or 0} if number]) or "this run"
        theirs = numbers_text([run.number for run in self.base.runs if run.number is not None]) or "the previous run"
        older = f" ({self.age} earlier)" if self.age else ""
        return mine, f"{theirs}{older}{f', {self.remark}' if self.remark else ''}"


def _medians(runs: tuple[MeasuredRun, ...], key: str, device: str) -> tuple[float, ...]:
    found = (run.cases[key].median_ns.get(device) for run in runs if key in run.cases)
    return tuple(ns for ns in found if ns is not None)


# ------------------------------------------------------------------ which runs


def same_work(plan: Plan) -> Plan:
    """Return a plan without what may differ between comparable runs: calibrations, pauses for painting, time limits.

    The content of the user's own files is left out, too, so that the effect of an edit can be seen.
    """
    search = replace(plan.search, found=()) if plan.search is not None else None
    simulation = replace(plan.simulation, seed=0) if plan.simulation is not None else None  # seeds differ by run
    return replace(
        plan, ceilings=(), gaps=False, max_seconds=None, search=search, own_files=(), calibrate=False,
        simulation=simulation, codes=tuple(map(without_hash, plan.codes)),
    )  # fmt: skip


def without_hash(code: OwnCode) -> OwnCode:
    """Return typed code without the hashes of its files."""
    return replace(code, sha256="", sides=tuple(map(without_hash, code.sides)))


def plan_of_row(plan: Plan, case: Case) -> Plan:
    """Return the plan that runs only one case of a plan; its name is that of the workload."""
    words = case_words((case,), plan.codes)
    return replace(plan, name=case.workload, cases=(case,), search=None, ceilings=(), calibrate=False, words=words)


def series_before(reader: Reader, started: RunStarted) -> Series | None:
    """Return the newest older series of the same work on the same machine, with its finished runs; None without one.

    Raises:
        CpuGpuError: the history cannot be read.
    """
    wanted, host = same_work(started.plan), str(started.environment.get("hostname") or "")
    looked_at = {started.series_id}
    simulated = started.plan.simulation is not None
    for run in reader.runs(MOST_LOOKED_THROUGH, started.number):
        if run.series_id in looked_at or run.name != started.plan.name or run.simulated != simulated:
            continue
        if not run.cases_ok or run.status != "done" or run.hostname != host:
            continue
        looked_at.add(run.series_id)
        if same_work(reader.plan_of(run.run_id)) == wanted:
            return reader.series(run.series_id)
    return None


def remark_on(base: Series, new: MeasuredRun) -> str | None:
    """Return the `differences` in short, `torch differs`; empty without any, None if the machine is another one."""
    found = differences(base.runs, (new,))
    if any(each.is_hardware for each in found):
        return None
    names = [each.what for each in found if each.what not in TRIVIAL]
    shown = [*names[:2], "more"] if len(names) > 2 else names
    return f"{' and '.join(shown)} {'differ' if len(shown) > 1 else 'differs'}" if names else ""
