"""The chart's page. Its pane, which the main screen has too, is in `pane.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from cpugpu_tui.ui.chart.pane import ChartPane
from cpugpu_tui.ui.panes.lines import Lines, Spans
from cpugpu_tui.ui.panes.status import status_line
from cpugpu_tui.ui.screens.page import Page


class ChartScreen(Page, inherit_bindings=False):
    """Fills the screen with the chart; nothing scrolls."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("X", "app.do('timings.toggle_axis', 'linear_sizes')"), ("Y", "app.do('timings.toggle_axis', 'linear_times')"),
        ("j,down,right", "app.do('timings.move', 1)"), ("k,up,left", "app.do('timings.move', -1)"),
    ]  # fmt: skip
    AUTO_FOCUS = ""
    TOPIC = "chart"

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
        return (
            *demo, ("{chart}", "back"), *what_if, ("j k", "row"), ("X", f"{sizes} sizes"), ("Y", f"{times} times"),
        )  # fmt: skip
