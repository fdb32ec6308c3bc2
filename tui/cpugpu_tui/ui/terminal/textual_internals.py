"""The undocumented parts of Textual that this program uses, those of its table apart. Tested with 8.2.5 and 8.2.8.

No other file uses Textual's names that begin with an underscore. A test reports which of them a new version lacks.
"""

from __future__ import annotations

import os
from typing import Any, TypeVar

from rich.console import RenderableType
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.css.query import NoMatches
from textual.drivers.linux_driver import LinuxDriver
from textual.screen import Screen

__all__ = ["ClickDriver", "WatchedApp", "XTermParser"]

Result = TypeVar("Result")


MOUSE_ON, MOUSE_OFF = "\x1b[?1002h\x1b[?1006h", "\x1b[?1002l\x1b[?1006l"
"""Mouse modes of the app: buttons, wheel, and movements while a button is down; in SGR encoding."""


class ClickDriver(LinuxDriver):
    """Textual's driver, told about clicks, the wheel and drags but not about other movements.

    Textual asks for all movements (mode 1003). Each one would wake the app, also while something is being timed.
    """

    def __init__(self, app: App[Any], *, mouse: bool = True, **options: Any) -> None:
        self.takes_mouse = mouse and "STY" not in os.environ
        """Whether the app uses the mouse; otherwise the terminal keeps it, to select text.

        While a program uses the mouse, GNU screen 4.9 sends `esc` only with the next key, so both were lost.
        """
        super().__init__(app, mouse=mouse, **options)

    def _enable_mouse_support(self) -> None:
        if self.takes_mouse:
            self.write(MOUSE_ON)
            self.flush()

    def _disable_mouse_support(self) -> None:
        if self.takes_mouse:
            self.write(MOUSE_OFF)
            self.flush()


class WatchedApp(App[Result]):
    """An app with a hook for its frames that can write to its terminal."""

    ends = False
    """Whether the app has begun to end."""

    def write_to_terminal(self, sequence: str) -> None:
        """Write an escape sequence unchanged, if there is a terminal."""
        if self._driver is not None:
            self._driver.write(sequence)

    def laid_out(self) -> None:
        """Hook: called after the layout for the terminal's size."""

    def frame_done(self, *, in_vain: bool) -> None:
        """Hook: called after a frame was written, or discarded because a batch was open (`in_vain`)."""

    def _check_resize(self) -> None:
        """Lay out and write everything again after a resize, when the terminal's content is unknown."""
        getattr(self._driver, "forget", lambda: None)()
        super()._check_resize()
        self.laid_out()

    def lay_out_again(self) -> None:
        """Lay out again although the size is the same; Textual would do nothing."""
        self._check_resize()

    def exit(self, result: Result | None = None, return_code: int = 0, message: Any | None = None) -> None:
        """End the app."""
        self.ends = True
        super().exit(result, return_code, message)

    def _handle_exception(self, error: Exception) -> None:
        """End the app with a traceback, except for widgets that are missing while it ends anyway.

        A screen that the last key before the end has opened finds none.
        """
        if not (self.ends and isinstance(error, NoMatches)):
            super()._handle_exception(error)

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        """Call the hook for frames; no event reports one that was written or discarded."""
        super()._display(screen, renderable)
        if renderable is not None:
            self.frame_done(in_vain=bool(self._batch_count))
