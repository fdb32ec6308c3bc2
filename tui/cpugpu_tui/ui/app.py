"""The app: owns the state, folds events into it, and lets the screen paint when that disturbs nobody."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, ClassVar

from rich.console import RenderableType
from textual import events, on
from textual.app import App
from textual.binding import BindingType
from textual.screen import Screen
from textual.worker import Worker, WorkerState

from cpugpu_tui.errors import CpuGpuError, UsageError
from cpugpu_tui.model import Event, Gap, Hello, Progressed, RunStarted, TelemetryRead
from cpugpu_tui.runs.planning import PlanRequest, build_plan
from cpugpu_tui.ui import commands, themes
from cpugpu_tui.ui.backend import Backend
from cpugpu_tui.ui.bridge import Bridge
from cpugpu_tui.ui.commands import Situation
from cpugpu_tui.ui.gate import PaintGate
from cpugpu_tui.ui.glyphs import UNICODE, Glyphs
from cpugpu_tui.ui.leaving import Leaving
from cpugpu_tui.ui.messages import AgentReported, NoticeGiven, RunAdvanced, SeriesEnded, TelemetryArrived
from cpugpu_tui.ui.options import AppOptions, AppResult
from cpugpu_tui.ui.panes.status import LONG_STEP_S
from cpugpu_tui.ui.panes.timing_table import TimingTable
from cpugpu_tui.ui.panes.timings import TimingsPane
from cpugpu_tui.ui.panes.workload import WorkloadPane
from cpugpu_tui.ui.picture import Picture
from cpugpu_tui.ui.screens.detail import DetailScreen
from cpugpu_tui.ui.screens.help import HelpScreen
from cpugpu_tui.ui.screens.main import MainScreen
from cpugpu_tui.ui.screens.page import Page
from cpugpu_tui.ui.screens.themes import ThemesScreen
from cpugpu_tui.ui.screens.workload_form import WorkloadForm

__all__ = ["AppOptions", "AppResult", "CpuGpuApp"]

BELL_S = 30.0
"""A run longer than this rings the bell when it ends: the person is looking elsewhere by then."""

PAINT_S = 0.05
"""How long the gate waits for a paint that is no gap's."""

WIDTHS: list[tuple[int, str]] | None = [(0, "-tiny"), (60, "-narrow"), (100, "-normal"), (160, "-wide")]
HEIGHTS: list[tuple[int, str]] | None = [(0, "-flat"), (16, "-short"), (34, "-tall")]
"""Columns and rows from which on `app.tcss` has another layout."""


class CpuGpuApp(Leaving, App[AppResult]):
    """Times workloads on CPU and GPU and shows it."""

    CSS_PATH = "app.tcss"
    TITLE = "cpugpu-tui"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS
    BINDINGS: ClassVar[list[BindingType]] = [*commands.bindings()]

    def __init__(
        self,
        options: AppOptions,
        glyphs: Glyphs = UNICODE,
        backend: Backend | None = None,
        *,
        theme: str = themes.DEFAULT_THEME,
    ) -> None:
        """Start on `theme` unless the options name one; everything slow is opened after the first frame."""
        super().__init__()
        self.animation_level = "none"
        self.gate = PaintGate(self)
        self.bridge = Bridge(backend or Backend(options), self.post_message)
        self.picture = Picture(request=options.request, worker=options.worker)
        """All that is shown, and all the state there is."""
        self._options, self._glyphs = options, glyphs
        self._current: Progressed | None = None
        self._current_since_s = self._gap_s = self._started_s = time.monotonic()
        self._choose_theme(options.theme or theme)

    # ---------------------------------------------------------------- start

    def get_default_screen(self) -> Screen[None]:
        """Open on the main screen."""
        return MainScreen(self._options, self._glyphs)

    def on_mount(self) -> None:
        """Show what is known already; open the rest when that is on the screen."""
        self.answer_signals()
        self.set_interval(1.0, self._tick)
        self._change()
        self.call_after_refresh(self._open)

    def _open(self) -> None:
        self.run_worker(self.bridge.open, thread=True, group="open", exit_on_error=False)

    def _choose_theme(self, name: str) -> None:
        folder = self._options.config_dir / "themes" if self._options.config_dir is not None else None
        found, errors = themes.available(folder)
        for theme in found:
            self.register_theme(theme)
        if errors:
            self.picture = replace(self.picture, notice=str(errors[0]))
        if name not in self.available_themes:
            known = ", ".join(sorted(self.available_themes))
            raise UsageError(f"There is no theme {name!r}.", f"There are: {known}.")
        self.theme = name

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return our own CSS variables for themes that do not set them."""
        return themes.variable_defaults(self.current_theme)

    # ---------------------------------------------------------------- state

    def _change(self, **changes: Any) -> None:
        """Change the picture and show it everywhere; while the gate is held nothing is painted by this."""
        self.picture = replace(self.picture, **changes)
        for screen in self.screen_stack:
            if isinstance(screen, MainScreen | Page) and screen.is_mounted:
                screen.show_picture(self.picture)

    def _situate(self, **changes: Any) -> None:
        self._change(situation=replace(self.picture.situation, **changes))

    def _fold(self, events: tuple[Event, ...]) -> dict[str, Any]:
        """Return what these events change in the picture."""
        run, telemetry = self.picture.run, self.picture.telemetry
        for event in events:
            if isinstance(event, TelemetryRead):
                telemetry = telemetry.apply(event)
            else:
                run = run.apply(event)
        now_s = time.monotonic()
        if run.current is not self._current:
            self._current, self._current_since_s = run.current, now_s
        return {"run": run, "telemetry": telemetry, "step_s": now_s - self._current_since_s}

    @on(RunAdvanced)
    def _advance(self, message: RunAdvanced) -> None:
        if any(isinstance(event, RunStarted) for event in message.events):
            self.gate.hold()
        situation = replace(self.picture.situation, ran=True)
        self._change(**self._fold(message.events), situation=situation, repeat_number=self.bridge.repeat_number)
        gaps = [event.duration_ms / 1000 for event in message.events if isinstance(event, Gap)]
        self._gap_s = time.monotonic()
        self.gate.let_one_through("gap", gaps[-1] if gaps else PAINT_S)

    @on(SeriesEnded)
    def _end(self) -> None:
        self.gate.release()
        self._situate(live=False, paused=False, stopping=False)
        if time.monotonic() - self._started_s > BELL_S:
            self.bell()
        self.set_terminal_title(f"cpugpu-tui: {self.picture.run.status}")
        self.series_ended()

    @on(TelemetryArrived)
    def _read(self, message: TelemetryArrived) -> None:
        self._change(telemetry=self.picture.telemetry.apply(message.read))

    @on(AgentReported)
    def _meet(self, message: AgentReported) -> None:
        if isinstance(message.outcome, Hello):
            self._change(environment=message.outcome.environment, agent_ready=True, problem=None)
        elif not self.picture.situation.live:
            self._change(problem=message.outcome, agent_ready=False)

    @on(NoticeGiven)
    def _notice(self, message: NoticeGiven) -> None:
        self._change(notice=message.text)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A fault of ours on a thread is a sentence, not the end of the app."""
        if event.state == WorkerState.ERROR:
            message = f"A fault in this program: {type(event.worker.error).__name__}: {event.worker.error}."
            self._change(problem=CpuGpuError(message, "Finished rows are saved; please report it."))

    def _tick(self) -> None:
        """Move the status line, alone, once a second during a long operation."""
        now_s = time.monotonic()
        if not self.gate.held or self.picture.situation.paused or now_s - self._gap_s < LONG_STEP_S:
            return
        self.picture = replace(self.picture, **self._fold(self.bridge.take()))
        if isinstance(self.screen, MainScreen):
            self.screen.show_status(self.picture)
            self.gate.let_one_through("tick", PAINT_S)

    # ---------------------------------------------------------------- paints

    async def on_event(self, event: events.Event) -> None:
        """Let what a person does be answered at once."""
        if isinstance(event, events.Key | events.Resize | events.Paste):
            self.gate.open_window()
        await super().on_event(event)

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        """Tell the gate what Textual painted, or composed in vain while a batch was open."""
        super()._display(screen, renderable)
        if renderable is not None:
            if self._batch_count:
                self.gate.dropped()
            else:
                self.gate.painted()

    # ---------------------------------------------------------------- commands

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Refuse what is impossible now."""
        del parameters
        command = commands.command_of(action)
        return True if command is None or command.possible(self.picture.situation) else None

    def action_run(self) -> None:
        """Run what is highlighted."""
        request = self.picture.request
        try:
            plan = build_plan(replace(request, gaps=True))
        except UsageError as error:
            self._change(problem=error)
            return
        self._started_s = time.monotonic()
        self.run_worker(
            lambda: self.bridge.run_series(plan, request.repeat, request.case_timeout_s),
            thread=True, exclusive=True, exit_on_error=False, group="run",
        )  # fmt: skip
        self._change(
            problem=None, repeats=request.repeat, repeat_number=1,
            situation=Situation(live=True, ran=self.picture.situation.ran),
        )  # fmt: skip
        self.set_terminal_title(f"cpugpu-tui: {plan.name}")
        if isinstance(self.screen, MainScreen):
            self.screen.query_one(TimingTable).focus()

    def action_pause(self) -> None:
        """Pause or resume the run."""
        paused = self.picture.situation.paused
        if paused:
            self.bridge.resume()
        else:
            self.bridge.pause()
        self._situate(paused=not paused)

    def action_stop(self) -> None:
        """Stop after the block; when that was asked for already, at once."""
        if self.picture.situation.stopping:
            self.bridge.kill()
        else:
            self.bridge.stop()
            self._situate(stopping=True, paused=False)

    def action_close(self) -> None:
        """Close the page, or the filter, or the zoom."""
        if isinstance(self.screen, Page):
            self.pop_screen()
        elif isinstance(self.screen, MainScreen):
            self.screen.close_one()

    def action_filter(self) -> None:
        """Let the person type what rows they want."""
        if isinstance(self.screen, MainScreen):
            self.screen.query_one(TimingsPane).open_filter()

    def action_zoom(self) -> None:
        """Zoom the pane with the focus, or back."""
        if isinstance(self.screen, MainScreen):
            self.screen.zoom()

    def action_help(self) -> None:
        """Explain the pane with the focus; pressed again, go back."""
        if isinstance(self.screen, HelpScreen):
            self.pop_screen()
        else:
            pane = self.screen.focused_pane if isinstance(self.screen, MainScreen) else "timings"
            self.push_screen(HelpScreen(self.picture, pane))

    def action_next_theme(self) -> None:
        """Change to the next theme."""
        names = sorted(self.available_themes)
        self.theme = names[(names.index(self.theme) + 1) % len(names)]

    def action_choose_theme(self) -> None:
        """List the themes."""
        self.push_screen(ThemesScreen(sorted(self.available_themes), self.theme))

    @on(TimingTable.RowChosen)
    def _open_row(self, message: TimingTable.RowChosen) -> None:
        self.push_screen(DetailScreen(self.picture, message.row_key, self._glyphs))

    @on(WorkloadPane.Highlighted)
    def _choose(self, message: WorkloadPane.Highlighted) -> None:
        self._change(request=message.request)

    @on(WorkloadPane.Opened)
    def _open_form(self, message: WorkloadPane.Opened) -> None:
        def close(request: PlanRequest | None) -> None:
            if request is not None and isinstance(self.screen, MainScreen):
                self.screen.query_one(WorkloadPane).change(request)

        self.push_screen(WorkloadForm(message.entry), close)

    def watch_theme(self) -> None:
        """Colour the cells of the table, which carry their colours, in the new theme."""
        self.call_after_refresh(self._restyle)

    def _restyle(self) -> None:
        for screen in self.screen_stack:
            if isinstance(screen, MainScreen):
                screen.query_one(TimingsPane).restyle()
