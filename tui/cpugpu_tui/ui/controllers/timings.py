"""What a person asks of the rows and of their chart: highlight, order, what-if, axes."""

from __future__ import annotations

from cpugpu_tui.ui.chart.what_if import next_world
from cpugpu_tui.ui.controllers.app_port import Port, main_screen, toggle
from cpugpu_tui.ui.panes.timing_order import next_order, reverse_order
from cpugpu_tui.ui.panes.timing_table import TimingTable


class Timings:
    """Looks at the same rows in other ways."""

    def __init__(self, port: Port) -> None:
        self._port = port

    def highlight(self, row_key: str | None) -> None:
        """Take the row under the cursor as what chart, answer and detail are about; None in an empty table."""
        if row_key != self._port.state.cursor:
            self._port.change(cursor=row_key)

    def open_row(self, message: TimingTable.RowChosen) -> None:
        """Show the detail of a row."""
        from cpugpu_tui.ui.screens.detail.screen import DetailScreen

        self._port.push_screen(DetailScreen(self._port.state, message.row_key, self._port.glyphs))

    def toggle_chart(self) -> None:
        """Show the chart on the whole screen; pressed again, go back."""
        from cpugpu_tui.ui.screens.chart import ChartScreen

        toggle(self._port, ChartScreen, lambda: ChartScreen(self._port.state, self._port.glyphs))

    def what_if(self) -> None:
        """Show the next world."""
        state = self._port.state
        self._port.change(what_if=next_world(state.run, state.what_if))

    def sort(self) -> None:
        """Sort the rows by the next measure."""
        self._port.change(order=next_order(self._port.state.order))

    def reverse(self) -> None:
        """Turn the order of the rows round."""
        self._port.change(order=reverse_order(self._port.state.order))

    def toggle_axis(self, axis: str) -> None:
        """Make an axis of the chart even or logarithmic: `linear_sizes` or `linear_times`."""
        self._port.change(**{axis: not getattr(self._port.state, axis)})

    def move(self, step: int) -> None:
        """Highlight the next row of the timings, or the one before, while they are behind the chart."""
        main = main_screen(self._port)
        if main is None:
            return
        table = main.query_one(TimingTable)
        if step > 0:
            table.action_cursor_down()
        else:
            table.action_cursor_up()
