"""The part of the app that holds the state: folds events into the state, and paints when that disturbs nobody."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from textual import events, on
from textual.await_complete import AwaitComplete
from textual.driver import Driver
from textual.geometry import Size
from textual.timer import Timer
from textual.worker import Worker, WorkerState

from cpugpu_tui.errors import CpuGpuError, UnfitError
from cpugpu_tui.model import Event, Hello, Progressed, RunFinished, RunStarted, TelemetryRead
from cpugpu_tui.state.folding import folded as run_of
from cpugpu_tui.state.state import RunState, TelemetryState
from cpugpu_tui.ui.app_state import AppState, StateModal
from cpugpu_tui.ui.keys import Situation
from cpugpu_tui.ui.live.backend import Backend
from cpugpu_tui.ui.live.bridge import Bridge
from cpugpu_tui.ui.live.messages import (
    AgentReported,
    CalibrationAdvanced,
    CeilingsKnown,
    InputDropped,
    NoticeGiven,
    RunAdvanced,
    SavingChanged,
    SeriesEnded,
    TelemetryArrived,
)
from cpugpu_tui.ui.options import AppOptions, AppResult
from cpugpu_tui.ui.panes.status import LONG_STEP_S
from cpugpu_tui.ui.screens.main import MainScreen
from cpugpu_tui.ui.screens.page import Page
from cpugpu_tui.ui.terminal.repaint_throttle import PaintGate
from cpugpu_tui.ui.terminal.textual_internals import WatchedApp

SAID_S = 6.0
"""How long it stays said what came of a key."""

if TYPE_CHECKING:
    from cpugpu_tui.compare.changes import Changes

BELL_S = 30.0
"""A run longer than this rings the bell when it ends: the person is looking elsewhere by then."""


def folded(run: RunState, telemetry: TelemetryState, new: Iterable[Event]) -> tuple[RunState, TelemetryState]:
    """Return both states after these events. What comes after a run's end belongs to another run."""
    together: list[Event] = []
    ended = run.finished is not None
    for event in new:
        if isinstance(event, TelemetryRead):
            telemetry = telemetry.apply(event)
            continue
        if ended and not isinstance(event, RunStarted):
            run, together = RunState(), []
        together.append(event)
        ended = isinstance(event, RunFinished)
    return run_of(together, run) if together else run, telemetry


def first_state(options: AppOptions) -> AppState:
    """Return what is shown before anything has been opened."""
    state = AppState(request=options.request, worker=options.worker, keymap=options.keymap)
    if options.replay is None:
        return state
    trace = options.replay
    return replace(
        state,
        situation=Situation(replay=True),
        replay_tag=trace.header.tag,
        replay=trace.name,
        replay_of=trace.header.summary,
    )


class Running(WatchedApp[AppResult]):
    """Owns state, bridge and gate."""

    def __init__(
        self, options: AppOptions, backend: Backend | None = None, driver_class: type[Driver] | None = None
    ) -> None:
        """Take note of the options; everything slow is opened after the first frame."""
        super().__init__(driver_class=driver_class)
        self.gate = PaintGate(self)
        self.bridge = Bridge(backend or Backend(options), self.post_message)
        self.state = first_state(options)
        """All that is shown, and all the state there is."""
        self._silence: Timer | None = None
        self._said_stays = False
        self._opened = False
        self._terminal_size: Size | None = None
        self._current: Progressed | None = None
        self._current_since_s = self._gap_s = self._started_s = time.monotonic()

    def show_first(self) -> None:
        """Show what is known already; the first paint opens the rest."""
        self.set_interval(1.0, self._tick)
        self.change()

    def _open_backend(self) -> None:
        """Start what takes its time, now that there is something to look at."""
        self._opened = True
        # What was made until here stays; without it a full collection is short, and `start` put them all off.
        gc.freeze()
        gc.enable()
        self.run_worker(self.bridge.open, thread=True, group="open", exit_on_error=False)

    # ---------------------------------------------------------------- state

    def change(self, **changes: Any) -> None:
        """Change the state and show it everywhere; while the gate is held nothing is painted by this."""
        self.state = replace(self.state, **changes)
        if self.state.situation.other != self.state.is_other:
            situation = replace(self.state.situation, other=self.state.is_other)
            self.state = replace(self.state, situation=situation)
        if not self.is_running:
            return
        for screen in self.screen_stack:
            # While the app ends its screens lose their widgets, and readings still come.
            if isinstance(screen, MainScreen | Page | StateModal) and screen.is_mounted and screen.is_attached:
                screen.show_state(self.state)

    def situate(self, **changes: Any) -> None:
        """Change what can be done now."""
        self.change(situation=replace(self.state.situation, **changes))

    def say(self, text: str, *, stays: bool = False) -> None:
        """Say for a while what came of a key, in the status line or a page's last line.

        `stays` keeps it when a screen opens or closes.
        """
        self._said_stays = stays
        self.change(said=text)
        if self._silence is not None:
            self._silence.stop()
        self._silence = self.set_timer(SAID_S, lambda: self.change(said=""))

    def push_screen(self, *arguments: Any, **named: Any) -> Any:
        """Open a screen. What was said on the one below does not stand on it."""
        self._hush()
        return super().push_screen(*arguments, **named)

    def pop_screen(self) -> AwaitComplete:
        """Close a screen, and what was said on it."""
        self._hush()
        return super().pop_screen()

    def _hush(self) -> None:
        if self.state.said and not self._said_stays:
            self.change(said="")

    def begin_series(self, **changes: Any) -> None:
        """Note that a run is about to start."""
        self._started_s = time.monotonic()
        self.change(said="", **changes)  # what an earlier key came to would stand where the progress does

    def _fold(self, new: tuple[Event, ...]) -> dict[str, Any]:
        """Return what these events change in the state."""
        run, telemetry = folded(self.state.run, self.state.telemetry, new)
        now_s = time.monotonic()
        if run.current is not self._current:
            self._current, self._current_since_s = run.current, now_s
        return {"run": self.state.as_saved(run), "telemetry": telemetry, "step_s": now_s - self._current_since_s}

    @on(RunAdvanced)
    def _advance(self, message: RunAdvanced) -> None:
        if any(isinstance(event, RunStarted) for event in message.events):
            self.gate.hold()
        changes = self._fold(message.events)
        situation = replace(self.state.situation, ran=changes["run"].run is not None)
        changes["changes"] = self.standing(changes["run"])
        self.change(**changes, situation=situation, repeat_number=self.bridge.repeat_number)
        self._gap_s = time.monotonic()
        self.gate.let_one_through("gap")

    def standing(self, run: RunState) -> Changes | None:
        """Return what the rows of a run are compared with."""
        del run
        return self.state.changes

    @on(SeriesEnded)
    def _end(self) -> None:
        self.gate.release()
        self.situate(live=False, paused=False, stopping=False)
        if self.state.quitting:
            return
        if time.monotonic() - self._started_s > BELL_S:
            self.bell()
        self.set_terminal_title(f"cpugpu-tui: {self.state.run.status}")

    @on(CeilingsKnown)
    def _know(self, message: CeilingsKnown) -> None:
        self.state = self.state.with_own(ceilings=message.ceilings)
        self.change(calibration_remark=message.remark, calibrating="")

    @on(CalibrationAdvanced)
    def _measure_next(self, message: CalibrationAdvanced) -> None:
        self.gate.hold()
        self.change(calibrating=message.note)
        self.gate.let_one_through("gap")

    @on(TelemetryArrived)
    def _read(self, message: TelemetryArrived) -> None:
        self.state = self.state.with_own(telemetry=self.state.own.telemetry.apply(message.read))
        self.change()

    @on(AgentReported)
    def _meet(self, message: AgentReported) -> None:
        outcome = message.outcome
        if isinstance(outcome, Hello):
            self.change(environment=outcome.environment, agent_ready=True, problem=self._without_torch(outcome))
        elif not self.state.situation.live:
            self.change(problem=outcome, agent_ready=False)

    def _without_torch(self, hello: Hello) -> CpuGpuError | None:
        facts = hello.environment
        if self.state.simulated or facts.get("torch") is not None:
            return None
        return UnfitError(
            f"{facts.get('interpreter', 'The interpreter')} cannot import torch: {facts.get('torch_error')}.",
            "Install torch there, or name an interpreter that has it with --python PATH.",
        )

    @on(SavingChanged)
    def _mark_unsaved(self, message: SavingChanged) -> None:
        self.state = replace(self.state, unsaved=message.unsaved)
        self.state = self.state.with_own(run=self.state.as_saved(self.state.own.run))
        self.change()

    @on(InputDropped)
    def _say_dropped(self, message: InputDropped) -> None:
        self.say(str(message), stays=True)

    @on(NoticeGiven)
    def _notice(self, message: NoticeGiven) -> None:
        self.change(notice=message.text)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A fault of ours on a thread is a sentence, not the end of the app."""
        if event.state == WorkerState.ERROR:
            message = f"A fault in this program: {type(event.worker.error).__name__}: {event.worker.error}."
            self.change(problem=CpuGpuError(message, "Finished rows are saved; please report it."))

    def _tick(self) -> None:
        """Move the status line, alone, once a second during a long operation."""
        if not self.gate.held or self.state.situation.paused or time.monotonic() - self._gap_s < LONG_STEP_S:
            return
        self.state = replace(self.state, **self._fold(self.bridge.take()))
        if isinstance(self.screen, MainScreen):
            self.screen.show_status(self.state)
            self.gate.let_one_through("tick")

    # ---------------------------------------------------------------- paints

    async def on_event(self, event: events.Event) -> None:
        """Let what a person does be answered at once."""
        if isinstance(event, events.Key | events.Resize | events.Paste):
            self.gate.open_window()
        if not isinstance(event, events.Resize):
            await super().on_event(event)
            return
        is_old = event.size == self._terminal_size
        self._terminal_size = event.size
        await super().on_event(event)
        if is_old:
            self.lay_out_again()

    def laid_out(self) -> None:
        """Paint anew where the size is the old one: Textual sees no change, the terminal lost all."""
        if self.screen_stack and self.screen.size == self._terminal_size:
            self.screen.refresh()

    def frame_done(self, *, in_vain: bool) -> None:
        """Tell the gate what Textual painted, or composed in vain."""
        if in_vain:
            self.gate.dropped()
            return
        self.gate.painted()
        # `call_after_refresh` comes before the paint: the imports of that thread would delay it.
        if not self._opened:
            self._open_backend()

    def set_terminal_title(self, title: str) -> None:
        """Name the terminal's window, for whoever works in another one meanwhile."""
        if not self.is_headless:
            self.write_to_terminal(f"\x1b]2;{title}\x07")
