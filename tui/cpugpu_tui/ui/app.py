"""The app: the shell with its controllers. Each key names the controller that handles it."""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual.actions import ActionParseResult
from textual.binding import BindingType
from textual.dom import DOMNode
from textual.geometry import Size
from textual.screen import Screen

from cpugpu_tui.ui import keys
from cpugpu_tui.ui.app_state import AppOptions, AppResult, AppState
from cpugpu_tui.ui.glyphs import ASCII, UNICODE, Glyphs
from cpugpu_tui.ui.keys import Situation
from cpugpu_tui.ui.live import messages
from cpugpu_tui.ui.screens.main import MainScreen
from cpugpu_tui.ui.shell import COMMON_LAYOUTS, Shell, layout_classes
from cpugpu_tui.ui.terminal.repaint_throttle import PaintGate

if TYPE_CHECKING:
    from textual.widgets import DataTable

    from cpugpu_tui.demo.recording import Recording
    from cpugpu_tui.ui.controllers.demo import DemoRunning
    from cpugpu_tui.ui.live.backend import Backend

GRACE_S = 1.2
"""How long quitting waits for the run to end. It usually takes 0.3 s, and a signal must be obeyed within 2 s."""


def first_state(options: AppOptions, recording: Recording | None) -> AppState:
    """Return the state of the first frame, before anything is opened."""
    state = AppState(request=options.request, worker=options.worker, keymap=options.keymap)
    if recording is not None:
        return state._replace(
            situation=Situation(replay=True, demo=True), replay_tag=recording.tag,
            replay_of=recording.summary, ceilings=recording.ceilings,
        )  # fmt: skip
    trace = options.replay
    if trace is None:
        return state
    return state._replace(
        situation=Situation(replay=True), replay_tag=trace.header.tag, replay=trace.name,
        replay_of=trace.header.summary,
    )  # fmt: skip


class CpuGpuApp(Shell[AppResult]):
    """The app that times workloads on CPU and GPU; with `options.demo` it plays a recording."""

    TITLE = "cpugpu-tui"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings(), *keys.digits()]

    def __init__(
        self, options: AppOptions, glyphs: Glyphs = UNICODE, backend: Backend | None = None, **looks: Any
    ) -> None:
        """Store the options; `load` and the first frame do the rest. `looks` are those of `Shell`.

        Raises:
            UsageError: the theme is unknown.
        """
        self.gate = PaintGate(self)
        super().__init__(options, glyphs, first_state(options, options.demo), **looks)
        self._options, self._given_backend = options, backend
        self._is_loaded = self._is_opened = False
        self._early: list[events.Event] | None = []
        """Keys, clicks and pastes that came before the lists; None once they are there."""
        self._terminal_size: Size | None = None

    def load(self) -> None:
        """Make the controllers and the routes of messages to them, once; the first frame does not need them."""
        if self._is_loaded:
            return
        self._is_loaded = True
        from cpugpu_tui.ui.controllers.comparing import Comparing, Repeating
        from cpugpu_tui.ui.controllers.history import Exporting, History
        from cpugpu_tui.ui.controllers.live import Live
        from cpugpu_tui.ui.controllers.own_code import Coding, Consent
        from cpugpu_tui.ui.controllers.paging import Leaving, Paging, Palette, Timings
        from cpugpu_tui.ui.controllers.running import Preparing, Running
        from cpugpu_tui.ui.live.backend import Backend, DemoBackend
        from cpugpu_tui.ui.live.bridge import Bridge
        from cpugpu_tui.ui.live.saved_runs import QuietReader
        from cpugpu_tui.ui.panes.workload import WorkloadPane

        options, recording = self._options, self._options.demo
        backend = self._given_backend or (Backend(options) if recording is None else DemoBackend(options))
        bridge = self.bridge = Bridge(backend, self.post_message)
        reader = QuietReader(bridge.between_runs)
        self.timings = Timings(self)
        self.preparing = Preparing(self, bridge, lambda request: running.start(request))
        self.repeating = Repeating(self, reader)
        self.comparing = Comparing(self, bridge, reader)
        self.exporting = Exporting(self, bridge.history, self.copy_to_clipboard)
        self.history = History(self, bridge.history)
        self.live = Live(self, bridge, self.gate, self.repeating.compared)
        consent = Consent(self)
        running = Running(self, bridge, self.live, self.history, self.repeating, consent)
        self.running: Running | DemoRunning = running
        self.coding = Coding(self, bridge.history, consent, running.start)
        self.leaving = Leaving(
            self, is_busy=lambda: self.state.situation.live, stop=self._stop_run, leave=self._leave,
            question=("A run is in progress. Stop it and quit?", "let it run", "The run has ended. Quit?"),
            grace_s=GRACE_S,
        )  # fmt: skip
        self.paging = Paging(
            self, (self.repeating.drop_count, self._close_in_panes, self.history.return_to_present,
                   self.repeating.return_to_parent),
        )  # fmt: skip
        self.routes = {
            messages.RunAdvanced: (self.preparing.meet_run_devices, self.live.advance),
            messages.SeriesEnded: (
                self.repeating.look_before, self.comparing.compare_with_baseline, self.preparing.consider_python,
                self.leaving.exit_if_leaving, self.live.end_series,
            ),
            messages.CeilingsKnown: (self.live.show_ceilings,),
            messages.CalibrationAdvanced: (self.live.show_calibration,),
            messages.TelemetryArrived: (self.preparing.consider_python, self.live.show_telemetry),
            messages.AgentReported: (self.preparing.consider_python, self.live.meet_agent),
            messages.AgentAwaited: (self.live.await_agent,),
            messages.DevicesReported: (self.preparing.consider_python, self.preparing.meet_devices),
            messages.InterpreterFound: (self.preparing.offer_python,),
            messages.EarlierKnown: (self.preparing.learn_earlier, self.exporting.read_thresholds),
            messages.SavingChanged: (self.live.mark_unsaved,),
            messages.NoticeGiven: (self.live.notice,),
            WorkloadPane.Highlighted: (self.preparing.highlight,),
            WorkloadPane.Opened: (self.preparing.open_form,),
            messages.RowChosen: (self.timings.open_row,),
            messages.HeadingClicked: (self.timings.sort_by,),
            messages.ClaimWanted: (running.measure_claim,),
            messages.NoiseWanted: (running.measure_noise,),
            messages.PairChosen: (self.comparing.open_pair,),
        }  # fmt: skip
        if recording is not None:
            from cpugpu_tui.ui.controllers.demo import DemoRunning

            demo = self.running = DemoRunning(self, bridge, self.live, self.history, self.timings, running, recording)
            for message, take in ((messages.RunAdvanced, demo.name_run), (messages.SeriesEnded, demo.show_end)):
                self.routes[message] = (take, *self.routes[message])
        self.routes[messages.SavedRunChosen] = (self.running.choose_saved,)
        self.palette = Palette(self, self.themes, self.running.run_named, self.run_action)

    def get_default_screen(self) -> Screen[None]:
        """Open on the main screen."""
        classes = layout_classes(self.size)
        if self.glyphs is ASCII or not COMMON_LAYOUTS.issuperset(classes.split()):
            self._read_styles("layouts.tcss")
        return MainScreen(self.state, self.glyphs, classes)

    def _read_styles(self, *names: str) -> None:
        for name in names:
            self.stylesheet.read(Path(__file__).with_name(name))

    def _load_the_rest(self) -> None:
        """Load what the first paint did not need: controllers, the style sheet of the pages, the table, the backend."""
        self._is_opened = True
        self.load()
        if self.signals is not None:
            self.signals.answer(self.leaving.leave)
        self.app_suspend_signal.subscribe(self, lambda _: self.bridge.backend.suspend(), immediate=True)
        self.app_resume_signal.subscribe(self, self._come_back, immediate=True)
        self.set_interval(1.0, self.live.tick)
        self.themes.follow_files()
        self._read_styles("layouts.tcss", "pages.tcss")
        self.stylesheet.parse()
        self.call_later(self._open_backend)

    async def _open_backend(self) -> None:
        """Add the lists, then open the backend on a thread, whose imports would delay them; then obey early keys."""
        main = self.main_screen
        if main is not None and not self.ends:
            await main.add_lists()
        # Objects made so far stay: without them a full collection is short. `open_app` disabled collections.
        gc.freeze()
        gc.enable()
        self.start_thread(self.bridge.open, "open")
        if self.state.situation.demo:
            self.call_later(self.running.run)
        early, self._early = self._early or (), None
        for event in early:
            await self.on_event(event)

    # ---------------------------------------------------------------- keys

    async def run_action(
        self, action: str | ActionParseResult, default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:  # fmt: skip
        """Perform an action, or show why it is impossible now, so that no key seems broken."""
        own = default_namespace is None or default_namespace is self
        command = keys.command_of(action) if isinstance(action, str) and own else None
        if command is not None and isinstance(self.screen, MainScreen) and self.screen.workload is not None:
            self.preparing.settle(self.screen.workload)
        why = keys.impossible(command, self.state.situation) if command is not None else ""
        if command is not None and why:
            name = keys.label(command, self.state.situation)
            self.say(self.state.keymap.with_keys(f"{name}: {why}"))
            return True
        return await super().run_action(action, default_namespace, namespaces)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable commands that are impossible now."""
        command = keys.command_of(keys.action_of(*parameters)) if action == "do" and len(parameters) == 1 else None
        return True if command is None or command.possible(self.state.situation) else None

    def _close_in_panes(self) -> bool:
        main = self.main_screen
        return main is not None and main.close_one()

    def on_data_table_row_highlighted(self, message: DataTable.RowHighlighted) -> None:
        """Make the highlighted row the subject of the other panes; an empty table highlights nothing."""
        self.timings.highlight(str(message.row_key.value) if message.row_key is not None else None)

    def copy_to_clipboard(self, text: str) -> None:
        """Send a text to the terminal's clipboard, also through tmux and screen."""
        from cpugpu_tui.ui.controllers.history import envelope

        super().copy_to_clipboard(text)
        self.write_to_terminal(envelope(text, os.environ))

    # ---------------------------------------------------------------- paints

    def is_timing(self) -> bool:
        """Whether a run is live."""
        return self.gate.held

    async def on_event(self, event: events.Event) -> None:
        """Open the paint gate for keys, resizes, pastes and clicks. Keys that come before the lists wait for them."""
        if self._early is not None and isinstance(event, events.Key | events.Paste | events.MouseEvent):
            self._early.append(event)
            return
        answered = events.Key | events.Resize | events.Paste | events.MouseEvent
        if isinstance(event, answered) and self.exit_code is None:
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
        """Repaint if the size is unchanged: Textual sees no change, but the terminal's content is lost."""
        if self.screen_stack and self.screen.size == self._terminal_size:
            self.screen.refresh()

    def frame_done(self, *, in_vain: bool) -> None:
        """Report a written or discarded frame to the gate."""
        if in_vain:
            self.gate.dropped()
            return
        self.gate.painted()
        # Not with `call_after_refresh`, which comes before the paint: the thread's imports would delay it.
        if not self._is_opened:
            self._load_the_rest()

    def watch_theme(self) -> None:
        """Recolour the table, whose cells hold their colours."""
        self.call_after_refresh(self._restyle)

    def _restyle(self) -> None:
        main = self.main_screen
        if main is not None:
            main.restyle()

    def _come_back(self, _: object) -> None:
        """Resume the agents and repaint the whole screen after a suspension."""
        self.bridge.backend.resume()
        # During a run the gate is closed, and Textual would draw only later changes.
        self.gate.open_window()
        self.refresh(layout=True)
        self.screen.refresh()

    # ---------------------------------------------------------------- the end

    def _stop_run(self) -> None:
        self.bridge.kill(leaving=True)
        self.change(quitting=True)

    def _leave(self, code: int) -> None:
        run = self.state.own.run
        self.bridge.backend.leave()
        self.set_terminal_title("")
        number = run.run.number if run.run is not None else None
        self.exit(AppResult(run, number, self.state.notice, code), return_code=code)

    def close(self) -> None:
        """End the run's threads and agents. The history stays open for unsaved runs."""
        self.load()  # it may have failed before its first frame
        self.bridge.backend.close()
