"""The interface between controllers and the app; tests replace it by a fake."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from textual.screen import Screen
from textual.timer import Timer

from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.screens.main import MainScreen
from cpugpu_tui.ui.screens.page import Page

Result = TypeVar("Result")


class Port(Protocol):
    """The app as its controllers see it. All calls come on the app's thread."""

    state: AppState
    """Everything that is shown. Assigning it repaints nothing; `change` does."""

    @property
    def glyphs(self) -> Glyphs:
        """Signs that this terminal can show."""

    @property
    def screen(self) -> Screen[Any]:
        """The screen on top."""

    @property
    def screen_stack(self) -> Sequence[Screen[Any]]:
        """All screens, the lowest first."""

    def change(self, **changes: Any) -> None:
        """Change fields of the state and show it on all screens."""

    def situate(self, **changes: Any) -> None:
        """Change fields of the state's situation."""

    def say(self, text: str, *, stays: bool = False) -> None:
        """Show a notice for some seconds; with `stays` also after a screen opens or closes."""

    def push_screen(self, screen: Screen[Any], callback: Callable[[Any], object] | None = None) -> object:
        """Open a screen; `callback` receives its result."""

    def pop_screen(self) -> object:
        """Close the screen on top."""

    def start_thread(self, body: Callable[[], object], group: str, *, exclusive: bool = False) -> object:
        """Run `body` on a thread; `exclusive` cancels the others of its group."""

    def in_background(
        self, group: str, body: Callable[[], Result], then: Callable[[Result], object],
        failed: Callable[[CpuGpuError], object],
    ) -> None:  # fmt: skip
        """Run `body` on a thread, then call `then` with its result or `failed` with its error on the app's thread."""

    def set_timer(self, delay: float, callback: Callable[[], object]) -> Timer:
        """Call once after `delay` seconds."""

    def set_interval(self, interval: float, callback: Callable[[], object]) -> Timer:
        """Call every `interval` seconds."""

    def call_later(self, callback: Callable[[], object]) -> object:
        """Call after the pending messages have been handled."""

    def bell(self) -> None:
        """Ring the terminal's bell."""

    def set_terminal_title(self, title: str) -> None:
        """Set the title of the terminal's window."""


def main_screen(port: Port) -> MainScreen | None:
    """Return the main screen, even if it is covered; None while the app closes."""
    return next((screen for screen in port.screen_stack if isinstance(screen, MainScreen)), None)


def close_pages(port: Port) -> None:
    """Close every page over the main screen."""
    while isinstance(port.screen, Page):
        port.pop_screen()


def toggle(port: Port, kind: type[Screen[Any]], make: Callable[[], Screen[Any]]) -> None:
    """Open a screen, or close it if it is on top."""
    if isinstance(port.screen, kind):
        port.pop_screen()
    else:
        port.push_screen(make())
