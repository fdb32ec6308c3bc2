"""The state of a run: an immutable value folded from events, which panes and tables show."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from cpugpu_tui import model
from cpugpu_tui.decide.correlation import NONE, Correlation
from cpugpu_tui.state.value import Value

if TYPE_CHECKING:  # functions import what the app's first frame, which has no rows, can do without
    from cpugpu_tui.state.row import Row

HISTORY = 240
"""Telemetry points kept per value: four minutes at 1 Hz."""
HELD_S = 12.5
"""Age up to which an old reading is repeated: 2.5 times the longest interval between readings, which is 5 s."""
SAME_NS = 2e6
"""Readings closer than this count as simultaneous, because traces store ages in milliseconds."""


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
        from cpugpu_tui.state.row import threads_of

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
        from cpugpu_tui.state.row import Row, apply_to_row, prime_rows, with_cases

        match event:
            case model.RunStarted():
                prime_rows()
                return RunState(run=event, rows={c.key: Row(c) for c in event.plan.cases})
            case model.DevicesFound():
                return replace(self, devices=event.devices, no_gpu=event.no_gpu)
            case model.Progressed():
                return replace(self, current=event)
            case model.RunFinished():
                return replace(self, finished=event, current=None).with_shared_correlation()
            case model.CasesChosen():
                return replace(self, rows=with_cases(self.rows, event.cases))
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
                return self._with_row(row, apply_to_row(row, event))

    def _with_ceilings(self, found: model.Ceilings) -> RunState:
        """Add peak rates that were measured after the cases; `limited by` needs them."""
        if self.run is None:
            return self
        plan = replace(self.run.plan, ceilings=(*self.run.plan.ceilings, found))
        return replace(self, run=replace(self.run, plan=plan))

    def _with_finished(self, row: Row, event: model.CaseFinished) -> RunState:
        """Finish a row, whose correlation joins that of the cases before it."""
        from cpugpu_tui.decide.verdict import case_correlation
        from cpugpu_tui.state.row import apply_to_row

        others = self.correlation.minus(row.correlation)
        devices = sorted(row.times.values(), key=lambda each: model.place(each.device))
        is_compared = row.cpu is not None and row.gpu is not None
        own = case_correlation([each.round_ns for each in devices], is_compared=is_compared)
        done = replace(apply_to_row(row, event), correlation=own, others=others)
        return replace(self._with_row(row, done), correlation=others.plus(own))

    def with_shared_correlation(self) -> RunState:
        """Base the intervals of all rows on all finished cases."""
        from cpugpu_tui.state.packed import Made

        whole = self.correlation
        return replace(self, rows=Made(self.rows, lambda row: replace(row, others=whole.minus(row.correlation))))

    def _with_row(self, before: Row, after: Row) -> RunState:
        from cpugpu_tui.state.row import OwnRows, is_failed, is_settled

        settled = self.settled + is_settled(after) - is_settled(before)
        failed = self.failed + is_failed(after) - is_failed(before)
        rows = self.rows if isinstance(self.rows, OwnRows) else dict(self.rows)
        rows[after.case.key] = after
        return replace(self, rows=rows, settled=settled, failed=failed)


class TelemetryState(Value):
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
