"""The box that asks for the name of a baseline."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical

from cpugpu_tui.compare.series import checked_baseline
from cpugpu_tui.errors import UsageError
from cpugpu_tui.ui.panes.lines import Lines, Spans, wrapped
from cpugpu_tui.ui.screens.form import LineBox

WIDTH = 54
"""Most cells of the text in a box."""


class BaselineBox(LineBox[str]):
    """Returns the name, or None if cancelled."""

    def compose(self) -> ComposeResult:
        """Yield the question, the field, its error and the keys."""
        with Vertical(id="box"):
            yield Lines(id="question")
            yield self.make_field()
            yield Lines(id="hint")

    def check(self, text: str, *, is_final: bool) -> str | None:
        """Show the error of the name, or what it is for; return a valid name."""
        del is_final
        width, name = min(WIDTH, self.size.width - 4), None
        try:
            name = checked_baseline(text)
            lines = wrapped(
                "Later runs are compared with it. The commands compare and gate accept its name.", width, "muted"
            )
        except UsageError as error:
            lines = wrapped(str(error), width, "bad")
        question = wrapped("Make this series a baseline with the name:", width)
        self.query_one("#question", Lines).show(question)
        keys: Spans = (("enter", "key"), (" set  ", "text"), ("esc", "key"), (" cancel", "text"))
        self.query_one("#hint", Lines).show([*lines, keys])
        return name
