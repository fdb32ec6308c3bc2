"""Base class of the apps: state, themes, keys that reach controllers, signals, quitting."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import isawaitable
from typing import Any, ClassVar, TypeAlias, TypeVar

from textual import events, on
from textual.await_complete import AwaitComplete
from textual.driver import Driver
from textual.filter import LineFilter
from textual.geometry import Size
from textual.screen import Screen
from textual.scrollbar import ScrollBarRender
from textual.timer import Timer
from textual.types import CSSPathType
from textual.worker import Worker, WorkerState

from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.ui import themes
from cpugpu_tui.ui.app_state import AppOptions, AppState, FleetOptions
from cpugpu_tui.ui.controllers.themes import ThemeSwitcher
from cpugpu_tui.ui.glyphs import ASCII, UNICODE, Glyphs, line_filters
from cpugpu_tui.ui.live.messages import InputDropped, Report
from cpugpu_tui.ui.screens.main import MainScreen
from cpugpu_tui.ui.terminal.guard import LoopSignals
from cpugpu_tui.ui.terminal.textual_internals import WatchedApp
from cpugpu_tui.ui.themes import legible

INTERNAL_ERROR = "Internal error"
"""How the message about an exception of our own begins; the fuzzers look for it."""

NOTICE_DURATION_S = 6.0
"""How long the status line shows the result of a key press."""

WIDTHS = [(0, "-slim"), (40, "-tiny"), (60, "-narrow"), (100, "-normal"), (160, "-wide")]
HEIGHTS = [(0, "-low"), (12, "-flat"), (16, "-short"), (34, "-tall")]
"""Least columns and rows of each layout."""
COMMON_LAYOUTS = {"-narrow", "-normal", "-short", "-tall"}
"""Those in `app.tcss`; `layouts.tcss` has the others."""


def layout_classes(size: Size) -> str:
    """Return the classes that Textual gives a screen of this size, but only after its first frame."""
    steps = zip((WIDTHS, HEIGHTS), size, strict=True)
    return " ".join(max(step for step in each if step[0] <= cells)[1] for each, cells in steps)


Result = TypeVar("Result")

Routes: TypeAlias = "Mapping[type[Report], tuple[str, ...]]"


class Shell(WatchedApp[Result]):
    """An app without controllers, as these see it."""

    CSS_PATH: ClassVar[CSSPathType | None] = "app.tcss"
    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False  # selecting text is the terminal's (with shift); Textual's would repaint it
    HORIZONTAL_BREAKPOINTS: list[tuple[int, str]] | None = WIDTHS
    VERTICAL_BREAKPOINTS: list[tuple[int, str]] | None = HEIGHTS

    glyphs: Glyphs = UNICODE
    """Characters that this terminal can show."""
    signals: LoopSignals | None = None
    """Passes signals on; set by `start` on a terminal."""
    exit_code: int | None = None
    """Exit code once the app is quitting; None before."""

    def __init__(
        self, options: FleetOptions | AppOptions, glyphs: Glyphs, state: AppState, *, theme: str = themes.DEFAULT_THEME,
        sixteen_colours: bool = False, driver_class: type[Driver] | None = None,
    ) -> None:  # fmt: skip
        """Start with `theme` unless the options name one; with sixteen colours only ANSI themes are offered.

        Raises:
            UsageError: the theme is unknown.
        """
        super().__init__(driver_class=driver_class)
        ScrollBarRender.VERTICAL_BARS = [" "]  # beside the rounds, an end of the bar in eighths reads as a round
        self.animation_level = "none"
        self.glyphs, self.state = glyphs, state
        self._silence: Timer | None = None
        self._notice_stays = False
        self.set_class(glyphs is ASCII, "-ascii")  # otherwise scrollbars are rows of question marks
        self.set_class(self.no_color, "-nocolor")
        self.set_keymap(options.keymap.for_textual())
        folder = options.config_dir / "themes" if options.config_dir is not None else None
        self.themes = ThemeSwitcher(
            self, glyphs, folder, self.is_timing, lambda notice: self.change(theme_notice=notice),
            sixteen_colours=sixteen_colours,
        )  # fmt: skip
        self.state = self.state._replace(theme_notice=self.themes.start(options.theme or theme))

    def is_timing(self) -> bool:
        """Whether a measurement is in progress, which other work would disturb."""
        return False

    def close(self) -> None:
        """End threads and agents; called after the terminal is restored."""

    # ---------------------------------------------------------------- the state

    def change(self, **changes: Any) -> None:
        """Change the state and show it on all screens. While the gate is held, nothing is painted."""
        self.state = self.state._replace(**changes)
        if self.state.situation.other != self.state.is_other:
            self.state = self.state._replace(situation=self.state.situation._replace(other=self.state.is_other))
        if not self.is_running:
            return
        for screen in self.screen_stack:
            # While the app ends, readings still arrive, but screens have lost their widgets.
            show_state = getattr(screen, "show_state", None)
            if show_state is not None and screen.is_mounted and screen.is_attached:
                show_state(self.state)

    def situate(self, **changes: Any) -> None:
        """Change the situation, which decides the possible commands."""
        self.change(situation=self.state.situation._replace(**changes))

    def say(self, text: str, *, stays: bool = False) -> None:
        """Show the result of a key press for a while, in the status line or a page's last line.

        It goes with the next key, or when a screen opens or closes; with `stays` it remains.
        """
        self._notice_stays = stays
        self.change(key_result=text)
        if self._silence is not None:
            self._silence.stop()
        self._silence = self.set_timer(NOTICE_DURATION_S, lambda: self.change(key_result=""))

    def push_screen(self, *arguments: Any, **named: Any) -> Any:
        """Open a screen without the message of the one below."""
        self._hush()
        return super().push_screen(*arguments, **named)

    def pop_screen(self) -> AwaitComplete:
        """Close a screen together with its message."""
        self._hush()
        return super().pop_screen()

    def toggle(self, kind: type[Screen[Any]], make: Callable[[], Screen[Any]]) -> None:
        """Open a screen, or close it if it is on top."""
        if isinstance(self.screen, kind):
            self.pop_screen()
        else:
            self.push_screen(make())

    def close_pages(self) -> None:
        """Close every page over the main screen."""
        from cpugpu_tui.ui.screens.page import Page  # not before the first frame

        while isinstance(self.screen, Page):
            self.pop_screen()

    @property
    def main_screen(self) -> MainScreen | None:
        """The main screen, even if it is covered; None while the app closes."""
        return next((screen for screen in self.screen_stack if isinstance(screen, MainScreen)), None)

    def _hush(self) -> None:
        if self.state.key_result and not self._notice_stays:
            self.change(key_result="")

    # ---------------------------------------------------------------- threads

    def start_thread(self, body: Callable[[], object], group: str, *, exclusive: bool = False) -> object:
        """Run `body` on a thread; an exception in it does not end the app."""
        return self.run_worker(body, thread=True, exclusive=exclusive, exit_on_error=False, group=group)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Show an exception on a worker thread as a problem instead of ending the app."""
        if event.state == WorkerState.ERROR:
            message = f"{INTERNAL_ERROR}: {type(event.worker.error).__name__}: {event.worker.error}."
            self.change(problem=CpuGpuError(message, "Finished rows are saved. Please report this bug."))

    # ---------------------------------------------------------------- what reaches controllers

    @property
    def routes(self) -> Routes:
        """Message type → methods of controllers that handle it, in this order."""
        return {}

    @on(Report)
    def pass_on(self, message: Report) -> None:
        """Pass a message to the controllers that handle it."""
        for does in self.routes.get(type(message), ()):
            self.method(does)(message)

    def method(self, does: str) -> Callable[..., object]:
        """Return a controller's method, named as in the key registry: `running.run`."""
        controller, _, method = does.partition(".")
        found: Callable[..., object] = getattr(getattr(self, controller), method)
        return found

    async def action_do(self, does: str, *arguments: Any) -> None:
        """Call a controller's method, for a key, whose result replaces that of the key before."""
        self._hush()
        done = self.method(does)(*arguments)
        if isawaitable(done):
            await done

    @on(InputDropped)
    def _show_dropped(self, message: InputDropped) -> None:
        self.say(str(message), stays=True)

    # ---------------------------------------------------------------- the end

    async def on_event(self, event: events.Event) -> None:
        """Ignore keys once the app is quitting: a new run would be cut off."""
        if self.exit_code is None or not isinstance(event, events.Key):
            await super().on_event(event)

    async def action_quit(self) -> None:
        """Quit like the quit key. Textual's own ctrl+q would neither ask nor stop the run."""
        await self.action_do("leaving.ask")

    # ---------------------------------------------------------------- how it is drawn

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return our own CSS variables for themes that do not set them."""
        return themes.variable_defaults(self.current_theme)

    def get_css_variables(self) -> dict[str, str]:
        """Return all CSS variables, with legible colours; none yet for Textual's own theme, which is never shown."""
        if "themes" not in vars(self):
            return {}
        variables = super().get_css_variables()
        self.theme_variables = {**variables, **legible(variables)}
        return self.theme_variables

    def refresh_css(self, animate: bool = True) -> None:
        """Parse the style sheets again; before the first screen, only set the theme's colours.

        The first screen parses all style sheets anyway. Doing it twice delayed the first frame by 16 ms.
        """
        if self.screen_stack:
            super().refresh_css(animate)
        else:
            self.stylesheet.set_variables(self.get_css_variables())

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return the filters of every line."""
        return line_filters(super().get_line_filters(), no_colour=self.no_color, ascii_only=self.glyphs is ASCII)

    def set_terminal_title(self, title: str) -> None:
        """Set the title of the terminal's window."""
        if not self.is_headless:
            self.write_to_terminal(f"\x1b]2;{title}\x07")
