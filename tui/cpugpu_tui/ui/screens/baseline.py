"""The box that asks for the name of a baseline."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input

from cpugpu_tui.compare.series import checked_baseline
from cpugpu_tui.errors import UsageError
from cpugpu_tui.ui.panes.fields import LineField
from cpugpu_tui.ui.panes.lines import Lines, Spans, wrapped
from cpugpu_tui.ui.screens.page import Box

WIDTH = 54
"""Most cells of the text in a box."""


class BaselineBox(Box[str]):
    """Returns the name, or None if cancelled."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "cancel"),
        Binding("ctrl+c", "cancel", show=False, priority=True),  # otherwise the field copies its selection
    ]

    def __init__(self, name: str) -> None:
        """Propose a name, which can be edited."""
        super().__init__()
        self._proposed = name

    def compose(self) -> ComposeResult:
        """Yield the question, the field, its error and the keys."""
        with Vertical(id="box"):
            yield Lines(id="question")
            yield LineField(self._proposed, id="name", select_on_focus=False)
            yield Lines(id="hint")

    def on_resize(self) -> None:
        """Write the question and what stands below the field."""
        question = wrapped("Name of the baseline that this series becomes:", self._width)
        self.query_one("#question", Lines).show(question)
        self._show()

    @property
    def _width(self) -> int:
        return min(WIDTH, self.size.width - 4)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self._show()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        name = self._show()
        if name is not None:
            self.dismiss(name)

    def _show(self) -> str | None:
        """Show the error of the name, or what it is for; return a valid name."""
        keys: Spans = (("enter", "key"), (" set  ", "text"), ("esc", "key"), (" cancel", "text"))
        hint = self.query_one("#hint", Lines)
        try:
            name = checked_baseline(self.query_one("#name", Input).value.strip())
        except UsageError as error:
            hint.show([*wrapped(str(error), self._width, "bad"), keys])
            return None
        told = "Later runs are compared with it; compare and gate take its name."
        hint.show([*wrapped(told, self._width, "muted"), keys])
        return name
