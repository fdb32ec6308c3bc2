"""The app's options, its state as one immutable value, and its result. Panes are pure functions of the state."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.model.names import RESIDENT
from cpugpu_tui.session.request import PlanRequest
from cpugpu_tui.state.state import RunState, TelemetryState
from cpugpu_tui.state.value import Value
from cpugpu_tui.ui.keys import DEFAULT_KEYMAP, Keymap, Situation

if TYPE_CHECKING:
    from cpugpu_tui.compare.changes import Changes
    from cpugpu_tui.demo.recording import Recording
    from cpugpu_tui.model import Ceilings, Device, Plan
    from cpugpu_tui.session.estimate import Earlier
    from cpugpu_tui.store import RunSummary
    from cpugpu_tui.store.outbox import Outbox, Unsaved
    from cpugpu_tui.telemetry.recording import Trace
    from cpugpu_tui.thresholds import Thresholds
    from cpugpu_tui.transport.interpreter_search import Interpreter


class Order(Value):
    """How the rows are sorted."""

    by: str = ""
    """Key of `timing_columns.MEASURES`; empty for run order."""
    is_reversed: bool = False

    def reverse(self) -> Order:
        """Return the opposite order."""
        return self._replace(is_reversed=not self.is_reversed)


AS_RAN = Order()
"""Run order."""


DEFAULT_REQUEST = PlanRequest()
"""What a person asks for who says nothing."""


class FleetOptions(Value):
    """Theme, keys and mouse of a fleet's app."""

    theme: str | None = None
    """Name of a theme; None for the default."""
    config_dir: Path | None = None
    """Folder with the user's `themes`."""
    keymap: Keymap = DEFAULT_KEYMAP
    """Keys by command."""
    mouse: bool = True
    """Whether the app takes clicks and the wheel; otherwise the terminal keeps them."""


class AppOptions(Value):
    """Options from the app's command line: those of a fleet's app, and more."""

    theme: str | None = None
    config_dir: Path | None = None
    keymap: Keymap = DEFAULT_KEYMAP
    mouse: bool = True
    request: PlanRequest = DEFAULT_REQUEST
    """The request that is highlighted at the start."""
    python: str | None = None
    """Interpreter of the agent; None for the current one."""
    worker: str = "process"
    """`process` or `thread`."""
    database: Path | None = None
    """Database file; None for the default."""
    save: bool = True
    log_path: Path | None = None
    """File for output of libraries while the app is open; None for the default."""
    replay: Trace | None = None
    """Recorded telemetry to show in place of this machine's; then nothing can be run."""
    ceilings: bool = True
    """Whether a run may measure the peak rates for `limited by` if the history lacks them."""
    demo: Recording | None = None
    """Recorded runs to play in place of new ones."""
    demo_pace: float | None = None
    """Speed of the playback relative to the recording; None for the demo's default."""


class AppResult(Value):
    """What the app returns when it ends."""

    run: RunState
    """The last run; without rows if none was started."""
    number: int | None
    """Its number in the database; None if it is not saved."""
    notice: str | None = None
    """Why it is not saved, or another notice."""
    exit_code: int = 0
    """129 or 143 after a signal, 1 after a crash of the app."""
    outbox: Outbox | None = None
    """Saves runs to the history, still open for unsaved ones; None if nothing is saved."""


class Own(Value):
    """This terminal's own run, telemetry and peak rates, also while a saved run is shown."""

    run: RunState = RunState()
    telemetry: TelemetryState = TelemetryState()
    ceilings: tuple[Ceilings, ...] = ()


class SavedRunView(Value):
    """A saved run that is shown in the panes of a live one."""

    summary: RunSummary
    """Its current line in the history, which changes while another terminal runs it."""
    age: str
    """Time since its start, `3 h ago`."""
    own: Own
    """What was shown before, restored afterwards."""
    notice: str | None = None
    """The notice when it was opened, such as `not saved`. It is about the own run, so it is hidden meanwhile."""

    @property
    def is_live(self) -> bool:
        """Whether another terminal is running it now."""
        return self.summary.status == "running"

    @property
    def text(self) -> str:
        """Tag of the run on every page: `run 3, 2 h ago`."""
        if self.is_live:
            return f"run {self.summary.number}, live in another terminal"
        return f"run {self.summary.number}, {self.age}"


class ParentRun(Value):
    """A run of which one row is re-run alone, restored afterwards."""

    run: RunState
    changes: Changes | None
    """Comparison of its rows."""


class AppState(Value):
    """The app at one moment."""

    run: RunState = RunState()
    telemetry: TelemetryState = TelemetryState()
    situation: Situation = Situation()
    request: PlanRequest = DEFAULT_REQUEST
    """The request that `r` would run now."""
    environment: Mapping[str, Any] = MappingProxyType({})
    """The standby agent's facts; empty until it is ready."""
    agent_ready: bool = False
    agent_wait: str = ""
    """Which interpreter is waited for, once that takes long."""
    better_python: Interpreter | None = None
    """An interpreter whose torch can do more than the current one; None if none is known."""
    problem: CpuGpuError | None = None
    """Why nothing can be run, or why the last request was refused."""
    notice: str | None = None
    """A standing notice such as `not saved`."""
    unsaved: Unsaved | None = None
    """The parts of this terminal's runs that are not in the history; None until saving fails for the first time."""
    key_result: str = ""
    """Result of the last key press, for some seconds: what was copied, or why nothing was done."""
    keymap: Keymap = DEFAULT_KEYMAP
    """Keys by command. Every sentence that names a key takes it from here."""
    theme_notice: str = ""
    """Which theme is ignored or replaced, and why; empty if all is well."""
    worker: str = "process"
    """`process` or `thread`."""
    repeat_number: int = 1
    """Number of the run in its series, from 1."""
    repeats: int = 1
    """Runs of the series."""
    step_s: float = 0.0
    """Elapsed time of the current operation, as far as the app knows."""
    ceilings: tuple[Ceilings, ...] = ()
    """Peak rates of this machine's devices from their last calibration."""
    devices: tuple[Device, ...] = ()
    """All devices of this machine that an agent reported; empty before that."""
    devices_remark: str = ""
    """Why there is no GPU, or why no agent could report; cause and remedy."""
    surveying: bool = False
    """Whether an agent is looking for devices now."""
    earlier: Earlier | None = None
    """Durations of earlier runs of this machine; None before the history is read."""
    calibrating: str = ""
    """The step of the calibration in progress; empty without one."""
    calibration_remark: str = ""
    """Why the last calibration did not measure a device, cause and remedy; empty if it did."""
    cursor: str | None = None
    """Key of the highlighted row."""
    order: Order = AS_RAN
    """Sort order of the rows."""
    what_if: str = RESIDENT
    """What-if that chart and answer show beside the measured one (`WhatIf.key`)."""
    linear_sizes: bool = False
    """Whether the chart's axis of sizes is linear instead of logarithmic."""
    linear_times: bool = False
    quitting: bool = False
    replay_tag: str = ""
    """`REPLAY` with the kind of recording; empty if the readings are this machine's."""
    replay: str = ""
    """Name of the recording that is replayed; empty without one."""
    replay_of: str = ""
    """Summary of that recording: GPU, driver, date."""
    baseline: tuple[str, str] = ("", "")
    """Id of a series, and the status line's text about the baseline beside it."""
    changes: Changes | None = None
    """Comparison of this terminal's own run with others; None before any run."""
    parent: ParentRun | None = None
    """The run that `run` is a re-run row of; None for any other run."""
    asked_runs: int = 0
    """Number of runs that the next key starts, as typed; 0 if none was typed."""
    past: SavedRunView | None = None
    """The saved run that `run`, `telemetry` and `ceilings` belong to; None if they are this terminal's own."""
    thresholds: Thresholds | None = None
    """The file of thresholds in the current folder; None without one."""
    again: Plan | None = None
    """The plan that `r` runs in place of the request: that of the saved run that was run again last."""

    @property
    def simulated(self) -> bool:
        """Whether the numbers are, or would be, simulated."""
        return self.run.simulated or (self.past is None and self.request.simulation is not None)

    @property
    def is_other(self) -> bool:
        """Whether the highlighted workload is not that of this terminal's run on the screen."""
        run = self.parent.run if self.parent is not None else self.run
        if run.run is None or self.past is not None or self.again is not None:
            return False
        return run.run.plan.name != "+".join(self.request.names)

    @property
    def own(self) -> Own:
        """This terminal's own run, telemetry and peak rates."""
        return Own(self.run, self.telemetry, self.ceilings) if self.past is None else self.past.own

    def as_saved(self, run: RunState) -> RunState:
        """Return a run with a mark on each row that is not in the history."""
        if self.unsaved is None or run.run is None:
            return run
        run_id = run.run.run_id
        number = self.unsaved.numbers.get(run_id, run.run.number)
        return run.with_saving(number, self.unsaved.cases.get(run_id, ()))

    def with_own(self, **changes: Any) -> AppState:
        """Return the state with changes of this terminal's own run, also while a saved run is shown."""
        if self.past is None:
            return self._replace(**changes)
        return self._replace(past=self.past._replace(own=self.past.own._replace(**changes)))
