"""The undocumented parts of Textual's table, apart from `textual_internals.py`: the first frame has no table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.coordinate import Coordinate
from textual.geometry import Region
from textual.widgets import DataTable
from textual.widgets.data_table import ColumnKey, RowKey

PAINTED_ROWS, PAINTED_CELLS = 200, 2_000
"""Painted rows and cells in a table's caches: several screens of them. Textual's own numbers take 9 MB more."""


class PrivateTable(DataTable[Text]):
    """A table whose cells can be made when they are painted, and whose rows can have any order."""

    is_growing = False
    """Whether rows are being counted."""

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

    def _render_cell(
        self, row_index: int, column_index: int, base_style: Style, width: int, cursor: bool = False,
        hover: bool = False,
    ) -> list[list[Segment]]:  # fmt: skip
        """Return the lines of a cell without its place, cached by its text.

        DataTable marks each cell with its place, and forgets all cells when one of them changes or a row is added.
        """
        row_key, column_key = self._row_locations.get_key(row_index), self._column_locations.get_key(column_index)
        if row_key is None or column_key is None:  # a heading
            return super()._render_cell(row_index, column_index, base_style, width, cursor, hover)
        text = self._data[row_key][column_key]
        known: Any = self._cell_render_cache
        key = (
            base_style, width, cursor, hover, self.show_cursor, self.cursor_foreground_priority,
            self._pseudo_class_state, text.plain, text.justify, text.style, *text.spans,
        )  # fmt: skip
        if key not in known:
            lines = super()._render_cell(row_index, column_index, base_style, width, cursor, hover)
            known[key] = [[Segment(text, style and style.clear_meta_and_links()) for text, style, _ in line]
                          for line in lines]  # fmt: skip
        found: list[list[Segment]] = known[key]
        return found

    def _update_dimensions(self, new_rows: Iterable[RowKey]) -> None:
        """Update the number of rows without measuring cells, whose width is fixed: 423 ms at 2,000 rows.

        The table's own size stays, so the screen needs no new layout: a search adds a row in every second gap, and
        a layout paints every pane.
        """
        self.is_growing = True
        super()._update_dimensions(())
        self.is_growing = False
        self._scroll_update(self.virtual_size)

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Repaint these regions, or everything if none is given."""
        layout = layout and not self.is_growing
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)
