"""Boxes over the screen: their base, and one question with two answers."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from cpugpu_tui.ui.panes.lines import ROLE_CLASSES, Lines, Spans, wrapped

T = TypeVar("T")


class Box(ModalScreen[T]):
    """Closes once, even if more keys were typed ahead."""

    def dismiss(self, result: T | None = None) -> AwaitComplete:
        """Close and return the result; do nothing if the box is closed already or covered.

        Textual pops the top screen: a second quick enter closed the main screen, which ended the app.
        """
        return super().dismiss(result) if self.is_current else AwaitComplete()


class ConfirmScreen(Box[bool]):
    """Asks a question while the run continues. Returns whether the answer was yes."""

    COMPONENT_CLASSES: ClassVar[set[str]] = ROLE_CLASSES
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", show=False),
        Binding("q", "answer(True)", show=False),
        Binding("ctrl+c", "answer(True)", show=False),
        Binding("n", "answer(False)", show=False),
        Binding("escape", "answer(False)", show=False),
    ]

    def __init__(self, question: str, yes: str, no: str) -> None:
        """Ask `question`; `yes` and `no` are the labels of the answers."""
        super().__init__()
        keys: Spans = (("y", "key"), (f" {yes}   ", "text"), ("esc", "key"), (f" {no}", "text"))
        self._lines = [*wrapped(question, 54), (), keys]

    def compose(self) -> ComposeResult:
        """Yield the box."""
        with Vertical(id="box"):
            yield Lines(id="question")

    def on_mount(self) -> None:
        """Write the question."""
        self.query_one(Lines).show(self._lines)

    def action_answer(self, yes: bool) -> None:
        """Close with an answer."""
        self.dismiss(yes)
