"""The state of a run: an immutable value folded from events, which panes and tables show."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from sys import intern
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from cpugpu_tui import model
from cpugpu_tui.decide.interval import NONE, Correlation
from cpugpu_tui.state.packed import Comparisons, Made, prime, slot_cached_property

if TYPE_CHECKING:  # functions import what the app's first frame, which has no rows, can do without
    from cpugpu_tui.decide.comparison import Comparison
    from cpugpu_tui.state.device_times import DeviceTimes

UNSAVED = "not saved"
"""Mark of a settled case that is not in the history."""
HISTORY = 240
"""Telemetry points kept per value: four minutes at 1 Hz."""
HELD_S = 12.5
"""Age up to which an old reading is repeated: 2.5 times the longest interval between readings, which is 5 s."""
SAME_NS = 2e6
"""Readings closer than this count as simultaneous, because traces store ages in milliseconds."""


@dataclass(frozen=True, repr=False)
class Row:
    """One case with its times and outcome."""

    case: model.Case
    status: str = "pending"
    """`pending`, `active`, `ok`, or the kind of failure."""
    times: Mapping[str, DeviceTimes] = field(default_factory=dict)
    """Device name → times."""
    check: model.Check | None = None
    failure: model.CaseFailed | None = None
    started: model.CaseStarted | None = None
    """Start event, with FLOPs and bytes per call."""
    saved: bool = True
    """False for a settled case that should be in the history but is not."""
    correlation: Correlation = NONE
    """Correlation of its rounds, once it has finished."""
    others: Correlation = NONE
    """That of the cases that finished before it, and of all others once the run has ended."""

    @property
    def cpu(self) -> DeviceTimes | None:
        """Times on the CPU."""
        return self.times.get("cpu")

    @property
    def gpu(self) -> DeviceTimes | None:
        """Times on the GPU with the lowest number, because GPUs of a parallel run report in any order."""
        return self.times[min(self.gpus, key=model.place)] if self.gpus else None

    @property
    def gpus(self) -> tuple[str, ...]:
        """Names of the GPUs with times."""
        return tuple(name for name in self.times if name != "cpu")

    def on(self, gpu: str) -> Row:
        """Return the row as if this were the only GPU of the run."""
        return replace(self, times={name: times for name, times in self.times.items() if name in ("cpu", gpu)})

    @property
    def is_starved(self) -> bool:
        """Whether threads lacked a core on any device. The row has no winner then."""
        return any(times.is_starved for times in self.times.values())

    @slot_cached_property
    def own_comparison(self) -> Comparison | None:
        """Comparison of CPU and first GPU, round by round; None without common rounds, or if threads lacked a core.

        Faces take that of `report.judged`, because the whole sweep may take its winner.
        """
        if self.cpu is None or self.gpu is None or self.status == "mismatch":
            return None
        if self.cpu.is_starved or self.gpu.is_starved:
            return None
        from cpugpu_tui.state.device_times import compared

        found = compared(self.cpu, self.gpu, self.others, lambda metrics: metrics.get(model.LATENCY, {}))
        is_command = self.cpu.traced is not None and self.cpu.traced.used is not None
        return found._replace(starts=found.rounds) if found is not None and is_command else found

    @property
    def starts(self) -> int:
        """Number of starts of the process in which the case was timed."""
        return max((times.starts for name, times in self.times.items() if name != model.RECORDED), default=1)

    @slot_cached_property
    def in_worlds(self) -> Mapping[str, Comparison]:
        """`WhatIf.key` → comparison of CPU and first GPU under its assumption, if it has times."""
        if self.cpu is None or self.gpu is None or self.own_comparison is None:
            return {}
        from cpugpu_tui.analysis.costs import ONE_THREAD, RESIDENT, WHAT_IFS
        from cpugpu_tui.state.device_times import compared

        found: dict[str, Comparison | None] = {RESIDENT: self.own_comparison, ONE_THREAD: self.own_comparison}
        for each in WHAT_IFS:
            if each.key not in found:
                found[each.key] = compared(self.cpu, self.gpu, self.others, partial(self.gpu.rounds_under, each))
        return Comparisons({key: comparison for key, comparison in found.items() if comparison is not None})

    @property
    def marks(self) -> tuple[str, ...]:
        """Marks of all devices without duplicates, in order of appearance."""
        marks = dict.fromkeys(mark for times in self.times.values() for mark in times.marks)
        return tuple(marks) if self.saved else (*marks, UNSAVED)


@cache
def _prime_rows() -> None:
    prime(Row(model.Case("", 1)))


class OwnRows(dict[str, Row]):
    """Rows of a state that nobody keeps: `apply` changes them in place."""


@dataclass(frozen=True, repr=False)
class RunState:
    """A live or saved run, as far as its events are known."""

    run: model.RunStarted | None = None
    devices: tuple[model.Device, ...] = ()
    no_gpu: str | None = None
    rows: Mapping[str, Row] = field(default_factory=dict)
    """Case key → row, in the plan's order."""
    current: model.Progressed | None = None
    """Latest progress of the agent; None once the run has ended."""
    finished: model.RunFinished | None = None
    settled: int = 0
    """Number of cases that are ok, failed or skipped."""
    failed: int = 0
    """Number of failed cases, without skipped ones."""
    idle: Mapping[str, model.EnergyMeasured] = field(default_factory=dict)
    """Device → its energy while idle."""
    peers: Mapping[tuple[str, str], model.PeerMeasured] = field(default_factory=dict)
    """(source, target) → copies between two GPUs, including GPUs that run no case."""
    clocks: Mapping[str, model.EventClock] = field(default_factory=dict)
    """GPU → check of its event clock; empty for runs of older versions."""
    correlation: Correlation = NONE
    """Correlation of the rounds of all finished cases."""

    @property
    def status(self) -> str:
        """`idle`, `running`, `done`, `stopped` or `failed`."""
        if self.finished is not None:
            return self.finished.status
        return "running" if self.run is not None else "idle"

    @property
    def skipped(self) -> int:
        """Number of cases that were not reached or not completed."""
        return sum(row.status == "skipped" for row in self.rows.values())

    @property
    def done(self) -> int:
        """Number of cases that are ok."""
        return self.settled - self.failed - self.skipped

    @property
    def simulated(self) -> bool:
        """Whether a simulated machine made the numbers."""
        return self.run is not None and self.run.plan.simulation is not None

    @property
    def plan(self) -> model.Plan:
        """Its plan; an empty one without a run."""
        return self.run.plan if self.run is not None else model.Plan("", ())

    @property
    def facts(self) -> Mapping[str, Any]:
        """Environment of agent and controller; empty without a run."""
        return self.run.environment if self.run is not None else {}

    @property
    def gpu(self) -> model.Device | None:
        """The first GPU of the run."""
        return next((d for d in self.devices if not d.is_cpu), None)

    @cached_property
    def gpus(self) -> tuple[model.Device, ...]:
        """The GPUs of the run, in torch's order."""
        return tuple(d for d in self.devices if not d.is_cpu)

    def on(self, gpu: str) -> RunState:
        """Return the run as if this had been its only GPU."""
        devices = tuple(d for d in self.devices if d.is_cpu or d.name == gpu)
        return replace(self, devices=devices, rows={key: row.on(gpu) for key, row in self.rows.items()})

    @cached_property
    def threads(self) -> int:
        """Largest number of CPU threads in force; 0 if not known yet."""
        return max(map(threads_of, self.sweeps.values()), default=0)

    @cached_property
    def starts(self) -> int:
        """Largest number of starts of the process in which a case was timed."""
        return max((row.starts for row in self.rows.values()), default=1)

    @cached_property
    def sweeps(self) -> Mapping[model.SweepKey, tuple[Row, ...]]:
        """Rows grouped by everything except size, in plan order."""
        found: dict[model.SweepKey, list[Row]] = {}
        for row in self.rows.values():
            found.setdefault(row.case.sweep, []).append(row)
        return {sweep: tuple(rows) for sweep, rows in found.items()}

    @cached_property
    def derived(self) -> dict[str, Any]:
        """Cache for values that other modules compute from this state, which never changes; see `folding.once`."""
        return {}

    def with_saving(self, number: int | None, unsaved: Collection[str]) -> RunState:
        """Set the run's number, and mark rows whose keys are in `unsaved`."""
        rows = {key: row if row.saved == (key not in unsaved) else replace(row, saved=key not in unsaved)
                for key, row in self.rows.items()}  # fmt: skip
        if self.run is None or (number == self.run.number and all(rows[key] is row for key, row in self.rows.items())):
            return self
        return replace(self, run=replace(self.run, number=number), rows=rows)

    def apply(self, event: model.Event) -> RunState:
        """Return the state after `event`; other events leave it unchanged."""
        match event:
            case model.RunStarted():
                _prime_rows()
                return RunState(run=event, rows={c.key: Row(c) for c in event.plan.cases})
            case model.DevicesFound():
                return replace(self, devices=event.devices, no_gpu=event.no_gpu)
            case model.Progressed():
                return replace(self, current=event)
            case model.RunFinished():
                return replace(self, finished=event, current=None).with_shared_correlation()
            case model.CasesChosen():
                return replace(self, rows=_with_cases(self.rows, event.cases))
            case model.EnergyMeasured(case=""):
                return replace(self, idle={**self.idle, event.device: event})
            case model.CeilingsMeasured():
                return self._with_ceilings(event.ceilings)
            case model.ClockChecked():
                return replace(self, clocks={**self.clocks, event.device: event.clock})
            case model.PeerMeasured():
                return replace(self, peers={**self.peers, (event.source.name, event.target.name): event})
            case _:  # about a case, or without an effect
                row = self.rows.get(getattr(event, "case", ""))
                if row is None:
                    return self
                if isinstance(event, model.CaseFinished):
                    return self._with_finished(row, event)
                return self._with_row(row, _apply_to_row(row, event))

    def _with_ceilings(self, found: model.Ceilings) -> RunState:
        """Add peak rates that were measured after the cases; `limited by` needs them."""
        if self.run is None:
            return self
        plan = replace(self.run.plan, ceilings=(*self.run.plan.ceilings, found))
        return replace(self, run=replace(self.run, plan=plan))

    def _with_finished(self, row: Row, event: model.CaseFinished) -> RunState:
        """Finish a row, whose correlation joins that of the cases before it."""
        from cpugpu_tui.decide.verdict import case_correlation

        others = self.correlation.minus(row.correlation)
        devices = sorted(row.times.values(), key=lambda each: model.place(each.device))
        is_compared = row.cpu is not None and row.gpu is not None
        own = case_correlation([each.round_ns for each in devices], is_compared=is_compared)
        done = replace(_apply_to_row(row, event), correlation=own, others=others)
        return replace(self._with_row(row, done), correlation=others.plus(own))

    def with_shared_correlation(self) -> RunState:
        """Base the intervals of all rows on all finished cases."""
        whole = self.correlation
        return replace(self, rows=Made(self.rows, lambda row: replace(row, others=whole.minus(row.correlation))))

    def _with_row(self, before: Row, after: Row) -> RunState:
        settled = self.settled + _is_settled(after) - _is_settled(before)
        failed = self.failed + _is_failed(after) - _is_failed(before)
        rows = self.rows if isinstance(self.rows, OwnRows) else dict(self.rows)
        rows[after.case.key] = after
        return replace(self, rows=rows, settled=settled, failed=failed)


def threads_of(rows: Iterable[Row]) -> int:
    """Return the CPU threads in force, 0 if not known."""
    return next((row.cpu.calibrated.threads for row in rows if row.cpu and row.cpu.calibrated), 0)


def _with_cases(rows: Mapping[str, Row], cases: tuple[model.Case, ...]) -> Mapping[str, Row]:
    """Insert further cases, each by size within its sweep."""
    ordered = list(rows.values())
    for case in cases:
        new = Row(case)
        if case.key in rows:
            continue
        same = [index for index, row in enumerate(ordered) if row.case.sweep == case.sweep]
        larger = (index for index in same if ordered[index].case.size > case.size)
        ordered.insert(next(larger, same[-1] + 1 if same else len(ordered)), new)
    return {row.case.key: row for row in ordered}


def _is_settled(row: Row) -> bool:
    return row.status not in ("pending", "active")


def _is_failed(row: Row) -> bool:
    return row.failure is not None and row.failure.kind != "skipped"


@cache
def _kept_as() -> Mapping[type, str]:
    """Return event about a case on a device → the field of its times that holds the newest one."""
    kinds = model.Calibrated, model.CodeCompiled, model.CodeTraced, model.EnergyMeasured, model.KernelsProfiled
    names = "calibrated", "compiled", "traced", "energy", "kernels", "lines", "placed"
    return dict(zip((*kinds, model.LinesProfiled, model.TensorsPlaced), names, strict=True))


def _apply_to_row(row: Row, event: model.Event) -> Row:
    match event:
        case model.CaseStarted():
            return Row(row.case, status="active", started=event)
        case model.CaseFinished():
            return _packed(replace(row, status="ok", check=event.check))
        case model.CaseFailed():
            return _packed(replace(row, status=event.kind, failure=event))
        case model.EpochFinished():
            times = _times(row, event.device)
            return _with_times(row, replace(times, epochs=(*times.epochs, event)))
        case model.EarlierTimed():
            return _with_times(row, replace(_times(row, event.device), earlier=event.starts))
        case model.MachineRead():
            return _with_times(row, _times(row, event.device).with_edge(event))
        case model.DeviceSampled():
            return _with_times(row, _times(row, event.device).with_half_round(event))
        case _ if (field := _kept_as().get(type(event))) is not None:
            newest: dict[str, Any] = {field: event}
            return _with_times(row, replace(_times(row, getattr(event, "device", "")), **newest))
        case _:
            return row


def _packed(row: Row) -> Row:
    """Return a settled row in little memory, because there may be thousands."""
    started = replace(row.started, case=intern(row.started.case)) if row.started is not None else None
    return replace(row, started=started, times={intern(name): times.packed() for name, times in row.times.items()})


def _times(row: Row, device: str) -> DeviceTimes:
    from cpugpu_tui.state.device_times import DeviceTimes

    return row.times.get(device) or DeviceTimes(device)


def _with_times(row: Row, times: DeviceTimes) -> Row:
    return replace(row, times={**row.times, times.device: times})


class TelemetryState(NamedTuple):
    """The latest telemetry and a bounded history of each value."""

    latest: model.TelemetryRead | None = None
    history: Mapping[str, tuple[float | None, ...]] = MappingProxyType({})
    """`gpu0/power_mw` or `host/cpu_pct` → values, oldest first; None where a value is missing."""
    times_ns: tuple[int, ...] = ()
    """Times of the points, by the events' monotonic clock. A value that came later has fewer points, the newest."""

    def apply(self, event: model.TelemetryRead) -> TelemetryState:
        """Add one point to each history.

        If no reading of a GPU is newer than before, the GPU did not answer: the event repeats old numbers, and its
        point is None. Otherwise values that are read every 5 s are repeated until they are `HELD_S` old.
        """
        now = TelemetryState(event)
        values: dict[str, float | None] = {f"host/{key}": r.value for key, r in event.host.items()}
        for gpu in event.gpus:
            has_answered = now._newest_ns(gpu.index) - self._newest_ns(gpu.index) > SAME_NS
            points = {key: r.value if has_answered and r.age_s <= HELD_S else None for key, r in gpu.readings.items()}
            values |= {f"gpu{gpu.index}/{key}": value for key, value in points.items()}
        keys = dict.fromkeys([*self.history, *values])
        history = {key: (*self.history.get(key, ()), values.get(key))[-HISTORY:] for key in keys}
        return TelemetryState(event, history, (*self.times_ns, event.mono_ns)[-HISTORY:])

    def _newest_ns(self, index: int) -> float:
        """Return the time of a GPU's newest reading, in ns of the events' monotonic clock."""
        gpus = (gpu for gpu in (self.latest.gpus if self.latest is not None else ()) if gpu.index == index)
        ages_s = [reading.age_s for gpu in gpus for reading in gpu.readings.values() if reading.value is not None]
        return self.latest.mono_ns - min(ages_s) * 1e9 if self.latest is not None and ages_s else float("-inf")
