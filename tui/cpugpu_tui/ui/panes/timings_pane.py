"""The timing table with its filter and chart: one row per case, updated while samples arrive."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.markup import escape
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Input

from cpugpu_tui.model import SweepKey
from cpugpu_tui.render.columns import COLUMNS, Key
from cpugpu_tui.render.rows import is_beside, thread_columns
from cpugpu_tui.state.row import Row
from cpugpu_tui.state.state import RunState
from cpugpu_tui.ui import rows
from cpugpu_tui.ui.app_state import AppState, Order
from cpugpu_tui.ui.chart import ChartPane, has_chart
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes import timing_columns
from cpugpu_tui.ui.panes.fields import LineField
from cpugpu_tui.ui.panes.lines import Lines, rich_text
from cpugpu_tui.ui.panes.timing_table import Column, TimingTable
from cpugpu_tui.ui.rows import BARS, FASTER_THAN_PEAK, LESS_CERTAIN, NO_WINNER_MOVED, ONE_START, legend, signs_of

if TYPE_CHECKING:
    from cpugpu_tui.compare.changes import Changes

TITLE = "Timings"

LEAST_CHART = 8
"""Lines of the lowest chart: one of legend, six of curves, one of sizes."""
COMFORTABLE_CHART = 16
"""Lines from which a higher chart below the table reads no better, so that other panes may have the rest."""
LEAST_ROWS = 6
"""Rows of the table that stay in sight above a chart, where it has as many."""
CHART_SHARE = 0.4
"""Share of the pane's height that the chart gets even if the table could fill it, unless the lowest chart leaves room
for all rows: the largest size, which the answer quotes, stood out of sight below 11 others at 120x40."""


KEPT_CELLS = 1024
"""Cells kept as rich text: a live run asks for all cells in sight again whenever one of them changes."""


class TimingsPane(Vertical):
    """Shows the rows of a run that match the filter, and their chart where the terminal has room for it."""

    def __init__(self, glyphs: Glyphs, state: AppState, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._glyphs, self._state = glyphs, state
        self._run = RunState()
        self._wanted = ""
        self._title_shown = self.border_title = TITLE
        self._changes: Changes | None = None
        self._signs: dict[str, tuple[Row, frozenset[str]]] = {}
        """Row key → row and the meanings of its signs, cached for that row."""
        self._more_signs: frozenset[str] = frozenset()
        self._fewer_signs: frozenset[str] = frozenset()
        """Meanings of signs whose column is not displayed."""
        self._shown: tuple[RunState, str, Order, rows.Look, Changes | None, list[Column]] | None = None
        """The table's content: run, filter, order, look, changes and columns."""
        self._rich_text = lru_cache(KEPT_CELLS)(partial(rich_text, self))
        self._place = (0, 0)
        """Width of the chart beside the table, and lines of the table above it; 0 if it is not there."""

    def compose(self) -> ComposeResult:
        """Yield table and legend; `open_filter` adds the filter."""
        table = TimingTable(self._glyphs.cursor, id="timing-table")
        table.cursor_foreground_priority = "renderable"  # CPU and GPU keep their colours under the cursor
        with Vertical(id="rows"):
            yield table
            yield Lines(id="legend")
        yield ChartPane(self._glyphs, self._state, id="chart")

    @property
    def table(self) -> TimingTable:
        """The table."""
        return self.query_one(TimingTable)

    def show_state(self, state: AppState) -> None:
        """Show the rows of the state's run; cells that stay the same are not painted."""
        self._state = state
        before, self._run = self._run, state.run
        self._changes = state.changes if state.past is None else None
        if _run_id(before) != _run_id(state.run):
            self.table.clear()
            self.query_one("#legend").display = False
            self._shown = None
        self._show_rows()
        self._show_title()
        current = state.run.current
        if current is not None and current.case:
            self.table.follow(current.case)
        self._show_chart()

    @property
    def chart(self) -> ChartPane:
        """The chart; not displayed where there is no room."""
        return self.query_one(ChartPane)

    def on_resize(self) -> None:
        """Lay the columns out for the new width."""
        self._show_rows()
        self._show_title()
        self._show_chart()

    def restyle(self) -> None:
        """Colour every cell again, after the theme has changed."""
        # With 16 colours and NO_COLOR the cursor is reversed video: each cell would be a bar in its own colour.
        self.table.cursor_foreground_priority = "css" if self.app.native_ansi_color else "renderable"
        self._rich_text.cache_clear()
        self._shown = None
        self._show_rows()

    def _show_rows(self) -> None:
        run = self._run
        # Keys may come before the first layout. Without rows, an enter typed after opening a saved run opened nothing.
        width = self.size.width if self.size.width > 1 else self.screen.size.width if run.rows else 0
        if width <= 1:
            return
        content = (thread_columns(run), self._comparisons(), timing_columns.shape_of(run, self._glyphs))
        may_be_beside = self.screen.has_class("-wide") and self._may_have_chart()
        beside = timing_columns.width_beside(width, *content) if may_be_beside else 0
        laid_out = timing_columns.columns(width - beside - 1, *content)  # one cell is the scrollbar's
        look = rows.look_of(run, self._glyphs, laid_out[-1].width, laid_out[0].width)
        now = (self._wanted, self._state.order, look, self._changes, laid_out)
        if self._shown is not None and self._shown[0] is run and self._shown[1:] == now:
            self._arrange(beside)
            return
        self.table.set_columns(laid_out)
        is_wide = any(
            column.key == Key.CHANGE_CPU and column.width >= timing_columns.WORDS_WIDTH for column in laid_out
        )
        self.table.cells_of = partial(self._cells_of, look, is_wide)
        two_groups = laid_out[-1].label == COLUMNS[Key.ROUNDS].heading and not (look.cpu_only or look.gpu_only)
        self._more_signs = frozenset({BARS} if two_groups else ())
        keys = {column.key for column in laid_out}
        columns_of = {
            LESS_CERTAIN: Key.CPU in keys or Key.SPEEDUP not in keys,  # the small view leaves the times out
            FASTER_THAN_PEAK: Key.WRITTEN in keys,
            NO_WINNER_MOVED: Key.MOVED in keys,
            ONE_START: Key.PLUS_MINUS in keys,
        }
        self._fewer_signs = frozenset(words for words, is_shown in columns_of.items() if not is_shown)
        self._fill(run, look, width - beside - 1)
        self._shown = (run, *now)
        self._arrange(beside)
        self._show_count()

    # ---------------------------------------------------------------- chart

    def _show_chart(self) -> None:
        # The state learns the table's cursor later, where a table was filled or the cursor follows to a new row.
        self.chart.show_state(self._state._replace(cursor=self.table.highlighted))

    def _may_have_chart(self) -> bool:
        screen = self.screen
        if not screen.has_class("-tall") or screen.has_class("-narrow"):
            return False
        return has_chart(self._run)

    def _arrange(self, beside: int) -> None:
        """Put the chart beside the table, below it, or away; it gets all lines that the table leaves."""
        chart, rows_part, height = self.chart, self.query_one("#rows"), self.size.height
        least = max(LEAST_CHART, min(round(height * CHART_SHARE), height - self.lines_of_rows))
        rest = self.lines_of_rows - self.table.row_count  # header, legend, filter
        is_below = not beside and self._may_have_chart()
        is_below = is_below and height - least >= rest + min(LEAST_ROWS, self.table.row_count)
        place = (beside, min(self.lines_of_rows, height - least) if is_below else 0)
        if self._place == place:
            return
        self._place = place
        chart.display = bool(beside or is_below)
        self.styles.layout = "horizontal" if beside else "vertical"
        rows_part.styles.height = place[1] or "1fr"
        chart.styles.width = beside - 1 if beside else "1fr"
        chart.styles.margin = (0, 0, 0, 1) if beside else 0

    @property
    def wanted_lines(self) -> int:
        """Number of lines that the pane can use, without its border."""
        return self.lines_of_rows + (COMFORTABLE_CHART if has_chart(self._run) else 0)

    @property
    def lines_of_rows(self) -> int:
        """Number of lines of the table with its header, legend and filter."""
        return self.table.row_count + 1 + bool(self.query_one("#legend").display) + self.filtering

    def _comparisons(self) -> frozenset[str]:
        """Return the keys of the comparison columns that this run has: `CHANGE`, `SPREAD`."""
        changes = self._changes
        if changes is None or changes.run_id != _run_id(self._run):
            return frozenset()
        has = {Key.CHANGE: changes.base is not None, Key.SPREAD: changes.runs > 1}
        return frozenset(key for key, is_there in has.items() if is_there)

    def _fill(self, run: RunState, look: rows.Look, width: int) -> None:
        """Update the table's rows."""
        table = self.table
        shown = timing_columns.in_order(run, rows.shown_keys(run, self._wanted, look.varying), self._state.order)
        table.keep_rows(shown)
        known = set(table.row_keys)
        before = self._shown[0].rows if self._shown is not None and self._shown[3] == look else {}
        has_new_changes = self._shown is None or self._shown[4] is not self._changes
        # Rows are immutable, but their winner also depends on the other rows of their sweep.
        changed = {row.case.sweep for key, row in run.rows.items() if before.get(key) is not row}
        for key in shown:
            if has_new_changes or key not in known or run.rows[key].case.sweep in changed:
                table.touch(key)
        table.order(shown)
        self._show_legend(run, shown, changed, width)

    def _show_legend(self, run: RunState, shown: Sequence[str], changed: Collection[SweepKey], width: int) -> None:
        """Explain the signs of the rows in a line, which is hidden if there are none."""
        known = self._signs
        self._signs = {}
        for key in shown:
            row, before = run.rows[key], known.get(key)
            is_same = before is not None and before[0] is row and row.case.sweep not in changed
            self._signs[key] = before if is_same and before is not None else (row, signs_of(run, row))
        signs = frozenset[str]().union(*(found for _, found in self._signs.values())) - self._fewer_signs
        line = self.query_one("#legend", Lines)
        # It stays during a run: the `?` of a row's first rounds comes and goes, and each time all lines would move.
        if signs or run.finished is not None or not line.display:
            line.show_any([legend(signs | self._more_signs, width, self._state.keymap)] if signs else [])

    def _cells_of(self, look: rows.Look, wide: bool, row_key: str) -> Mapping[str, Text]:
        """Return the cells of a row as rich text."""
        run = self._run
        row = run.rows[row_key]
        cells = rows.cells(row, look, run)
        if self._changes is not None:
            from cpugpu_tui.ui.panes import change_cells

            cells |= change_cells.cells(self._changes, row, run, self._glyphs, wide=wide)
        return {name: self._rich_text(spans) for name, spans in cells.items()}

    def _show_title(self) -> None:
        """Show sort order and comparison in the title, which every layout has."""
        title = " ".join([TITLE, timing_columns.order_text(self._state.order)]).rstrip()
        if len(self._run.gpus) > 1 and not rows.gpu_only(self._run):
            title += f"[not reverse not bold] {self._glyphs.dot} speedup of {self._run.gpus[0].name}[/]"
        if self._changes is not None and self._changes.run_id == _run_id(self._run):
            from cpugpu_tui.ui.panes.change_cells import title_parts

            has_change = self._shown is None or any(column.key in timing_columns.CHANGES for column in self._shown[5])
            parts = title_parts(self._changes, self._run, alone=self._state.parent is not None, has_change=has_change)
            compared = [f" {self._glyphs.dot} {part}" for part in parts]
            while compared and sum(map(cell_len, (Text.from_markup(title).plain, *compared))) > self.size.width - 2:
                compared.pop()
            title += f"[not reverse not bold]{escape(''.join(compared))}[/]" if compared else ""
        # Setting a title repaints the whole pane, even if it is the same.
        if self._title_shown != title:
            self._title_shown = self.border_title = title

    # ---------------------------------------------------------------- filter

    @property
    def filtering(self) -> bool:
        """Whether the filter is open."""
        return bool(self.query("#filter-line"))

    async def open_filter(self) -> None:
        """Show the filter and focus it."""
        if not self.filtering:
            sign = Lines(id="filter-sign")
            sign.show([(("/", "key"),)])
            field = LineField(placeholder="name, size or verdict", id="filter", select_on_focus=False)
            await self.query_one("#rows").mount(Horizontal(sign, field, Lines(id="filter-count"), id="filter-line"))
        self.query_one("#filter").focus()

    def close_filter(self) -> None:
        """Show all rows again."""
        self.table.focus()
        self.query("#filter-line").remove()
        self._narrow("")

    @on(Input.Changed, "#filter")
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self._narrow(event.value)

    @on(Input.Submitted, "#filter")
    def _kept(self, event: Input.Submitted) -> None:
        event.stop()
        if event.value.strip():
            self.table.focus()
        else:
            self.close_filter()

    def _narrow(self, wanted: str) -> None:
        self._wanted = wanted
        self._show_rows()

    def _show_count(self) -> None:
        """Show the number of matching rows beside the filter, so that an empty table does not seem broken."""
        for count in self.query("#filter-count").results(Lines):
            total = sum(not is_beside(self._run, row) for row in self._run.rows.values())
            text = f"{len(self.table.row_keys)} of {total} rows"
            count.show([((text, "muted"),)] if self._wanted.strip() else [()])


def _run_id(run: RunState) -> str:
    return run.run.run_id if run.run is not None else ""
