"""What every app of ours has: a state that its screens show, themes, keys that reach controllers, signals, an end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from inspect import isawaitable
from typing import Any, Protocol, TypeVar, runtime_checkable

from textual import events, on
from textual.await_complete import AwaitComplete
from textual.driver import Driver
from textual.filter import LineFilter
from textual.timer import Timer
from textual.worker import Worker, WorkerState

from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.ui import themes
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.controllers.leaving import Leaving
from cpugpu_tui.ui.controllers.themes import Themes
from cpugpu_tui.ui.glyphs import ASCII, UNICODE, Glyphs
from cpugpu_tui.ui.legible import legible
from cpugpu_tui.ui.live.messages import InputDropped, Report
from cpugpu_tui.ui.options import AppOptions, FleetOptions
from cpugpu_tui.ui.terminal.ascii_only import line_filters
from cpugpu_tui.ui.terminal.signals import LoopSignals
from cpugpu_tui.ui.terminal.textual_internals import WatchedApp

NOTICE_DURATION_S = 6.0
"""How long the status line shows what came of a key."""

WIDTHS: list[tuple[int, str]] | None = [(0, "-tiny"), (60, "-narrow"), (100, "-normal"), (160, "-wide")]
HEIGHTS: list[tuple[int, str]] | None = [(0, "-flat"), (16, "-short"), (34, "-tall")]
"""Columns and rows from which on `app.tcss` has another layout."""

Found = TypeVar("Found")
Result = TypeVar("Result")


@runtime_checkable
class ShowsState(Protocol):
    """A screen that shows the state, and is given each newer one."""

    def show_state(self, state: AppState) -> None:
        """Show a newer state."""


class Shell(WatchedApp[Result]):
    """An app without controllers: `Port` is what it gives them."""

    CSS_PATH = "app.tcss"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS

    glyphs: Glyphs = UNICODE
    """Signs that this terminal can show."""
    signals: LoopSignals | None = None
    """What passes signals on; set by whoever runs the app on a terminal."""
    leaving: Leaving
    """The controller of how it ends; a subclass constructs it."""

    def __init__(
        self, options: AppOptions | FleetOptions, glyphs: Glyphs, state: AppState, *, theme: str,
        sixteen_colours: bool, driver_class: type[Driver] | None,
    ) -> None:  # fmt: skip
        """Start on `theme` unless the options name one; with sixteen colours only those made for them.

        Raises:
            UsageError: there is no theme of that name.
        """
        super().__init__(driver_class=driver_class)
        self.animation_level = "none"
        self.glyphs, self.state = glyphs, state
        self.routes: dict[type[Report], tuple[Callable[[Any], object], ...]] = {}
        """Which methods of controllers take a report, in this order."""
        self._silence: Timer | None = None
        self._notice_stays = False
        self.set_class(glyphs is ASCII, "-ascii")  # on every screen a scrollbar would be a row of question marks
        self.set_class(self.no_color, "-nocolor")
        self.set_keymap(options.keymap.for_textual())
        folder = options.config_dir / "themes" if options.config_dir is not None else None
        self.themes = Themes(self, self, folder, self.is_timing, sixteen_colours=sixteen_colours)
        self.state = replace(self.state, theme_notice=self.themes.start(options.theme or theme))

    def is_timing(self) -> bool:
        """Whether anything that uses a core now would be in a measurement."""
        return False

    def close(self) -> None:
        """End what outlives the screens; called when the terminal is a person's again."""

    # ---------------------------------------------------------------- the state

    def change(self, **changes: Any) -> None:
        """Change the state and show it on all screens; while the gate is held nothing is painted by this."""
        self.state = replace(self.state, **changes)
        if self.state.situation.other != self.state.is_other:
            self.state = replace(self.state, situation=replace(self.state.situation, other=self.state.is_other))
        if not self.is_running:
            return
        for screen in self.screen_stack:
            # While the app ends its screens lose their widgets, and readings still come.
            if isinstance(screen, ShowsState) and screen.is_mounted and screen.is_attached:
                screen.show_state(self.state)

    def situate(self, **changes: Any) -> None:
        """Change what can be done now."""
        self.change(situation=replace(self.state.situation, **changes))

    def say(self, text: str, *, stays: bool = False) -> None:
        """Say for a while what came of a key, in the status line or a page's last line.

        `stays` keeps it when a screen opens or closes.
        """
        self._notice_stays = stays
        self.change(said=text)
        if self._silence is not None:
            self._silence.stop()
        self._silence = self.set_timer(NOTICE_DURATION_S, lambda: self.change(said=""))

    def push_screen(self, *arguments: Any, **named: Any) -> Any:
        """Open a screen. What was said on the one below does not stand on it."""
        self._hush()
        return super().push_screen(*arguments, **named)

    def pop_screen(self) -> AwaitComplete:
        """Close a screen, and what was said on it."""
        self._hush()
        return super().pop_screen()

    def _hush(self) -> None:
        if self.state.said and not self._notice_stays:
            self.change(said="")

    # ---------------------------------------------------------------- threads

    def start_thread(self, body: Callable[[], object], group: str, *, exclusive: bool = False) -> object:
        """Run `body` on a thread; a fault in it does not end the app."""
        return self.run_worker(body, thread=True, exclusive=exclusive, exit_on_error=False, group=group)

    def in_background(
        self, group: str, body: Callable[[], Found], then: Callable[[Found], object],
        failed: Callable[[CpuGpuError], object],
    ) -> None:  # fmt: skip
        """Run `body` on a thread, then `then` with what it returned or `failed` with its error on the app's thread."""

        def run() -> None:
            try:
                found = body()
            except CpuGpuError as error:
                self.call_later(failed, error)
            else:
                self.call_later(then, found)

        self.start_thread(run, group)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A fault of ours on a thread is a sentence, not the end of the app."""
        if event.state == WorkerState.ERROR:
            message = f"A fault in this program: {type(event.worker.error).__name__}: {event.worker.error}."
            self.change(problem=CpuGpuError(message, "Finished rows are saved; please report it."))

    # ---------------------------------------------------------------- what reaches controllers

    @on(Report)
    def pass_on(self, message: Report) -> None:
        """Give a report to the controllers that take it."""
        for take in self.routes.get(type(message), ()):
            take(message)

    async def action_do(self, does: str, *arguments: Any) -> None:
        """Call a controller's method: `running.run`, as the key registry names it."""
        controller, _, method = does.partition(".")
        done = getattr(getattr(self, controller), method)(*arguments)
        if isawaitable(done):
            await done

    @on(InputDropped)
    def _say_dropped(self, message: InputDropped) -> None:
        self.say(str(message), stays=True)

    # ---------------------------------------------------------------- the end

    async def on_event(self, event: events.Event) -> None:
        """Obey no key once the app is being left: a run begun now would be cut off."""
        if self.leaving.exit_code is None or not isinstance(event, events.Key):
            await super().on_event(event)

    async def action_quit(self) -> None:
        """Quit as on any other key: Textual binds ctrl+q to an end that asks nothing and stops no run."""
        self.leaving.ask()

    # ---------------------------------------------------------------- how it is drawn

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return our own CSS variables for themes that do not set them."""
        return themes.variable_defaults(self.current_theme)

    def get_css_variables(self) -> dict[str, str]:
        """Return all CSS variables, with colours that can be read on our screens."""
        variables = super().get_css_variables()
        self.theme_variables = {**variables, **legible(variables)}
        return self.theme_variables

    def refresh_css(self, animate: bool = True) -> None:
        """Parse the style sheets anew; before the first screen, which the start theme is set, take its colours alone.

        All of them are parsed for that screen anyway: doing it here too took 16 ms of the time to the first frame.
        """
        if self.screen_stack:
            super().refresh_css(animate)
        else:
            self.stylesheet.set_variables(self.get_css_variables())

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return what each line of each widget goes through."""
        return line_filters(super().get_line_filters(), no_colour=self.no_color, ascii_only=self.glyphs is ASCII)

    def set_terminal_title(self, title: str) -> None:
        """Name the terminal's window, for whoever works in another one meanwhile."""
        if not self.is_headless:
            self.write_to_terminal(f"\x1b]2;{title}\x07")
