"""All that this program uses of Textual without Textual documenting it, tried on 8.2.5 and 8.2.8.

No other file names anything of Textual's that begins with an underscore. `PRIVATE_NAMES` lists what a new version must
still have; a test says which of them are missing.
"""

from __future__ import annotations

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

__all__ = ["PRIVATE_NAMES", "LinuxDriver", "PrivateTable", "WatchedApp", "XTermParser"]

PRIVATE_NAMES = {
    "textual._xterm_parser:XTermParser.feed": "keys are parsed by Textual after our reader has bounded them",
    "textual._xterm_parser:XTermParser.tick": "the same",
    "textual.drivers.linux_driver:LinuxDriver.run_input_thread": "our reader takes its place",
    "textual.drivers.linux_driver:LinuxDriver.exit_event": "ends our reader",
    "textual.drivers.linux_driver:LinuxDriver.fileno": "what our reader reads",
    "textual.app:App._driver": "titles and the clipboard are escape sequences that Textual does not write",
    "textual.app:App._check_resize": "what a terminal shows after a change of size is not known",
    "textual.app:App._display": "no event says that a frame was written, or composed in vain",
    "textual.app:App._batch_count": "the same",
    "textual.app:App._handle_exception": "a screen that is opened by the last key before the end finds no widgets",
    "textual.widgets:DataTable._data": "`sort` cannot put rows into an order that is not in their cells",
    "textual.widgets:DataTable._update_count": "cells that are made late need the cache of lines to be renewed",
    "textual.widgets:DataTable._row_renderable_cache": "the same, of one row",
    "textual.widgets:DataTable._cell_render_cache": "keeps 10,000 cells, where a screen shows some hundreds",
    "textual.widgets:DataTable._render_line_in_row": "cells are made when their row comes into sight",
    "textual.widgets:DataTable._update_dimensions": "measuring cells whose width is fixed takes 423 ms at 2000 rows",
}
"""Module, class and name → why it is needed."""

PAINTED_CELLS = 2_000
"""How many painted cells a table remembers: several screens of them (10,000 of them take 3 MB more)."""

Result = TypeVar("Result")


class WatchedApp(App[Result]):
    """An app that is told of its frames, and can write to its terminal."""

    ends = False
    """Whether the end has begun."""

    def write_to_terminal(self, sequence: str) -> None:
        """Write an escape sequence as it is, where there is a terminal."""
        if self._driver is not None:
            self._driver.write(sequence)

    def forget_terminal(self) -> None:
        """Let everything be written again: nobody knows what the terminal shows."""
        forget = getattr(self._driver, "forget", None)
        if forget is not None:
            forget()

    def laid_out(self) -> None:
        """Be told that the layout follows the size of the terminal."""

    def frame_done(self, *, in_vain: bool) -> None:
        """Be told that a frame was written, or composed in vain while a batch was open."""

    def _check_resize(self) -> None:
        """Lay out anew on a terminal that shows what it likes after a change of size."""
        self.forget_terminal()
        super()._check_resize()
        self.laid_out()

    def lay_out_again(self) -> None:
        """Do as after a change of size; Textual does nothing when the new size is the old one."""
        self._check_resize()

    def exit(self, result: Result | None = None, return_code: int = 0, message: Any | None = None) -> None:
        """End the app."""
        self.ends = True
        super().exit(result, return_code, message)

    def _handle_exception(self, error: Exception) -> None:
        """End the app with a traceback; but while it ends, screens lose the widgets that their last messages need."""
        if not (self.ends and isinstance(error, NoMatches)):
            super()._handle_exception(error)

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        super()._display(screen, renderable)
        if renderable is not None:
            self.frame_done(in_vain=bool(self._batch_count))


class PrivateTable(DataTable[Text]):
    """A table whose cells can be made late, and whose rows can be put into any order."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._cell_render_cache.maxsize = PAINTED_CELLS

    def make_cells(self, row_key: RowKey) -> None:
        """Be told that a row is about to be painted."""

    def set_cells(self, row_key: str, cells: dict[ColumnKey, Text]) -> None:
        """Give a row its cells; nothing is painted by that."""
        self._data[RowKey(row_key)] = cells

    def forget_lines(self) -> None:
        """Compose lines anew at the next paint, where they would come from the cache."""
        self._update_count += 1

    def forget_row(self, row_key: str) -> None:
        """Take a row's cells anew though the paint that needs them has begun."""
        self._row_renderable_cache.discard((self._update_count, self.get_row_index(row_key)))

    def put_in_order(self, row_keys: Iterable[str]) -> None:
        """Put the rows into this order, which must name every row."""
        # DataTable sorts its data by what is in the cells, and leaves equal rows in the order of its data.
        by_key = {str(row_key.value): (row_key, cells) for row_key, cells in self._data.items()}
        self._data = dict(by_key[row_key] for row_key in row_keys)
        self.sort(key=lambda _cells: 0)

    def _render_line_in_row(
        self, row_key: RowKey, line_no: int, base_style: Style, cursor_location: Coordinate, hover_location: Coordinate
    ) -> tuple[list[list[Segment]], list[list[Segment]]]:
        """Return a line, of cells that may have been made just now."""
        self.make_cells(row_key)
        return super()._render_line_in_row(row_key, line_no, base_style, cursor_location, hover_location)

    def _update_dimensions(self, new_rows: Iterable[RowKey]) -> None:
        """Note how many rows there are. Columns have their width."""
        del new_rows
        super()._update_dimensions(())
