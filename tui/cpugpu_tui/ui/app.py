"""The app: the shell with its controllers. Each key names the controller that handles it."""

from __future__ import annotations

import gc
import os
from collections.abc import AsyncIterator, Mapping
from functools import cached_property
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
from cpugpu_tui.ui.screens.main import MainScreen
from cpugpu_tui.ui.shell import COMMON_LAYOUTS, Routes, Shell, layout_classes
from cpugpu_tui.ui.terminal.repaint_throttle import PaintGate

if TYPE_CHECKING:
    from textual.widgets import DataTable

    from cpugpu_tui.demo.recording import Recording
    from cpugpu_tui.ui.controllers.comparing import Comparing, Repeating
    from cpugpu_tui.ui.controllers.demo import DemoRunning
    from cpugpu_tui.ui.controllers.history import Exporting, History
    from cpugpu_tui.ui.controllers.live import Live
    from cpugpu_tui.ui.controllers.own_code import Coding, Consent
    from cpugpu_tui.ui.controllers.paging import Leaving, Paging, Palette, Timings
    from cpugpu_tui.ui.controllers.preparing import Preparing
    from cpugpu_tui.ui.controllers.running import Running
    from cpugpu_tui.ui.live.backend import Backend
    from cpugpu_tui.ui.live.bridge import Bridge
    from cpugpu_tui.ui.live.saved_runs import QuietReader

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
        self._loading: AsyncIterator[None] | None = None
        """Loads a part of the rest at each step; None before the first frame."""
        self._has_styles = False
        self._early: list[events.Event] | None = []
        """Keys, clicks and pastes that came before the list of workloads; None once it is there."""
        self._terminal_size: Size | None = None

    # ---------------------------------------------------------------- controllers, each made when it is first needed

    @cached_property
    def bridge(self) -> Bridge:
        """Connects the run's threads with the app."""
        from cpugpu_tui.ui.live.backend import Backend, DemoBackend
        from cpugpu_tui.ui.live.bridge import Bridge

        options = self._options
        backend = self._given_backend or (Backend(options) if options.demo is None else DemoBackend(options))
        return Bridge(backend, self.post_message)

    @cached_property
    def reader(self) -> QuietReader:
        """Reads the history between runs."""
        from cpugpu_tui.ui.live.saved_runs import QuietReader

        return QuietReader(self.bridge.between_runs)

    @cached_property
    def preparing(self) -> Preparing:
        """Keeps the request of the run key."""
        from cpugpu_tui.ui.controllers.preparing import Preparing

        return Preparing(self, lambda: self.bridge, lambda request: self.measuring.start(request))

    @cached_property
    def timings(self) -> Timings:
        """Changes how rows are shown."""
        from cpugpu_tui.ui.controllers.paging import Timings

        return Timings(self)

    @cached_property
    def repeating(self) -> Repeating:
        """Repeats series and rows."""
        from cpugpu_tui.ui.controllers.comparing import Repeating

        return Repeating(self, self.reader)

    @cached_property
    def comparing(self) -> Comparing:
        """Compares series."""
        from cpugpu_tui.ui.controllers.comparing import Comparing

        return Comparing(self, self.bridge, self.reader)

    @cached_property
    def history(self) -> History:
        """Shows saved runs."""
        from cpugpu_tui.ui.controllers.history import History

        return History(self, self.bridge.history)

    @cached_property
    def exporting(self) -> Exporting:
        """Exports and copies rows."""
        from cpugpu_tui.ui.controllers.history import Exporting

        return Exporting(self, self.bridge.history, self.copy_to_clipboard)

    @cached_property
    def live(self) -> Live:
        """Shows what a run reports."""
        from cpugpu_tui.ui.controllers.live import Live

        return Live(self, self.bridge, self.gate, self.repeating.compared)

    @cached_property
    def consent(self) -> Consent:
        """Asks before code runs."""
        from cpugpu_tui.ui.controllers.own_code import Consent

        return Consent(self)

    @cached_property
    def coding(self) -> Coding:
        """Takes typed code."""
        from cpugpu_tui.ui.controllers.own_code import Coding

        return Coding(self, self.bridge.history, self.consent, self.measuring.start)

    @cached_property
    def measuring(self) -> Running:
        """Runs plans; a demo only refuses with it."""
        from cpugpu_tui.ui.controllers.running import Running

        return Running(self, self.bridge, self.live, self.history, self.repeating, self.consent)

    @cached_property
    def running(self) -> Running | DemoRunning:
        """Runs plans, or plays a demo."""
        if self._options.demo is None:
            return self.measuring
        from cpugpu_tui.ui.controllers.demo import DemoRunning

        return DemoRunning(
            self, self.bridge, self.live, self.history, self.timings, self.measuring, self._options.demo
        )  # fmt: skip

    @cached_property
    def leaving(self) -> Leaving:
        """Quits."""
        from cpugpu_tui.ui.controllers.paging import Leaving

        return Leaving(
            self, is_busy=lambda: self.state.situation.live, stop=self._stop_run, leave=self._leave,
            question=("A run is in progress. Stop it and quit?", "let it run", "The run has ended. Quit?"),
            grace_s=GRACE_S,
        )  # fmt: skip

    @cached_property
    def paging(self) -> Paging:
        """Opens and closes pages."""
        from cpugpu_tui.ui.controllers.paging import Paging

        return Paging(
            self, (lambda: self.repeating.drop_count(), self._close_in_panes,
                   lambda: self.history.return_to_present(), lambda: self.repeating.return_to_parent()),
        )  # fmt: skip

    @cached_property
    def palette(self) -> Palette:
        """Offers commands by name."""
        from cpugpu_tui.ui.controllers.paging import Palette

        return Palette(self, self.themes, lambda name: self.running.run_named(name), self.run_action)

    @cached_property
    def routes(self) -> Routes:
        """Message type → methods of controllers that handle it, in this order."""
        from cpugpu_tui.ui.controllers.routes import of_demo, of_messages

        return of_messages() if self._options.demo is None else of_demo()

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
        """Load what the first paint did not need."""
        self._loading = self._load()
        self.call_later(self._load_next)

    async def _load_next(self) -> None:
        """Load the next part, after keys that came meanwhile and their paint."""
        assert self._loading is not None
        if not self.ends and await anext(self._loading, "done") is None:
            self.call_after_refresh(self._load_next)

    async def _load(self) -> AsyncIterator[None]:
        """Load the list of workloads, and obey early keys; then, in parts, the controllers, the table and the backend.

        A key that needs a controller before its turn makes it at once. On a thread, modules were found half loaded.
        """
        main = self.main_screen
        assert main is not None
        if self.signals is not None:
            self.signals.answer(lambda code: self.leaving.leave(code))
        self.app_suspend_signal.subscribe(self, lambda _: self.bridge.backend.suspend(), immediate=True)
        self.app_resume_signal.subscribe(self, self._come_back, immediate=True)
        self._read_styles("lists.tcss")
        self.stylesheet.parse()
        await main.add_list()
        early, self._early = self._early or (), None
        for event in early:
            await self.on_event(event)
        yield
        self.style_pages()
        for controller in ("paging", "live", "running", "coding", "palette"):
            yield
            getattr(self, controller)
        yield
        await main.add_table()
        self.set_interval(1.0, self.live.tick)
        self.themes.follow_files()
        # Objects made so far stay: without them a full collection is short. `open_app` disabled collections.
        gc.freeze()
        gc.enable()
        self.start_thread(self.bridge.open, "open")
        if self.state.situation.demo:
            self.call_later(self.running.run)

    def style_pages(self) -> None:
        """Read the rules of pages and of rarer layouts, once."""
        if not self._has_styles:
            self._has_styles = True
            self._read_styles("layouts.tcss", "pages.tcss")
            self.stylesheet.parse()
            if self.main_screen is not None:  # zoomed or resized before
                self.stylesheet.update(self.main_screen)

    # ---------------------------------------------------------------- keys

    async def run_action(
        self, action: str | ActionParseResult, default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:  # fmt: skip
        """Perform an action, or show why it is impossible now, so that no key seems broken."""
        own = default_namespace is None or default_namespace is self
        command = keys.COMMAND_BY_ACTION.get(action) if isinstance(action, str) and own else None
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
        command = keys.COMMAND_BY_ACTION.get(keys.action_of(parameters[0])) if action == "do" else None
        return True if command is None or command.possible(self.state.situation) else None

    def _close_in_panes(self) -> bool:
        main = self.main_screen
        return main is not None and main.close_one()

    def on_data_table_row_highlighted(self, message: DataTable.RowHighlighted) -> None:
        """Make the highlighted row the subject of the other panes; an empty table highlights nothing."""
        self.timings.highlight(str(message.row_key.value) if message.row_key is not None else None)

    def push_screen(self, *arguments: Any, **named: Any) -> Any:
        """Open a screen, which has its rules by then."""
        self.style_pages()
        return super().push_screen(*arguments, **named)

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
        """Open the paint gate for keys, resizes, pastes and clicks. Early ones wait for the list of workloads."""
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
        if self._loading is None and self.main_screen is not None:
            self.main_screen.frame_painted()
            self._load_the_rest()

    def watch_theme(self) -> None:
        """Recolour the table, whose cells hold their colours."""
        self.call_after_refresh(self._restyle)

    def _restyle(self) -> None:
        if (main := self.main_screen) is not None:
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
        self.bridge.leave()
        self.set_terminal_title("")
        number = run.run.number if run.run is not None else None
        self.exit(AppResult(run, number, self.state.notice, code), return_code=code)

    def close(self) -> None:
        """End the run's threads and agents. The history stays open for unsaved runs."""
        self.bridge.backend.close()
