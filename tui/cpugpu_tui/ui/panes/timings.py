"""The timing table with its filter: one row per case, filling while samples arrive."""

from __future__ import annotations

from typing import ClassVar, Literal

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Input

from cpugpu_tui.analysis.quantities import Unit
from cpugpu_tui.runs.state import RunState
from cpugpu_tui.ui import rows
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.lines import Lines
from cpugpu_tui.ui.panes.timing_table import Column, TimingTable
from cpugpu_tui.ui.picture import Picture
from cpugpu_tui.ui.roles import ROLE_CLASSES, rich_text

PADDING = 2
"""Cells of padding per column."""
MANY_COLUMNS_WIDTH = 110
"""From this width on there is room for kernel time, cold start and the publication's clock."""

FEW = ((rows.CASE, 15), (rows.CPU, 8), (rows.GPU, 8), (rows.SPEEDUP, 8), (rows.PLUS_MINUS, 5), (rows.VERDICT, 11))
MANY = (
    (rows.CASE, 16), (rows.CPU, 8), (rows.GPU, 8), (rows.SPEEDUP, 8), (rows.PLUS_MINUS, 5), (rows.VERDICT, 12),
    (rows.KERNEL, 9), (rows.COLD, 8), (rows.WRITTEN, 10),
)  # fmt: skip
"""Columns and widths; the sparkline takes what is left, the case column what is left of that."""
LEAST_ROUNDS, MOST_ROUNDS = 9, 25


def columns(width: int, unit: Unit, glyphs: Glyphs) -> list[Column]:
    """Return the columns that fill `width` cells exactly; the sparkline is never dropped."""
    chosen = dict(MANY if width >= MANY_COLUMNS_WIDTH else FEW)
    room = width - sum(chosen.values()) - PADDING * (len(chosen) + 1)
    sparkline = min(max(room, LEAST_ROUNDS), MOST_ROUNDS)
    chosen[rows.CASE] += max(0, room - sparkline)
    name = unit.name.replace("u", glyphs.micro)
    labels = {
        rows.CASE: "case", rows.CPU: f"CPU {name}", rows.GPU: f"GPU {name}", rows.SPEEDUP: "speed-up",
        rows.PLUS_MINUS: f"{glyphs.plus_minus}%", rows.VERDICT: "faster", rows.KERNEL: f"kernel {name}",
        rows.COLD: "cold ms", rows.WRITTEN: "as written",
        rows.ROUNDS: "rounds CPU, GPU" if sparkline >= 15 else "rounds",
    }  # fmt: skip
    left = {rows.CASE, rows.VERDICT, rows.ROUNDS}
    sides: dict[bool, Literal["left", "right"]] = {True: "left", False: "right"}
    return [
        Column(key, labels[key], cells, sides[key in left])
        for key, cells in (*chosen.items(), (rows.ROUNDS, sparkline))
    ]


class TimingsPane(Vertical):
    """Shows the rows of a run that the filter lets through."""

    COMPONENT_CLASSES: ClassVar[set[str]] = ROLE_CLASSES

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002
        """Draw with these glyphs."""
        super().__init__(id=id)
        self._glyphs = glyphs
        self._run = RunState()
        self._shown_run: RunState | None = None
        self._look: rows.Look | None = None
        self._wanted = ""

    def compose(self) -> ComposeResult:
        """Yield the table, and below it the filter, which is hidden until asked for."""
        table = TimingTable(id="timing-table")
        table.cursor_foreground_priority = "renderable"  # CPU and GPU keep their colours under the cursor
        yield table
        with Horizontal(id="filter-line") as line:
            line.display = False
            sign = Lines(id="filter-sign")
            sign.show([(("/", "key"),)])
            yield sign
            field = Input(
                placeholder="a name, a size, a verdict; enter keeps, esc shows all", compact=True, id="filter"
            )
            field.cursor_blink = False  # a blink is a paint of its own, and would come beside a timed block
            yield field

    @property
    def table(self) -> TimingTable:
        """The table."""
        return self.query_one(TimingTable)

    @property
    def filtering(self) -> bool:
        """Whether the filter is open or hides rows."""
        return bool(self.query_one("#filter-line").display or self._wanted)

    def show_picture(self, picture: Picture) -> None:
        """Show the rows of the picture's run; cells that say the same as before are not painted."""
        before, self._run = self._run, picture.run
        if _run_id(before) != _run_id(picture.run):
            self.table.clear()
            self._shown_run = None
        self._show_rows()
        current = picture.run.current
        if current is not None and current.case:
            self.table.follow(current.case)

    def on_resize(self) -> None:
        """Lay the columns out for the new width."""
        self._show_rows()

    def restyle(self) -> None:
        """Colour every cell again, after the theme has changed."""
        self._shown_run = None
        self._show_rows()

    def _show_rows(self) -> None:
        table, run = self.table, self._run
        width = self.size.width - 1  # the scrollbar's
        if width <= 0:
            return
        look = rows.look_of(run, self._glyphs, LEAST_ROUNDS)
        laid_out = columns(width, look.unit, self._glyphs)
        table.set_columns(laid_out)
        look = rows.look_of(run, self._glyphs, laid_out[-1].width)
        shown = rows.shown_keys(run.rows, self._wanted, look.varying)
        known = set(table.row_keys)
        for key in known - set(shown):
            table.remove_row(key)
        before = self._shown_run.rows if self._shown_run is not None and self._look == look else {}
        for key in shown:
            # Rows are immutable: the very same object has the very same cells.
            if key not in known or before.get(key) is not run.rows[key]:
                texts = {name: rich_text(self, spans) for name, spans in rows.cells(run.rows[key], look).items()}
                table.upsert(key, texts)
        table.order(shown)
        self._shown_run, self._look = run, look

    # ---------------------------------------------------------------- filter

    def open_filter(self) -> None:
        """Show the filter and let the person type."""
        self.query_one("#filter-line").display = True
        self.query_one("#filter").focus()

    def close_filter(self) -> None:
        """Show all rows again."""
        self.query_one("#filter", Input).value = ""
        self.query_one("#filter-line").display = False
        self._narrow("")
        self.table.focus()

    @on(Input.Changed, "#filter")
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self._narrow(event.value)

    @on(Input.Submitted, "#filter")
    def _kept(self, event: Input.Submitted) -> None:
        event.stop()
        self.query_one("#filter-line").display = bool(event.value)
        self.table.focus()

    def _narrow(self, wanted: str) -> None:
        self._wanted = wanted
        self._show_rows()
        total, left = len(self._run.rows), len(self.table.row_keys)
        self.border_subtitle = f"{left} of {total} rows" if wanted.strip() else ""


def _run_id(run: RunState) -> str:
    return run.run.run_id if run.run is not None else ""
