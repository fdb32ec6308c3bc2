"""A table of rows whose cells change often, painted cell by cell.

Textual's `DataTable.update_cell` repaints the whole table: 9.6 kB to the terminal for one row of 20 at 120×40. This one
writes 0.16 kB, the cells that differ and what stands left of them. It knows rows, columns and cells, nothing of runs.

Rows can be had by their keys alone: their cells are made when they come into sight. Cells of 10 000 rows took 250 MB.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.coordinate import Coordinate
from textual.geometry import Region
from textual.strip import Strip
from textual.widgets import DataTable
from textual.widgets.data_table import ColumnKey, RowKey

from cpugpu_tui.ui.live.messages import Report
from cpugpu_tui.ui.terminal.textual_internals import PrivateTable

Cells = Mapping[str, str | Text]
"""Column key → what it says."""

ONE_BY_ONE = 20
"""Rows that are removed one by one."""
KEPT = 300
"""Rows that keep their cells when they are out of sight again: more than any terminal shows."""


@dataclass(frozen=True)
class Column:
    """A column of fixed width."""

    key: str
    """Names the column in `TimingTable.upsert`."""
    label: str
    width: int
    """In cells, without the cell of padding on either side; longer text ends in an ellipsis."""
    justify: Literal["left", "center", "right"] = "left"


class TimingTable(PrivateTable):
    """Rows by key, a cursor that follows the run until the person moves it.

    `DataTable.RowHighlighted` says where the cursor is, `RowChosen` that the person wants to see more of that row.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", "Down", id="table.down", show=False),
        Binding("k", "cursor_up", "Up", id="table.up", show=False),
        Binding("home", "scroll_top", "First row", id="table.first", show=False),
        Binding("G,end", "scroll_bottom", "Last row", id="table.last", show=False),
    ]

    DEFAULT_CSS = """
    TimingTable {
        background: $background;
        &:focus {
            background-tint: transparent;
            & > .datatable--header {
                background-tint: transparent;
            }
        }
        & > .datatable--header {
            background: $background;
            color: $foreground-muted;
        }
        &:ansi > .datatable--header {
            background: ansi_default;
            color: ansi_default;
        }
    }
    """

    @dataclass
    class RowChosen(Report):
        """The person pressed enter on a row, or clicked the row under the cursor."""

        row_key: str
        """The key given to `upsert`."""

    _dirty: list[Region] | None = None
    _steered = False

    def __init__(self, cursor_sign: str = " ", *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        """Make a table without columns; give it some with `set_columns`.

        `cursor_sign` stands in the padding of the row under the cursor, which no colour marks in a plain copy.
        """
        super().__init__(cursor_type="row", show_row_labels=False, id=id, classes=classes)
        self._cursor_sign = cursor_sign
        self.cells_of: Callable[[str], Cells] | None = None
        """Asked for the cells of rows that are known by `touch`."""
        self._columns: dict[str, Column] = {}
        self._cells: dict[str, dict[str, Text]] = {}
        """Row key → cells; not of rows that were never in sight, or have changed since."""
        self._blank: dict[ColumnKey, Text] = {}
        """The cells of all these."""
        self._followed: str | None = None
        self._following = True

    # -------------------------------------------------------------- content

    def set_columns(self, columns: Sequence[Column]) -> None:
        """Show these columns, in this order. Rows, their order and the cursor stay; so do cells of hidden columns."""
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
        """Add a row at the end, or note that its cells may have changed; `cells_of` is asked once it is in sight."""
        if row_key not in self.rows:
            self._add_followed(row_key)
        elif row_key in self._cells and self._is_in_sight(row_key) and self.cells_of is not None:
            self.upsert(row_key, self.cells_of(row_key))
        else:
            self._forget([row_key])
            self.forget_lines()  # or DataTable would show what it rendered before

    def upsert(self, row_key: str, cells: Cells) -> None:
        """Add a row at the end, or change the cells given, by column key; cells equal to what is shown cost nothing.

        Strings are text, never markup. Cells of columns that are not shown are kept for when they are.
        """
        texts = {key: Text(cell) if isinstance(cell, str) else cell.copy() for key, cell in cells.items()}
        if row_key not in self.rows:
            self._cells[row_key] = texts
            self._add_followed(row_key)
            return
        known = self._cells.setdefault(row_key, {})
        changed = {key: text for key, text in texts.items() if key not in known or not _same(text, known[key])}
        known.update(changed)
        self._repaint(row_key, [key for key in changed if key in self._columns])

    def remove_row(self, row_key: RowKey | str) -> None:
        """Remove a row; the cursor stays on its row if that is another. An unknown row is no error."""
        key = str(row_key.value) if isinstance(row_key, RowKey) else row_key
        self._cells.pop(key, None)
        if key in self.rows:
            with self._cursor_stays():
                super().remove_row(key)

    def keep_rows(self, row_keys: Collection[str]) -> None:
        """Remove all other rows. DataTable takes 1 ms a row for it where there are 10 000, so many go at once."""
        wanted = set(row_keys)
        gone = [key for key in self.row_keys if key not in wanted]
        if len(gone) <= ONE_BY_ONE:
            for row_key in gone:
                self.remove_row(row_key)
            return
        left = [key for key in self.row_keys if key in wanted]
        self._forget(gone)
        with self._cursor_stays():
            super().clear()
            for row_key in left:
                self._add(row_key)

    def order(self, row_keys: Sequence[str]) -> None:
        """Put the rows into this order, which must name every row; the cursor stays on its row."""
        if list(row_keys) == self.row_keys:
            return
        with self._cursor_stays():
            self.put_in_order(row_keys)

    def clear(self, columns: bool = False) -> Self:
        """Remove all rows, and the columns if asked to; the cursor follows the run again."""
        self._cells.clear()
        if columns:
            self._columns.clear()
        self._followed, self._following = None, True
        with self._cursor_stays():
            return super().clear(columns=columns)

    @property
    def row_keys(self) -> list[str]:
        """Keys of all rows, top row first."""
        return [str(row.key.value) for row in self.ordered_rows]

    def _add(self, row_key: str) -> None:
        self.add_row(*self._blank.values(), key=row_key)
        self._lay_in(row_key)

    def _add_followed(self, row_key: str) -> None:
        self._add(row_key)
        if row_key == self._followed:
            self.follow(row_key)

    def _lay_in(self, row_key: str) -> None:
        """Give DataTable the cells of a row, or those that stand for cells that nobody has made."""
        texts, cells = self._cells.get(row_key), self._blank
        if texts is not None:
            cells = {
                key: _shown(texts.get(str(key.value), _EMPTY), self._columns[str(key.value)]) for key in self.columns
            }
        self.set_cells(row_key, cells)

    def _forget(self, row_keys: Iterable[str]) -> None:
        """Let the cells of rows go."""
        for row_key in row_keys:
            if self._cells.pop(row_key, None) is not None and row_key in self.rows:
                self._lay_in(row_key)

    def _is_in_sight(self, row_key: str) -> bool:
        return 0 <= self.get_row_index(row_key) - int(self.scroll_y) < self.size.height

    def _make(self, row_key: str) -> None:
        """Make the cells of a row that is about to be painted."""
        if self.cells_of is None:
            return
        if len(self._cells) >= KEPT:
            self._forget([key for key in self._cells if not self._is_in_sight(key)])
        self._cells[row_key] = {k: Text(c) if isinstance(c, str) else c for k, c in self.cells_of(row_key).items()}
        self._lay_in(row_key)
        self.forget_row(row_key)

    # -------------------------------------------------------------- painting

    def make_cells(self, row_key: RowKey) -> None:
        """Make the cells of a row that nobody has seen."""
        key = str(row_key.value)
        if key not in self._cells and row_key in self.rows:
            self._make(key)

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
            # Textual writes a line from its left edge to the end of what changed: one region is written once.
            self.refresh(Region.from_union(dirty))

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Repaint these regions, or everything if none is given; a change of cells gathers its regions first."""
        if self._dirty is not None:
            self._dirty += regions
            return self
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def render_line(self, y: int) -> Strip:
        """Return a line whose neighbours of equal style are one segment.

        DataTable marks each cell with its place for the mouse, which keeps them apart at 38 bytes each. The cursor is a
        row, so one mark per row is enough; the header keeps its own.
        """
        strip = super().render_line(y)
        styles = [segment.style or Style.null() for segment in strip]
        row = styles[0].meta.get("row", -1) if styles else -1
        if row < 0:
            return strip
        mark = Style.from_meta({"row": row, "column": 0})
        merged = [
            Segment(segment.text, style.clear_meta_and_links() + mark)
            for segment, style in zip(strip, styles, strict=True)
        ]
        if row == self.cursor_row and self.show_cursor and merged[0].text.startswith(" "):
            merged[0] = Segment(self._cursor_sign + merged[0].text[1:], merged[0].style)
        return Strip(merged, strip.cell_length).simplify()

    # -------------------------------------------------------------- cursor

    @property
    def highlighted(self) -> str | None:
        """Key of the row under the cursor, None in an empty table."""
        return self._row_key(self.cursor_row)

    def follow(self, row_key: str) -> None:
        """Say which row the run is at: the cursor goes there, unless the person moved it elsewhere.

        It follows again once the person puts it on the row the run is at, or the table is cleared.
        """
        self._followed = row_key
        if self._following:
            self._move_cursor(row_key)

    def watch_cursor_coordinate(self, old_coordinate: Coordinate, new_coordinate: Coordinate) -> None:
        """Notice that the person moved the cursor."""
        super().watch_cursor_coordinate(old_coordinate, new_coordinate)
        if old_coordinate != new_coordinate and not self._steered:
            self._following = self._row_key(new_coordinate.row) == self._followed

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Translate Textual's message into ours."""
        event.stop()
        self.post_message(self.RowChosen(str(event.row_key.value)))

    def _row_key(self, row_index: int) -> str | None:
        return str(self.ordered_rows[row_index].key.value) if self.is_valid_row_index(row_index) else None

    @contextmanager
    def _cursor_stays(self) -> Iterator[None]:
        """Let rows change their places; afterwards the cursor is on the row it was on, if there still is one."""
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
