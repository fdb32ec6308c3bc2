"""The list of themes; the one under the cursor is shown at once."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from cpugpu_tui.ui.panes.lines import Lines
from cpugpu_tui.ui.roles import ROLE_CLASSES


class ThemesScreen(ModalScreen[None]):
    """Enter keeps the theme under the cursor, esc brings the old one back."""

    COMPONENT_CLASSES: ClassVar[set[str]] = ROLE_CLASSES
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", show=False),
        Binding("q", "cancel", show=False),
        Binding("j", "cursor(1)", show=False),
        Binding("k", "cursor(-1)", show=False),
    ]

    def __init__(self, names: list[str], current: str) -> None:
        """List these themes."""
        super().__init__()
        self._names, self._current = names, current

    def compose(self) -> ComposeResult:
        """Yield the box."""
        with Vertical(id="box"):
            yield OptionList(*(Option(name, name) for name in self._names), markup=False, compact=True)
            yield Lines()

    def on_mount(self) -> None:
        """Put the cursor on the theme in force."""
        self.query_one("#box").border_title = "Themes"
        self.query_one(OptionList).highlighted = self._names.index(self._current)
        self.query_one(Lines).show([(("enter", "key"), (" keep   ", "text"), ("esc", "key"), (" as it was", "text"))])

    @on(OptionList.OptionHighlighted)
    def _preview(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        self.app.theme = self._names[event.option_index]

    @on(OptionList.OptionSelected)
    def _keep(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(None)

    def action_cancel(self) -> None:
        """Leave everything as it was."""
        self.app.theme = self._current
        self.dismiss(None)

    def action_cursor(self, step: int) -> None:
        """Move the highlight."""
        options = self.query_one(OptionList)
        if step > 0:
            options.action_cursor_down()
        else:
            options.action_cursor_up()
