"""The demo: plays recorded runs and refuses keys that would measure."""

from __future__ import annotations

from typing import Any

from cpugpu_tui.demo.recording import Recording
from cpugpu_tui.model import RunStarted
from cpugpu_tui.session.request import PlanRequest
from cpugpu_tui.state.state import RunState, TelemetryState
from cpugpu_tui.ui.controllers.history import History
from cpugpu_tui.ui.controllers.live import Live
from cpugpu_tui.ui.controllers.paging import Timings
from cpugpu_tui.ui.controllers.running import Running
from cpugpu_tui.ui.keys import Situation
from cpugpu_tui.ui.live.bridge import Bridge
from cpugpu_tui.ui.live.messages import RunAdvanced, SavedRunChosen, SeriesEnded
from cpugpu_tui.ui.panes.workload import WorkloadPane
from cpugpu_tui.ui.screens.main import MainScreen
from cpugpu_tui.ui.shell import Shell

ENDED = "the demo has ended; press {run} to play it again, {history} to list its runs"


class DemoRunning:
    """Replaces `Running` in the demo."""

    def __init__(
        self, app: Shell[Any], bridge: Bridge, live: Live, history: History, timings: Timings, running: Running,
        recording: Recording,
    ) -> None:  # fmt: skip
        """Play `recording`; `running` handles pause and refuses to measure."""
        self._app, self._bridge, self._live = app, bridge, live
        self._history, self._timings, self._recording = history, timings, recording
        self._wanted: SavedRunChosen | None = None
        """The saved run to show once the demo has ended."""
        self.pause, self.run_named, self.measure_claim = running.pause, running.run_named, running.measure_claim
        self.run_row, self.find_crossover, self.measure = running.run_row, running.find_crossover, running.measure
        self.run_beside, self._choose_saved = running.run_beside, running.choose_saved

    def run(self) -> None:
        """Play all runs from the beginning."""
        app, bridge = self._app, self._bridge
        if not app.state.situation.may_play:
            return
        app.close_pages()
        self._history.leave()
        bridge.expect_series()
        plan = self._recording.runs[0].started.plan
        app.start_thread(lambda: bridge.run_series(plan, 1, None), "run", exclusive=True)
        self._live.begin(
            problem=None, notice=None, run=RunState(), telemetry=TelemetryState(), baseline=("", ""),
            repeats=len(self._recording.runs), situation=Situation(live=True, replay=True, demo=True),
        )  # fmt: skip
        app.set_terminal_title("cpugpu-tui: demo")
        if isinstance(app.screen, MainScreen):
            app.screen.focus_timings()

    def stop(self) -> None:
        """Skip to the end of the run, or to the next run between two."""
        if self._app.state.run.run is not None:
            self._bridge.stop()
            self._app.situate(paused=False)

    def choose_saved(self, message: SavedRunChosen) -> None:
        """Show a saved run after ending the demo, whose events would replace it."""
        if self._app.state.situation.live:
            self._wanted = message
            self._bridge.kill()
        else:
            self._choose_saved(message)

    def name_run(self, message: RunAdvanced) -> None:
        """Number the run that begins and highlight its workload."""
        started = next((event for event in message.events if isinstance(event, RunStarted)), None)
        if started is not None:
            ids = [run.started.run_id for run in self._recording.runs]
            self._bridge.repeat_number = ids.index(started.run_id) + 1
            self._highlight(started)

    def _highlight(self, started: RunStarted) -> None:
        main = self._app.main_screen
        if main is not None:
            pane = main.query_one(WorkloadPane)
            pane.highlight(PlanRequest((started.plan.name,), scale=started.plan.scale))

    def show_end(self, _: SeriesEnded) -> None:
        """Open the saved run that was chosen, or show the chart of the crossover."""
        app, runs = self._app, self._recording.runs
        wanted, self._wanted = self._wanted, None
        if wanted is not None:
            self._history.show(wanted.run)
            return
        app.change(notice=app.state.keymap.with_keys(ENDED))
        search = next((run for run in runs if run.started.plan.search is not None), None)
        if search is None or not app.screen_stack:
            return
        self._bridge.repeat_number = runs.index(search) + 1
        app.change(run=search.state, repeat_number=self._bridge.repeat_number, cursor=None)
        self._highlight(search.started)
        screen = app.screen
        # Only wide terminals have a large chart beside the table.
        if isinstance(screen, MainScreen) and not (screen.has_class("-wide") and screen.query_one("#chart").display):
            self._timings.toggle_chart()
