"""The chart as a widget: drawn anew only when something that it shows has changed."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from textual.geometry import Size

from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.chart import drawing as chart
from cpugpu_tui.ui.chart.drawing import ChartOptions, chart_lines
from cpugpu_tui.ui.chart.what_if import marked_row, shown_row
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.lines import StatePane, wrapped
from cpugpu_tui.ui.roles import Spans

NOTHING_YET = "Both times over size, and where the GPU takes the lead: the chart begins with the first finished row."


class ChartPane(StatePane):
    """Curves of the sweep that holds the highlighted row.

    The state changes with every gap of a run and every telemetry sweep; this is drawn when a case has finished, and
    when a person wants to see it otherwise.
    """

    def __init__(self, glyphs: Glyphs, state: AppState, *, alone: bool = False, id: str | None = None) -> None:  # noqa: A002
        """Draw with these glyphs.

        One that is alone on its screen, because a key asked for it, answers at once and loads plotext meanwhile; and it
        says in words what the answer says where that is in sight.
        """
        super().__init__(glyphs, state, id=id)
        self._alone = alone
        self._loading = False
        self._moment: Hashable = None
        self._key: Hashable = None
        self._kept: list[Spans] = []

    def show_state(self, state: AppState) -> None:
        """Show a state where there is room for the chart; load what it takes when a run begins."""
        self._state = state
        if not self.display:
            return
        if state.situation.live:
            self._load()
        super().show_state(state)

    def draw(self, state: AppState, size: Size) -> Sequence[Spans]:
        """Return the chart; the very lines of last time where nothing of it has changed."""
        run = state.run
        highlighted = run.rows.get(state.cursor or "")
        look = (state.what_if, state.linear_sizes, state.linear_times, size, chart.is_loaded() or not self._alone)
        name = run.run.run_id if run.run is not None else ""
        # The first key is cheap to compare, the second says what is really shown: the cursor moves on to a row that
        # has no times yet, and the chart stays.
        moment = (name, run.settled, state.cursor, highlighted.status if highlighted is not None else "", look)
        if moment == self._moment:
            return self._kept
        self._moment = moment
        row = shown_row(run, state.cursor)
        marked = marked_row(run, row.case.sweep, state.cursor) if row is not None else None
        key = (name, run.settled, row and row.case.sweep, marked and marked.case.key, look)
        if key != self._key:
            self._key = key
            self._kept = self._drawn(state, size)
        return self._kept

    def _drawn(self, state: AppState, size: Size) -> list[Spans]:
        run = state.run
        row = shown_row(run, state.cursor)
        if row is None or not run.settled:
            return wrapped(NOTHING_YET, size.width, "muted")
        if self._alone and not chart.is_loaded():
            self._load()
            return wrapped("Loading the chart.", size.width, "muted")
        options = ChartOptions(state.what_if, state.cursor, state.linear_sizes, state.linear_times, self._alone)
        return chart_lines(run, row.case.sweep, size.width, size.height, options, self.glyphs)

    def _load(self) -> None:
        if self._loading or chart.is_loaded():
            return
        self._loading = True

        def load() -> None:
            chart.load()
            self.app.call_from_thread(self._show_again)

        self.run_worker(load, thread=True, group="chart", exit_on_error=False)

    def _show_again(self) -> None:
        if self.is_attached:
            self.show_state(self._state)
