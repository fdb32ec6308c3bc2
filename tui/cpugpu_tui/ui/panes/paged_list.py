"""The list of workloads, themes and commands."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from textual import events, on
from textual.binding import BindingType
from textual.strip import Strip
from textual.widgets import OptionList
from textual.widgets.option_list import Option


class PagedList(OptionList):
    """A list with the keys j and k, whose options begin with a space for the cursor.

    Its page keys do nothing without room: Textual 8.2.8 would raise a KeyError.
    """

    BINDINGS: ClassVar[list[BindingType]] = [("j", "cursor_down"), ("k", "cursor_up")]

    def __init__(self, cursor_sign: str, *options: Option) -> None:
        """Make a list of options without markup. `cursor_sign` marks the highlighted one, also without colour."""
        super().__init__(*options, markup=False, compact=True)
        self._cursor_sign = cursor_sign

    def on_resize(self) -> None:
        """Bring the highlighted line back into sight, which a smaller terminal may have lost."""
        self.call_after_refresh(self.scroll_to_highlight)

    def render_line(self, y: int) -> Strip:
        """Return line `y`, with the sign in place of its first space if it is highlighted."""
        strip = super().render_line(y)
        segments = list(strip)
        text, style, _ = segments[0] if segments else Segment("")
        if style is None or style.meta.get("option") != self.highlighted or not text.startswith(" "):
            return strip
        return Strip([Segment(self._cursor_sign + text[1:], style), *segments[1:]], strip.cell_length)

    def on_click(self, event: events.Click) -> None:
        """Highlight the clicked line; choose it on a double click."""
        event.prevent_default()  # Textual would choose it on a single click
        index = event.style.meta.get("option")
        if index is not None:
            self.highlighted = index
            if event.chain == 2:
                self.action_select()

    @on(events.MouseScrollDown)
    @on(events.MouseScrollUp)
    def _turn(self, event: events.MouseScrollDown | events.MouseScrollUp) -> None:
        """Move the cursor if only its line is visible."""
        if self.size.height == 1:
            event.prevent_default()
            (self.action_cursor_down if isinstance(event, events.MouseScrollDown) else self.action_cursor_up)()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Refuse page keys while the list has no room."""
        if action in ("page_up", "page_down") and not self.scrollable_content_region:
            return False
        return super().check_action(action, parameters)
