"""The part of the app that answers what a person asks of the rows and of their chart."""

from __future__ import annotations

from textual import on
from textual.widgets import DataTable

from cpugpu_tui.ui.chart.what_if import next_world
from cpugpu_tui.ui.controllers.preparing import Preparing
from cpugpu_tui.ui.glyphs import UNICODE, Glyphs
from cpugpu_tui.ui.panes.timing_order import next_order, reverse_order
from cpugpu_tui.ui.panes.timing_table import TimingTable
from cpugpu_tui.ui.screens.main import MainScreen


class Charting(Preparing):
    """Knows the highlighted row, the order of the rows, the world asked for, and the chart's axes."""

    _glyphs: Glyphs = UNICODE

    @on(DataTable.RowHighlighted, "#timing-table")
    def _highlight(self, message: DataTable.RowHighlighted) -> None:
        key = str(message.row_key.value) if message.row_key is not None else None  # an empty table highlights nothing
        if key != self.state.cursor:
            self.change(cursor=key)

    def action_chart(self) -> None:
        """Show the chart on the whole screen; pressed again, go back."""
        from cpugpu_tui.ui.screens.chart import ChartScreen

        if isinstance(self.screen, ChartScreen):
            self.pop_screen()
        else:
            self.push_screen(ChartScreen(self.state, self._glyphs))

    def action_what_if(self) -> None:
        """Show the next world."""
        self.change(what_if=next_world(self.state.run, self.state.what_if))

    def action_sort(self) -> None:
        """Sort the rows by the next measure."""
        self.change(order=next_order(self.state.order))

    def action_reverse(self) -> None:
        """Turn the order of the rows round."""
        self.change(order=reverse_order(self.state.order))

    def action_linear(self, axis: str) -> None:
        """Make an axis of the chart even or logarithmic: `linear_sizes` or `linear_times`."""
        self.change(**{axis: not getattr(self.state, axis)})

    def action_move_highlight(self, step: int) -> None:
        """Highlight the next row of the timings, or the one before, while they are behind the chart."""
        table = next(screen for screen in self.screen_stack if isinstance(screen, MainScreen)).query_one(TimingTable)
        if step > 0:
            table.action_cursor_down()
        else:
            table.action_cursor_up()
