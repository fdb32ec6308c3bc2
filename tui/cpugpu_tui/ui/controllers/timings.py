"""Highlight, order, what-if and axes of the timings and their chart."""

from __future__ import annotations

from cpugpu_tui.ui.app_state import Order
from cpugpu_tui.ui.controllers.app_port import Port, main_screen, toggle
from cpugpu_tui.ui.live.messages import HeadingClicked, RowChosen


class Timings:
    """Changes how the rows are shown."""

    def __init__(self, port: Port) -> None:
        self._port = port

    def highlight(self, row_key: str | None) -> None:
        """Make a row the subject of chart, answer and detail; None in an empty table."""
        if row_key != self._port.state.cursor:
            self._port.change(cursor=row_key)

    def open_row(self, message: RowChosen) -> None:
        """Show the detail of a row."""
        from cpugpu_tui.ui.screens.detail import DetailScreen

        self._port.push_screen(DetailScreen(self._port.state, message.row_key, self._port.glyphs))

    def toggle_chart(self) -> None:
        """Open or close the chart page."""
        from cpugpu_tui.ui.chart import ChartScreen

        toggle(self._port, ChartScreen, lambda: ChartScreen(self._port.state, self._port.glyphs))

    def what_if(self) -> None:
        """Switch to the next what-if."""
        from cpugpu_tui.ui.panes.run_answer import next_world

        state = self._port.state
        self._port.change(what_if=next_world(state.run, state.what_if))

    def sort(self) -> None:
        """Sort by the next column."""
        from cpugpu_tui.ui.panes.timing_order import next_order

        self._port.change(order=next_order(self._port.state.order))

    def sort_by(self, message: HeadingClicked) -> None:
        """Sort by the column that was clicked; clicked again, reverse."""
        from cpugpu_tui.ui.panes.timing_order import BY_COLUMN

        order, name = self._port.state.order, BY_COLUMN.get(message.column_key)
        if name is None:
            self._port.say("The rows cannot be sorted by this column.")
        else:
            self._port.change(order=order.reverse() if order.by == name else Order(name))

    def reverse(self) -> None:
        """Reverse the sort order."""
        self._port.change(order=self._port.state.order.reverse())

    def toggle_axis(self, axis: str) -> None:
        """Switch an axis between linear and logarithmic: `linear_sizes` or `linear_times`."""
        self._port.change(**{axis: not getattr(self._port.state, axis)})

    def move(self, step: int) -> None:
        """Highlight the next or previous row while the chart covers the timings."""
        main = main_screen(self._port)
        if main is not None:
            main.move_cursor(step)
