"""The chart on the whole screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.chart import ChartPane
from cpugpu_tui.ui.panes.lines import Lines, Spans
from cpugpu_tui.ui.panes.status import status_line
from cpugpu_tui.ui.screens.page import Page


class ChartScreen(Page, inherit_bindings=False):
    """Fills the screen with the chart; nothing scrolls."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("X", "app.do('timings.toggle_axis', 'linear_sizes')", show=False),
        Binding("Y", "app.do('timings.toggle_axis', 'linear_times')", show=False),
        Binding("j,down,right", "app.do('timings.move', 1)", show=False),
        Binding("k,up,left", "app.do('timings.move', -1)", show=False),
    ]
    AUTO_FOCUS = ""
    TOPIC = "chart"

    def __init__(self, state: AppState, glyphs: Glyphs) -> None:
        super().__init__(state)
        self._glyphs = glyphs

    def compose(self) -> ComposeResult:
        """Yield status line, chart and keys."""
        yield Lines(id="page-title")
        yield ChartPane(self._glyphs, self.state, alone=True, id="chart")
        yield Lines(id="page-keys")

    def page_title(self) -> Spans:
        """Return the status line, because the run continues."""
        return status_line(self.state, max(self.size.width - 2, 0), self._glyphs)

    def page_lines(self, width: int) -> Sequence[Spans]:
        """Return no lines: the chart is a widget."""
        del width
        return ()

    def draw(self) -> None:
        """Write title, keys and changed lines of the chart."""
        self.query_one("#page-title", Lines).show([self.page_title()])
        self.query_one(ChartPane).show_state(self.state)
        self.show_keys(self.page_keys())

    def page_keys(self) -> Sequence[tuple[str, str]]:
        """Return the keys of the chart, after those of a demo that has ended."""
        state = self.state
        sizes, times = (("log" if on else "linear") for on in (state.linear_sizes, state.linear_times))
        demo = (("{run}", "play again"), ("{history}", "runs")) if state.situation.may_play else ()
        what_if = (("{what-if}", "next what-if"),) if state.situation.ran else ()
        return (
            *demo, ("{chart}", "back"), *what_if, ("j k", "row"), ("X", f"{sizes} sizes"), ("Y", f"{times} times"),
        )  # fmt: skip
