"""The field for a line of text."""

from __future__ import annotations

from textual.widgets import Input

from cpugpu_tui.ui.live.messages import InputDropped
from cpugpu_tui.ui.terminal.terminal_input import LONGEST_LINE


class LineField(Input):
    """Textual's, which never blinks (a blink is a paint of its own) and takes `LONGEST_LINE` characters at most."""

    def __init__(
        self, value: str = "", *, placeholder: str = "", id: str | None = None, select_on_focus: bool = True  # noqa: A002
    ) -> None:  # fmt: skip
        super().__init__(value, placeholder, id=id, select_on_focus=select_on_focus, compact=True)
        self.cursor_blink = False

    def replace(self, text: str, start: int, end: int) -> None:
        """Replace a part of the line by as much of a text as there is room for."""
        room = max(LONGEST_LINE - len(self.value) + abs(end - start), 0)
        if len(text) > room:
            self.app.post_message(InputDropped(len(text) - room, LONGEST_LINE))
        super().replace(text[:room], start, end)
