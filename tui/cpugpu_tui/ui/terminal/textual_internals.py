"""All undocumented parts of Textual that this program uses, tested with 8.2.5 and 8.2.8.

No other file uses Textual's names that begin with an underscore. A test reports which of them a new version lacks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, TypeVar

from rich.console import RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.coordinate import Coordinate
from textual.css.query import NoMatches
from textual.drivers.linux_driver import LinuxDriver
from textual.screen import Screen
from textual.widgets import DataTable
from textual.widgets.data_table import ColumnKey, RowKey

__all__ = ["ClickDriver", "PrivateTable", "WatchedApp", "XTermParser"]

PAINTED_ROWS, PAINTED_CELLS = 200, 2_000
"""Painted rows and cells in a table's caches: several screens of them. Textual's own numbers take 9 MB more."""

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


class PrivateTable(DataTable[Text]):
    """A table whose cells can be made when they are painted, and whose rows can have any order."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._cell_render_cache.maxsize = PAINTED_CELLS
        self._row_render_cache.maxsize = self._row_renderable_cache.maxsize = PAINTED_ROWS
        self._line_cache.maxsize = PAINTED_ROWS

    def make_cells(self, row_key: RowKey) -> None:
        """Hook: called before a row is painted."""

    def set_cells(self, row_key: str, cells: dict[ColumnKey, Text]) -> None:
        """Set the cells of a row without painting them."""
        self._data[RowKey(row_key)] = cells

    def forget_lines(self) -> None:
        """Clear the cache of lines, so that the next paint composes them with new cells."""
        self._update_count += 1

    def forget_row(self, row_key: str) -> None:
        """Clear the cached cells of a row, also during a paint."""
        self._row_renderable_cache.discard((self._update_count, self.get_row_index(row_key)))

    def put_in_order(self, row_keys: Iterable[str]) -> None:
        """Put the rows into this order, which must name each of them."""
        # DataTable sorts by cells and keeps equal rows in the order of its data.
        by_key = {str(row_key.value): (row_key, cells) for row_key, cells in self._data.items()}
        self._data = dict(by_key[row_key] for row_key in row_keys)
        self.sort(key=lambda _cells: 0)

    def _render_line_in_row(
        self, row_key: RowKey, line_no: int, base_style: Style, cursor_location: Coordinate, hover_location: Coordinate
    ) -> tuple[list[list[Segment]], list[list[Segment]]]:
        """Return a line, after `make_cells` for its row."""
        self.make_cells(row_key)
        return super()._render_line_in_row(row_key, line_no, base_style, cursor_location, hover_location)

    def _update_dimensions(self, new_rows: Iterable[RowKey]) -> None:
        """Update the number of rows without measuring cells, whose width is fixed: 423 ms at 2,000 rows."""
        super()._update_dimensions(())
