"""The chart of both times over size: a part of the timings pane and a page. Redrawn only if what it shows changes."""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.geometry import Size

from cpugpu_tui.report.report import is_column, sweep_in
from cpugpu_tui.state.row import Row
from cpugpu_tui.state.state import RunState
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.chart.drawing import LEAST_CELLS, chart_lines
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.lines import Lines, Spans, StatePane, wrapped
from cpugpu_tui.ui.panes.run_answer import marked_row, shown_row
from cpugpu_tui.ui.panes.status import status_line
from cpugpu_tui.ui.screens.page import Page

NOTHING_YET = "The chart appears with the first finished row. It shows both times over size, and the crossover."

ONE_SIZE = "No curve: this run times {} at one size. Select a row of another workload to see its curves."


MANY_POINTS, LEAST_S = 4, 4.0
"""From so many points on, further ones wait so long: each moves the sizes and with them the curves, 400 bytes."""


def has_chart(run: RunState) -> bool:
    """Whether a run has, or may still get, rows of several sizes of one workload."""
    wanted = ("ok",) if run.finished is not None else ("ok", "active", "pending")
    return any(
        len({row.case.size for row in rows if row.status in wanted}) > 1
        for sweep, rows in run.sweeps.items() if not is_column(run, sweep)
    )  # fmt: skip


class ChartPane(StatePane):
    """Curves of the sweep that holds the highlighted row.

    The state changes with every gap of a run and every telemetry reading. The chart is redrawn only when a case has
    finished, or when a key changes how it looks.
    """

    def __init__(self, glyphs: Glyphs, state: AppState, *, alone: bool = False, id: str | None = None) -> None:  # noqa: A002
        """Make a chart; `alone` for one that fills its own screen.

        Such a chart also states the crossover in words, because the answer pane is out of sight.
        """
        super().__init__(glyphs, state, id=id)
        self._alone = alone
        self._key: Hashable = None
        self._cached: list[Spans] = []
        self._drawn_as: Hashable = None
        """Run, look, bracket, sweep and chosen row of the chart that is shown."""
        self._points = 0
        """Cases that had finished then."""
        self._drawn_s = 0.0

    def show_state(self, state: AppState) -> None:
        """Show a state if the chart is visible."""
        self._state = state
        if not self.display:
            return
        super().show_state(state)

    def draw(self, state: AppState, size: Size) -> Sequence[Spans]:
        """Return the chart, from the cache if nothing that it shows has changed."""
        if not self._alone and self._cached and size.height < LEAST_CELLS[1] + 2:
            return self._cached  # the answer has taken a line, and the pane shares its lines anew after this paint
        run = state.run
        look = (state.what_if, state.linear_sizes, state.linear_times, size)
        name = run.run.run_id if run.run is not None else ""
        row = shown_row(run, state.cursor)
        # The bracket is that of the answer, also while rows are in progress.
        between = self._between(state, row) if row is not None and run.settled and not self._alone else None
        marked = marked_row(run, row.case.sweep, state.cursor) if row is not None else None
        # The marked row is the selected one, or the largest because that under the cursor has not finished.
        chosen = row.case.key if row is not None and row is marked else ""
        key = (name, run.settled, row and row.case.sweep, marked and marked.case.key, chosen, look, between)
        if key == self._key:
            return self._cached
        now_s = time.monotonic()
        shown = (name, look, between or None, row and row.case.sweep, chosen)
        is_growing = state.situation.live and MANY_POINTS <= self._points < run.settled
        if is_growing and now_s < self._drawn_s + LEAST_S and self._drawn_as == shown:
            return self._cached
        self._key = key
        self._drawn_as, self._points, self._drawn_s = shown, run.settled, now_s
        self._cached = self._drawn(state, size)
        return self._cached

    def _between(self, state: AppState, row: Row) -> tuple[tuple[int, int], ...]:
        """Return the brackets, which narrow while rows are in progress; the answer pane shows them at once."""
        changes = sweep_in(state.run, row.case.sweep).under(state.what_if).changes
        return tuple((change.low, change.high) for change in changes)

    def _drawn(self, state: AppState, size: Size) -> list[Spans]:
        run = state.run
        row = shown_row(run, state.cursor)
        if row is None or not run.settled:
            return wrapped(NOTHING_YET, size.width, "muted")
        if not self._alone and len({other.case.size for other in run.sweeps[row.case.sweep]}) < 2:
            return wrapped(ONE_SIZE.format(row.case.workload), size.width, "muted")
        return chart_lines(state, row.case.sweep, size.width, size.height, self.glyphs, in_words=self._alone)


class ChartScreen(Page, inherit_bindings=False):
    """Fills the screen with the chart; nothing scrolls."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("X", "app.do('timings.toggle_axis', 'linear_sizes')"), ("Y", "app.do('timings.toggle_axis', 'linear_times')"),
        ("j,down,right", "app.do('timings.move', 1)"), ("k,up,left", "app.do('timings.move', -1)"),
    ]  # fmt: skip
    AUTO_FOCUS = ""
    TOPIC = "chart"
    LEAVE_KEY = "{chart}"

    def compose(self) -> ComposeResult:
        """Yield status line, chart and keys."""
        yield Lines(id="page-title")
        yield ChartPane(self.glyphs, self.state, alone=True, id="chart")
        yield Lines(id="page-keys", classes="keys")

    def page_title(self) -> Spans:
        """Return the status line, because the run continues."""
        return status_line(self.state, max(self.size.width - 2, 0), self.glyphs)

    def page_tags(self) -> Spans:
        """Return nothing: the status line has them."""
        return ()

    def draw_body(self) -> None:
        """Draw the chart if it has changed."""
        self.query_one(ChartPane).show_state(self.state)

    def page_keys(self) -> Sequence[tuple[str, str]]:
        """Return the keys of the chart, after those of a demo that has ended."""
        state = self.state
        sizes, times = (("log" if on else "linear") for on in (state.linear_sizes, state.linear_times))
        demo = (("{run}", "play again"), ("{history}", "runs")) if state.situation.may_play else ()
        what_if = (("{what-if}", "next what-if"),) if state.situation.ran else ()
        return (*demo, ("{chart}", "back"), *what_if, ("j k", "row"), ("X", f"{sizes} sizes"), ("Y", f"{times} times"))
