"""One line in which a person types an answer: a filter, tags. Out of sight until it is asked for."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Input

from cpugpu_tui.ui.line_field import LineField
from cpugpu_tui.ui.panes.lines import Lines


class TypingLine(Horizontal):
    """A sign that says what is typed, and the field; `Input.Changed` and `Input.Submitted` come from the latter."""

    DEFAULT_CSS = """
    TypingLine { height: 1; background: $surface; display: none; }
    TypingLine #line-sign { padding: 0 0 0 1; }
    TypingLine #line-field { height: 1; width: 1fr; border: none; padding: 0 1; background: $surface; }
    """

    sign = ""
    """What stands before the field; empty while the line is out of sight."""

    def compose(self) -> ComposeResult:
        """Yield sign and field, which are there before they are seen: what is typed at once is not lost."""
        yield Lines(id="line-sign")
        field = LineField(id="line-field", select_on_focus=False)
        yield field

    @property
    def field(self) -> Input:
        """The field."""
        return self.query_one(Input)

    @property
    def typing(self) -> bool:
        """Whether keys go into the field."""
        return self.screen.focused is self.field

    def ask(self, sign: str, hint: str, value: str) -> None:
        """Let the person type, beginning with what there is already."""
        self.show_sign(sign)
        self.field.placeholder = hint
        self.field.value = value
        self.field.cursor_position = len(value)
        self.screen.set_focus(self.field)

    def show_sign(self, sign: str, value: str | None = None) -> None:
        """Show the line without typing in it, or take it away where there is no sign."""
        self.sign = sign
        self.display = bool(sign)
        label = self.query_one("#line-sign", Lines)
        label.styles.width = len(sign) + 1
        label.show([((sign, "key"),)])
        if value is not None:
            self.field.value = value
