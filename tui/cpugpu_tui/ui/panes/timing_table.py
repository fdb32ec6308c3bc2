"""A table of rows whose cells change often, painted cell by cell.

Textual's `DataTable.update_cell` repaints the whole table: 9.6 kB to the terminal for one row of 20 at 120×40. This one
writes 0.16 kB: the changed cells and those left of them. It knows rows, columns and cells, but no runs.

Rows can be added by key alone. Their cells are made when they come into sight: cells of 10,000 rows took 250 MB.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import ClassVar, Literal, NamedTuple, Self

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events, on
from textual.binding import BindingType
from textual.coordinate import Coordinate
from textual.geometry import Region
from textual.strip import Strip
from textual.widgets import DataTable
from textual.widgets.data_table import ColumnKey, RowKey

from cpugpu_tui.ui.live.messages import HeadingClicked, RowChosen
from cpugpu_tui.ui.terminal.textual_table import PrivateTable

Cells = Mapping[str, str | Text]
"""Column key → text of the cell."""

ONE_BY_ONE = 20
"""At most this many rows are removed one by one; more of them rebuild the table."""
MOST_WITH_CELLS = 300
"""Rows whose cells stay in memory: more than any terminal shows."""

ROWS_AHEAD = 0.35
"""Share of the rows in sight that lie below the one that a run times, after the table has scrolled to it."""


class Column(NamedTuple):
    """A column of fixed width."""

    key: str
    """Names the column in `TimingTable.upsert`."""
    label: str
    width: int
    """In cells, without one cell of padding on either side; longer text ends in an ellipsis."""
    justify: Literal["left", "center", "right"] = "left"


class TimingTable(PrivateTable):
    """Rows by key, with a cursor that follows the run until the user moves it.

    Posts `DataTable.RowHighlighted` when the cursor moves, and `RowChosen` when a row is opened.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        ("j", "cursor_down"), ("k", "cursor_up"), ("home", "scroll_top"), ("G,end", "scroll_bottom"),
    ]  # fmt: skip

    DEFAULT_CSS = """
    TimingTable {
        background: $background;
        &:focus { background-tint: transparent; & > .datatable--header { background-tint: transparent; } }
        & > .datatable--header { background: $background; color: $foreground-muted; }
        &:ansi > .datatable--header { background: ansi_default; color: ansi_default; }
    }
    """

    _dirty: list[Region] | None = None
    _steered = False

    def __init__(self, cursor_sign: str = " ", *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        """Make a table without columns; give it some with `set_columns`.

        `cursor_sign` marks the row under the cursor, in its padding, also without colour.
        """
        super().__init__(cursor_type="row", show_row_labels=False, id=id, classes=classes)
        self._cursor_sign = cursor_sign
        self.cells_of: Callable[[str], Cells] | None = None
        """Makes the cells of rows that were added by `touch`."""
        self._columns: dict[str, Column] = {}
        self._cells: dict[str, dict[str, Text]] = {}
        """Row key → cells; rows that were never in sight, or have changed since, are missing."""
        self._blank: dict[ColumnKey, Text] = {}
        """Empty cells, shared by the rows without their own."""
        self._followed: str | None = None
        self._following = True

    # -------------------------------------------------------------- content

    def set_columns(self, columns: Sequence[Column]) -> None:
        """Show these columns, in this order. Rows, cursor and the cells of hidden columns stay."""
        wanted = {column.key: column for column in columns}
        if list(wanted.items()) == list(self._columns.items()):
            return
        row_keys = self.row_keys
        with self._cursor_stays():
            super().clear(columns=True)
            self._columns = wanted
            for column in columns:
                self.add_column(Text(column.label, justify=column.justify), width=column.width, key=column.key)
            self._blank = dict.fromkeys(self.columns, _EMPTY)
            for row_key in row_keys:
                self._add(row_key)

    def touch(self, row_key: str) -> None:
        """Add a row at the end, or note that its cells may have changed. `cells_of` is called once it is in sight."""
        if row_key not in self.rows:
            self._add_followed(row_key)
        elif row_key in self._cells and self._is_in_sight(row_key) and self.cells_of is not None:
            self.upsert(row_key, self.cells_of(row_key))
        else:
            self._forget([row_key])
            self.forget_lines()  # otherwise DataTable shows its cached lines

    def upsert(self, row_key: str, cells: Cells) -> None:
        """Add a row at the end, or change these cells of it. Equal cells are not painted.

        Strings are text, never markup. Cells of hidden columns are stored until the column is shown.
        """
        texts = {key: Text(cell) if isinstance(cell, str) else cell for key, cell in cells.items()}
        if row_key not in self.rows:
            self._cells[row_key] = {key: text.copy() for key, text in texts.items()}
            self._add_followed(row_key)
            return
        known = self._cells.setdefault(row_key, {})
        changed = {key: text.copy() for key, text in texts.items() if key not in known or not _same(text, known[key])}
        known.update(changed)
        self._repaint(row_key, [key for key in changed if key in self._columns])

    def remove_row(self, row_key: RowKey | str) -> None:
        """Remove a row. The cursor stays on its row if that is another. Unknown rows are ignored."""
        key = str(row_key.value) if isinstance(row_key, RowKey) else row_key
        self._cells.pop(key, None)
        if key in self.rows:
            with self._cursor_stays():
                super().remove_row(key)

    def keep_rows(self, row_keys: Collection[str]) -> None:
        """Remove all other rows. Many are removed at once: DataTable takes 1 ms each in a table of 10,000."""
        wanted = set(row_keys)
        others = [key for key in self.row_keys if key not in wanted]
        if len(others) <= ONE_BY_ONE:
            for row_key in others:
                self.remove_row(row_key)
            return
        left = [key for key in self.row_keys if key in wanted]
        self._forget(others)
        with self._cursor_stays():
            super().clear()
            for row_key in left:
                self._add(row_key)

    def order(self, row_keys: Sequence[str]) -> None:
        """Put the rows into this order, which must name each of them. The cursor stays on its row."""
        if list(row_keys) == self.row_keys:
            return
        with self._cursor_stays():
            self.put_in_order(row_keys)

    def clear(self, columns: bool = False) -> Self:
        """Remove all rows, and optionally the columns; the cursor follows the run again."""
        self._cells.clear()
        if columns:
            self._columns.clear()
        self._followed, self._following = None, True
        with self._cursor_stays():
            return super().clear(columns=columns)

    @property
    def row_keys(self) -> list[str]:
        """Keys of all rows from top to bottom."""
        return [str(row.key.value) for row in self.ordered_rows]

    def _add(self, row_key: str) -> None:
        self.add_row(*self._blank.values(), key=row_key)
        self._lay_in(row_key)

    def _add_followed(self, row_key: str) -> None:
        self._add(row_key)
        if row_key == self._followed:
            self.follow(row_key)

    def _lay_in(self, row_key: str) -> None:
        """Give DataTable the cells of a row, or blank ones if they were not made yet."""
        texts, cells = self._cells.get(row_key), self._blank
        if texts is not None:
            names = {key: str(key.value) for key in self.columns}
            cells = {key: _shown(texts.get(name, _EMPTY), self._columns[name]) for key, name in names.items()}
        self.set_cells(row_key, cells)

    def _forget(self, row_keys: Iterable[str]) -> None:
        """Drop the cells of these rows."""
        for row_key in row_keys:
            if self._cells.pop(row_key, None) is not None and row_key in self.rows:
                self._lay_in(row_key)

    def _is_in_sight(self, row_key: str) -> bool:
        return 0 <= self.get_row_index(row_key) - int(self.scroll_y) < self.size.height

    # -------------------------------------------------------------- painting

    def make_cells(self, row_key: RowKey) -> None:
        """Make the cells of a row that is about to be painted and has none."""
        key = str(row_key.value)
        if key in self._cells or row_key not in self.rows or self.cells_of is None:
            return
        if len(self._cells) >= MOST_WITH_CELLS:
            self._forget([other for other in self._cells if not self._is_in_sight(other)])
        self._cells[key] = {k: Text(c) if isinstance(c, str) else c for k, c in self.cells_of(key).items()}
        self._lay_in(key)
        self.forget_row(key)

    def _repaint(self, row_key: str, column_keys: Sequence[str]) -> None:
        dirty: list[Region] = []
        self._dirty = dirty
        try:
            for key in column_keys:
                self.update_cell(row_key, key, _shown(self._cells[row_key][key], self._columns[key]))
            for key in column_keys:
                self.refresh_coordinate(self.get_cell_coordinate(row_key, key))
        finally:
            self._dirty = None
        if dirty:
            # Textual writes each region from the line's left edge: one joined region is written once.
            self.refresh(Region.from_union(dirty))

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Repaint these regions, or everything if none is given. A change of cells collects its regions first."""
        if self._dirty is not None:
            self._dirty += regions
            return self
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def render_line(self, y: int) -> Strip:
        """Return a line with neighbouring segments of equal style joined.

        DataTable marks each cell with its position for the mouse, which keeps segments apart at 38 bytes each. The
        cursor is a row, so one mark per row is enough. The header keeps its marks.
        """
        strip = super().render_line(y)
        row = y - self.header_height + int(self.scroll_y) if y >= self.header_height else -1
        if not self.is_valid_row_index(row):
            return strip
        styles = [segment.style or Style.null() for segment in strip]
        mark = Style.from_meta({"row": row, "column": 0})
        both = zip(strip, styles, strict=True)
        merged = [Segment(segment.text, style.clear_meta_and_links() + mark) for segment, style in both]
        if row == self.cursor_row and self.show_cursor and merged[0].text.startswith(" "):
            merged[0] = Segment(self._cursor_sign + merged[0].text[1:], merged[0].style)
        return Strip(merged, strip.cell_length).simplify()

    # -------------------------------------------------------------- cursor

    @property
    def highlighted(self) -> str | None:
        """Key of the row under the cursor; None in an empty table."""
        return self._row_key(self.cursor_row)

    def follow(self, row_key: str) -> None:
        """Set the row that the run is timing. The cursor moves there unless the user moved it elsewhere.

        It follows again once the user moves it to that row, or the table is cleared.
        """
        self._followed = row_key
        if self._following and row_key in self.rows:
            self._show_ahead(self.get_row_index(row_key))
            self._move_cursor(row_key)

    def after_following(self, row_key: str) -> str | None:
        """Return what `highlighted` will be after `follow` of a row."""
        return row_key if self._following and row_key in self.rows else self.highlighted

    def _show_ahead(self, row: int) -> None:
        """Scroll to a row below those in sight, and to some rows after it.

        To scroll by one row for each case writes every row in sight again: 0.8 kB a second of a run with short cases.
        """
        visible = self.size.height - self.header_height
        if visible > 0 and row >= int(self.scroll_y) + visible:
            self.scroll_to(y=row - visible + 1 + int(visible * ROWS_AHEAD), animate=False, force=True)

    def watch_cursor_coordinate(self, old_coordinate: Coordinate, new_coordinate: Coordinate) -> None:
        """Stop following the run when the user moves the cursor to another row."""
        super().watch_cursor_coordinate(old_coordinate, new_coordinate)
        if old_coordinate != new_coordinate and not self._steered:
            self._following = self._row_key(new_coordinate.row) == self._followed

    def on_resize(self) -> None:
        """Bring the cursor back into sight, which a smaller terminal or other columns may have lost."""
        self.call_after_refresh(self._show_cursor)

    def _show_cursor(self) -> None:
        if self.is_valid_row_index(self.cursor_row):
            self.move_cursor(row=self.cursor_row)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Post `RowChosen` in place of Textual's message."""
        event.stop()
        self.post_message(RowChosen(str(event.row_key.value)))

    def on_click(self, event: events.Click) -> None:
        """Select the clicked row; open it on a double click. A heading posts `HeadingClicked`."""
        event.prevent_default()  # Textual would open the row under the cursor on a single click
        row, column = (event.style.meta.get(name, -2) for name in ("row", "column"))
        if row == -1 and self.is_valid_column_index(column):
            self.post_message(HeadingClicked(str(self.ordered_columns[column].key.value)))
        elif self.is_valid_row_index(row):
            self.move_cursor(row=row)
            if event.chain == 2:
                self.action_select_cursor()

    @on(events.MouseScrollDown)
    @on(events.MouseScrollUp)
    def _look_elsewhere(self) -> None:
        """Stop following the run when the wheel scrolls, or the next case would scroll back."""
        self._following = False

    def _row_key(self, row_index: int) -> str | None:
        return str(self.ordered_rows[row_index].key.value) if self.is_valid_row_index(row_index) else None

    @contextmanager
    def _cursor_stays(self) -> Iterator[None]:
        """Keep the cursor on its row while rows move, if that row remains."""
        row_key = self.highlighted
        self._steered = True
        try:
            yield
        finally:
            self._steered = False
        if row_key is not None:
            self._move_cursor(row_key)

    def _move_cursor(self, row_key: str) -> None:
        if row_key in self.rows and row_key != self.highlighted:
            self._steered = True
            self.cursor_coordinate = Coordinate(self.get_row_index(row_key), self.cursor_column)
            self._steered = False


_EMPTY = Text()


def _shown(text: Text, column: Column) -> Text:
    shown = text.copy()
    shown.justify, shown.overflow, shown.no_wrap, shown.end = column.justify, "ellipsis", True, ""
    return shown


def _same(one: Text, other: Text) -> bool:
    return one == other and one.style == other.style  # Text's own == leaves the style out
