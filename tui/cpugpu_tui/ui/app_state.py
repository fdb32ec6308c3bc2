"""All that the screen shows, as one immutable value: panes are pure functions of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cpugpu_tui.analysis.costs import RESIDENT
from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.model import Ceilings, Device, Plan
from cpugpu_tui.session.estimate import NOTHING_EARLIER, Earlier
from cpugpu_tui.session.planning import PlanRequest
from cpugpu_tui.state.state import RunState, TelemetryState
from cpugpu_tui.ui.key_overrides import DEFAULT_KEYMAP, Keymap
from cpugpu_tui.ui.keys import Situation
from cpugpu_tui.ui.panes.timing_order import AS_RAN, Order

if TYPE_CHECKING:
    from cpugpu_tui.compare.changes import Changes
    from cpugpu_tui.store import RunSummary
    from cpugpu_tui.store.outbox import Unsaved
    from cpugpu_tui.transport.interpreter_search import Interpreter


@dataclass(frozen=True)
class Own:
    """What is this terminal's own, also while a saved run is shown in its place."""

    run: RunState = field(default_factory=RunState)
    telemetry: TelemetryState = field(default_factory=TelemetryState)
    ceilings: tuple[Ceilings, ...] = ()


@dataclass(frozen=True)
class SavedRunView:
    """A saved run that is shown in the panes of a live one."""

    summary: RunSummary
    """Its line in the history, as it is now: a run that another terminal has live goes on."""
    age: str
    """How long ago it began, `3 h ago`."""
    own: Own
    """What was shown before, and comes back."""
    notice: str | None = None
    """What was said when it was opened, such as `not saved`: it is not said of a saved run."""

    @property
    def is_live(self) -> bool:
        """Whether another terminal is at it now."""
        return self.summary.status == "running"

    @property
    def text(self) -> str:
        """What is said of it on every page."""
        if self.is_live:
            return f"run {self.summary.number}, live in another terminal"
        return f"run {self.summary.number} of {self.age}"


@dataclass(frozen=True)
class ParentRun:
    """The run of which one row is run again alone; it comes back as it was."""

    run: RunState
    changes: Changes | None
    """What its rows were compared with."""


@dataclass(frozen=True)
class AppState:
    """The app at one moment."""

    run: RunState = field(default_factory=RunState)
    telemetry: TelemetryState = field(default_factory=TelemetryState)
    situation: Situation = field(default_factory=Situation)
    request: PlanRequest = field(default_factory=PlanRequest)
    """What `r` would run now."""
    environment: Mapping[str, Any] = field(default_factory=dict)
    """The standby agent's facts; empty until it has said hello."""
    agent_ready: bool = False
    better_python: Interpreter | None = None
    """An interpreter whose torch can do more than that of the one in use; None if none is known."""
    problem: CpuGpuError | None = None
    """Why nothing can be run, or why the last wish was refused."""
    notice: str | None = None
    """What the person should know all the time, such as `not saved`."""
    unsaved: Unsaved | None = None
    """What of the runs of this terminal is not in the history; None before the history had any trouble."""
    said: str = ""
    """What came of the last key, for some seconds: what was copied, or why nothing was done."""
    keymap: Keymap = DEFAULT_KEYMAP
    """Which key does what: every sentence that names a key asks it."""
    theme_notice: str = ""
    """Which theme is left out or stands in for another, and why; empty while all is as it was wished."""
    worker: str = "process"
    """`process` or `thread`."""
    repeat_number: int = 1
    """Which run of its series this is, from 1."""
    repeats: int = 1
    """Runs of the series."""
    step_s: float = 0.0
    """How long the current operation has been going on, as far as the app knows."""
    ceilings: tuple[Ceilings, ...] = ()
    """What the devices of this machine reached when they were last measured."""
    devices: tuple[Device, ...] = ()
    """All devices of this machine that an agent told of; empty until one was asked."""
    devices_remark: str = ""
    """Why there is no GPU among them, or why no agent could be asked; cause and remedy."""
    surveying: bool = False
    """Whether an agent is being asked for them now."""
    earlier: Earlier = NOTHING_EARLIER
    """How long earlier runs of this machine took."""
    calibrating: str = ""
    """What is being measured right now, for the machine card; empty while nothing is."""
    calibration_remark: str = ""
    """Why the last calibration did not measure a device, cause and remedy; empty if it did."""
    cursor: str | None = None
    """Key of the highlighted row."""
    order: Order = AS_RAN
    """In which order the rows stand."""
    what_if: str = RESIDENT
    """World that chart and answer show beside the measured one (`WhatIf.key`)."""
    linear_sizes: bool = False
    """Whether the chart's axis of sizes is even instead of logarithmic."""
    linear_times: bool = False
    quitting: bool = False
    replay_tag: str = ""
    """`REPLAY`, and what more must be said of where the readings come from; empty where they are this machine's."""
    replay: str = ""
    """Name of the trace that is replayed; empty without one."""
    replay_of: str = ""
    """What that trace is one of: GPU, driver, date."""
    baseline: tuple[str, str] = ("", "")
    """Id of a series, and what the status line says of the baseline beside it."""
    changes: Changes | None = None
    """What the rows of this terminal's own run are compared with; None before any run."""
    parent: ParentRun | None = None
    """The run that `run` is one row of, run again alone; None for any other run."""
    count: int = 0
    """How many runs the next key starts, as typed; 0 for one."""
    past: SavedRunView | None = None
    """The saved run that `run`, `telemetry` and `ceilings` are of; None while they are this terminal's own."""
    again: Plan | None = None
    """What `r` runs in place of the request: the plan of the saved run that was run again last."""

    @property
    def simulated(self) -> bool:
        """Whether the numbers are, or would be, made up."""
        return self.run.simulated or (self.past is None and self.request.simulation is not None)

    @property
    def is_other(self) -> bool:
        """Whether another workload is highlighted than that of this terminal's run on the screen."""
        run = self.parent.run if self.parent is not None else self.run
        if run.run is None or self.past is not None or self.again is not None:
            return False
        return run.run.plan.name != "+".join(self.request.names)

    @property
    def own(self) -> Own:
        """This terminal's own run, readings and ceilings."""
        return Own(self.run, self.telemetry, self.ceilings) if self.past is None else self.past.own

    def as_saved(self, run: RunState) -> RunState:
        """Return a run of this terminal with a mark on each row that is not in the history."""
        if self.unsaved is None or run.run is None:
            return run
        run_id = run.run.run_id
        number = self.unsaved.numbers.get(run_id, run.run.number)
        return run.with_saving(number, self.unsaved.cases.get(run_id, ()))

    def with_own(self, **changes: Any) -> AppState:
        """Return the state with changes of what is this terminal's own, which is not shown beside a saved run."""
        if self.past is None:
            return replace(self, **changes)
        return replace(self, past=replace(self.past, own=replace(self.past.own, **changes)))
