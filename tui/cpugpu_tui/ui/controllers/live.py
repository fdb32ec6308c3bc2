"""Folds reports of the run and the machine into the state, and repaints when that disturbs no measurement."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from cpugpu_tui import model
from cpugpu_tui.report.report import carry_over
from cpugpu_tui.state.recorded_gpu import with_recorded
from cpugpu_tui.state.state import RunState, TelemetryState
from cpugpu_tui.ui.live import messages
from cpugpu_tui.ui.live.bridge import Bridge
from cpugpu_tui.ui.panes.status import LONG_STEP_S
from cpugpu_tui.ui.screens.main import MainScreen
from cpugpu_tui.ui.shell import Shell
from cpugpu_tui.ui.terminal.repaint_throttle import PaintGate

if TYPE_CHECKING:
    from cpugpu_tui.compare.changes import Changes

BELL_S = 30.0
"""Runs longer than this ring the bell when they end."""


class Live:
    """Handles the reports that arrive while the app is open."""

    def __init__(
        self, app: Shell[Any], bridge: Bridge, gate: PaintGate, compared: Callable[[RunState], Changes | None]
    ) -> None:
        """Take events from `bridge`; `compared` returns the comparison of a run with earlier ones."""
        self._app, self._bridge, self._gate, self._compared = app, bridge, gate, compared
        self._current: model.Progressed | None = None
        self._current_since_s = self.gap_s = self._started_s = time.monotonic()

    def begin(self, **changes: Any) -> None:
        """Prepare for a run that is about to start."""
        self._started_s = time.monotonic()
        self._app.change(key_result="", **changes)  # an old notice would cover the progress

    def _folded(self, new: tuple[model.Event, ...]) -> dict[str, Any]:
        """Return the changes of the state that these events cause."""
        state = self._app.state
        run, telemetry = folded(state.run, state.telemetry, new)
        run = state.as_saved(run)
        now_s = time.monotonic()
        if run.current is not self._current:
            self._current, self._current_since_s = run.current, now_s
        carry_over(state.run, run)
        return {"run": run, "telemetry": telemetry, "step_s": now_s - self._current_since_s}

    def advance(self, message: messages.RunAdvanced) -> None:
        """Show the run's new events."""
        if any(isinstance(event, model.RunStarted) for event in message.events):
            self._gate.hold()
        changes = self._folded(message.events)
        situation = self._app.state.situation._replace(ran=changes["run"].run is not None)
        changes["changes"] = self._compared(changes["run"])
        current, main = changes["run"].current, self._app.main_screen
        if main is not None and current is not None and current.case:
            # The table tells it by a message, too late for this paint: chart and answer were drawn twice.
            changes["cursor"] = main.cursor_at(current.case) or self._app.state.cursor
        self._app.change(**changes, situation=situation, repeat_number=self._bridge.repeat_number)
        self.gap_s = time.monotonic()
        self._gate.let_one_through("gap")

    def end_series(self, _: messages.SeriesEnded) -> None:
        """Allow repaints again, and ring the bell after a long run unless it is a demo."""
        self._gate.release()
        self._app.situate(live=False, paused=False, stopping=False)
        if self._app.state.quitting:
            return
        if time.monotonic() - self._started_s > BELL_S and not self._app.state.situation.demo:
            self._app.bell()
        self._app.set_terminal_title(f"cpugpu-tui: {self._app.state.run.status}")

    def tick(self) -> None:
        """Update only the status line, once a second, during a long operation."""
        app = self._app
        if not self._gate.held or app.state.situation.paused or time.monotonic() - self.gap_s < LONG_STEP_S:
            return
        app.state = app.state._replace(**self._folded(self._bridge.take()))
        if isinstance(app.screen, MainScreen):
            app.screen.show_status(app.state)
            self._gate.let_one_through("tick")

    # ---------------------------------------------------------------- beside the run

    def show_ceilings(self, message: messages.CeilingsKnown) -> None:
        """Show the last measured peak rates."""
        self._app.state = self._app.state.with_own(ceilings=message.ceilings)
        self._app.change(calibration_remark=message.remark, calibrating="")

    def show_calibration(self, message: messages.CalibrationAdvanced) -> None:
        """Show what is measured next for the machine card."""
        self._gate.hold()
        self._app.change(calibrating=message.note)
        self._gate.let_one_through("gap")

    def show_telemetry(self, message: messages.TelemetryArrived) -> None:
        """Store a reading; it is shown unless a saved run is."""
        state = self._app.state
        self._app.state = state.with_own(telemetry=state.own.telemetry.apply(message.read))
        self._app.change()

    def meet_agent(self, message: messages.AgentReported) -> None:
        """Show whether runs can begin."""
        outcome = message.outcome
        if isinstance(outcome, model.Hello):
            # It needs the transport, which the agent's thread has loaded.
            from cpugpu_tui.session.endings import without_torch

            problem = None if self._app.state.simulated else without_torch(outcome)
            self._app.change(environment=outcome.environment, agent_ready=True, agent_wait="", problem=problem)
        elif not self._app.state.situation.live:
            self._app.change(problem=outcome, agent_ready=False, agent_wait="")

    def await_agent(self, message: messages.AgentAwaited) -> None:
        """Name the interpreter that takes long to start, until it is ready."""
        self._app.change(agent_wait=message.text)

    def mark_unsaved(self, message: messages.SavingChanged) -> None:
        """Mark the rows that are not saved."""
        state = self._app.state._replace(unsaved=message.unsaved)
        self._app.state = state.with_own(run=state.as_saved(state.own.run))
        self._app.change()

    def notice(self, message: messages.NoticeGiven) -> None:
        """Show a lasting notice."""
        self._app.change(notice=message.text)


def folded(run: RunState, telemetry: TelemetryState, new: Iterable[model.Event]) -> tuple[RunState, TelemetryState]:
    """Return both states after these events. Events after a run's end belong to the next run."""
    from cpugpu_tui.state.folding import folded as run_of
    from cpugpu_tui.state.folding import measured_part

    together: list[model.Event] = []
    ended = run.finished is not None
    for event in new:
        if isinstance(event, model.TelemetryRead):
            telemetry = telemetry.apply(event)
            continue
        if ended and not isinstance(event, model.RunStarted):
            run, together = RunState(), []
        together.append(event)
        ended = isinstance(event, model.RunFinished)
    return with_recorded(run_of(together, measured_part(run))) if together else run, telemetry
