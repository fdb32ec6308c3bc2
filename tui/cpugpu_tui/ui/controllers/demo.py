"""The demo: the app that plays recorded runs in place of any of this machine. It starts nothing and saves nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from textual import on
from textual.driver import Driver

from cpugpu_tui.demo.playing import Playing
from cpugpu_tui.demo.recording import Recording
from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.model import PROTOCOL, Ceilings, Hello, Plan, RunStarted, TelemetryRead
from cpugpu_tui.session.planning import PlanRequest
from cpugpu_tui.state.state import RunState, TelemetryState
from cpugpu_tui.ui import themes
from cpugpu_tui.ui.app import CpuGpuApp
from cpugpu_tui.ui.glyphs import UNICODE, Glyphs
from cpugpu_tui.ui.keys import DEMO, Situation
from cpugpu_tui.ui.live.backend import Backend, RunningSession
from cpugpu_tui.ui.live.messages import RunAdvanced, SeriesEnded
from cpugpu_tui.ui.options import AppOptions
from cpugpu_tui.ui.panes.timing_table import TimingTable
from cpugpu_tui.ui.panes.workload import WorkloadPane
from cpugpu_tui.ui.screens.main import MainScreen
from cpugpu_tui.ui.screens.run_list import RunList

ENDED = "the demo has ended: {run} plays it again, {history} lists its runs"


class DemoBackend(Backend):
    """Has a history of the recorded runs, in memory, in place of agents, store and telemetry."""

    def __init__(self, options: AppOptions) -> None:
        """Take note of the recording."""
        super().__init__(options)
        assert options.demo is not None
        self._recording: Recording = options.demo
        self._pace = options.demo_pace

    def open(
        self,
        on_agent: Callable[[Hello | CpuGpuError], None],
        on_telemetry: Callable[[TelemetryRead], None],
        on_notice: Callable[[str], None],
    ) -> None:
        """Put all runs into the history, so that they can be looked at, and say what the recorded agent said."""
        del on_telemetry, on_notice
        from cpugpu_tui.store import Store
        from cpugpu_tui.store.outbox import Outbox

        store = Store.in_memory()
        for run in self._recording.runs:
            store.import_run(run.events)
        self.outbox = Outbox(lambda _wait_s: store, store)
        on_agent(Hello(protocol=PROTOCOL, environment=self._recording.environment))

    def session(self, plan: Plan, series_id: str | None, case_timeout_s: float | None) -> RunningSession:
        """Return what plays all runs."""
        del plan, series_id, case_timeout_s
        return Playing(self._recording, self._pace)

    def ceilings(self) -> tuple[Ceilings, ...]:
        """Return what the recorded machine reached."""
        return self._recording.ceilings


class DemoApp(CpuGpuApp):
    """Begins by itself; keys that look around work as ever, keys that would measure are refused."""

    CSS_PATH = "../app.tcss"

    def __init__(
        self,
        options: AppOptions,
        glyphs: Glyphs = UNICODE,
        backend: Backend | None = None,
        *,
        theme: str = themes.DEFAULT_THEME,
        sixteen_colours: bool = False,
        driver_class: type[Driver] | None = None,
    ) -> None:
        """Play `options.demo`."""
        super().__init__(
            options, glyphs, backend or DemoBackend(options), theme=theme, sixteen_colours=sixteen_colours,
            driver_class=driver_class,
        )  # fmt: skip
        assert options.demo is not None
        self._recording: Recording = options.demo
        self._wanted: RunList.Chosen | None = None
        """The saved run that is to be shown once the demo has ended."""
        self.state = replace(
            self.state, situation=Situation(replay=True, demo=True), replay_tag=self._recording.tag,
            replay_of=self._recording.summary, ceilings=self._recording.ceilings,
        )  # fmt: skip

    def _open_backend(self) -> None:
        """Begin by itself, now that there is something to look at."""
        super()._open_backend()
        self.call_later(self.play)

    def play(self) -> None:
        """Play all runs from the first one on, as if none had been seen."""
        self.leave_history()
        self.bridge.expect_series()
        plan = self._recording.runs[0].started.plan
        self.run_worker(
            lambda: self.bridge.run_series(plan, 1, None),
            thread=True, exclusive=True, exit_on_error=False, group="run",
        )  # fmt: skip
        self.begin_series(
            problem=None, notice=None, run=RunState(), telemetry=TelemetryState(), baseline=("", ""),
            repeats=len(self._recording.runs), situation=Situation(live=True, replay=True, demo=True),
        )  # fmt: skip
        self.set_terminal_title("cpugpu-tui: demo")
        if isinstance(self.screen, MainScreen):
            self.screen.query_one(TimingTable).focus()

    @on(RunAdvanced)
    def _name_run(self, message: RunAdvanced) -> None:
        """Count the runs, and highlight the one that begins as if it had been chosen."""
        started = next((event for event in message.events if isinstance(event, RunStarted)), None)
        if started is None:
            return
        ids = [run.started.run_id for run in self._recording.runs]
        self.bridge.repeat_number = ids.index(started.run_id) + 1
        self._highlight_plan(started)

    def _highlight_plan(self, started: RunStarted) -> None:
        main = next((screen for screen in self.screen_stack if isinstance(screen, MainScreen)), None)
        if main is not None:
            pane = main.query_one(WorkloadPane)
            pane.highlight(PlanRequest((started.plan.name,), scale=started.plan.scale))

    @on(SeriesEnded)
    def _show_end(self) -> None:
        """Open the saved run that ended the demo, or else end on the state of the crossover."""
        wanted, self._wanted = self._wanted, None
        if wanted is not None:
            self._read_past(wanted.run)
            return
        self.change(notice=self.state.keymap.said(ENDED))
        search = next((run for run in self._recording.runs if run.started.plan.search is not None), None)
        if search is None or not self.screen_stack:
            return
        self.bridge.repeat_number = self._recording.runs.index(search) + 1
        self.change(run=search.state, repeat_number=self.bridge.repeat_number, cursor=None)
        self._highlight_plan(search.started)
        if isinstance(self.screen, MainScreen) and not self.screen.query_one("#chart").display:
            self.action_chart()

    def on_run_list_chosen(self, message: RunList.Chosen) -> None:
        """End the demo before a saved run is shown: its events would replace that run."""
        if self.state.situation.live:
            message.prevent_default()
            self._wanted = message
            self.bridge.kill()

    # ---------------------------------------------------------------- what keys do

    def action_run(self) -> None:
        """Play it again."""
        if self.state.situation.may_play:
            self._close_pages()
            self.play()

    def action_stop(self) -> None:
        """Skip to the end of the run, or from between two runs to the next."""
        if self.state.run.run is not None:
            self.bridge.stop()
            self.situate(paused=False)

    def _refused(self) -> bool:
        """Say that nothing is measured here; pages and the palette reach this where no key is refused before."""
        self.say(f"Not run: {DEMO}")
        return True

    def action_leave(self) -> None:
        """Quit; there is nothing to lose."""
        self.leave()

    def bell(self) -> None:
        """Ring no bell at the end: whoever watches a demo is there."""
