"""The input line at the bottom of a list, and an input field with a limit on pastes."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Input

from cpugpu_tui.ui.live.messages import InputDropped
from cpugpu_tui.ui.panes.lines import Lines
from cpugpu_tui.ui.terminal.terminal_input import LONGEST_LINE


class LineField(Input):
    """An input of at most `LONGEST_LINE` characters. It does not blink, because each blink is a paint."""

    def __init__(
        self, value: str = "", *, placeholder: str = "", id: str | None = None, select_on_focus: bool = True  # noqa: A002
    ) -> None:  # fmt: skip
        super().__init__(value, placeholder, id=id, select_on_focus=select_on_focus, compact=True)
        self.cursor_blink = False

    def replace(self, text: str, start: int, end: int) -> None:
        """Replace a part of the line; text beyond `LONGEST_LINE` is dropped."""
        room = max(LONGEST_LINE - len(self.value) + abs(end - start), 0)
        if len(text) > room:
            self.app.post_message(InputDropped(len(text) - room, LONGEST_LINE))
        super().replace(text[:room], start, end)


class TypingLine(Horizontal):
    """A sign for what is typed, and the field, which posts `Input.Changed` and `Input.Submitted`."""

    DEFAULT_CSS = """
    TypingLine { height: 1; background: $surface; display: none; }
    TypingLine #line-sign { padding: 0 0 0 1; }
    TypingLine #line-field { height: 1; width: 1fr; border: none; padding: 0 1; background: $surface; }
    """

    sign = ""
    """Text before the field; empty while the line is hidden."""

    def compose(self) -> ComposeResult:
        """Yield sign and field. They exist before they are visible, so that no key typed early is lost."""
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
        """Show the line with this value and focus its field."""
        self.show_sign(sign)
        self.field.placeholder = hint
        self.field.value = value
        self.field.cursor_position = len(value)
        self.screen.set_focus(self.field)

    def show_sign(self, sign: str, value: str | None = None) -> None:
        """Show the line without focus; hide it if `sign` is empty."""
        self.sign = sign
        self.display = bool(sign)
        label = self.query_one("#line-sign", Lines)
        label.styles.width = len(sign) + 1
        label.show([((sign, "key"),)])
        if value is not None:
            self.field.value = value
