"""The palette: type some letters of what you want, enter does it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input

from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.line_field import LineField
from cpugpu_tui.ui.palette import Entry, ranked
from cpugpu_tui.ui.panes.lines import Lines, spelled, wrapped
from cpugpu_tui.ui.roles import ROLE_CLASSES, Spans
from cpugpu_tui.ui.screens.box import Box

TITLE_WIDTH = 20
"""Cells of what an entry is called; longer names push what stands beside them."""

WIDTH = 92
"""Cells of the box where the terminal has them, as in `app.tcss`."""

MOST_ROWS = 16
"""Entries in sight at most."""

ABOUT_ROWS = 2
"""Rows that say in full what the entry under the cursor does, or why it cannot."""

AROUND = 4 + ABOUT_ROWS
"""Rows of the box that are no entries: border, field, these, and the last line."""


class PaletteScreen(Box[Entry | None]):
    """Returns what the person chose, None if they went back. What is impossible is dimmed and says why."""

    COMPONENT_CLASSES: ClassVar[set[str]] = ROLE_CLASSES
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c", "cancel", show=False),
        Binding("down,ctrl+n,tab", "move(1)", show=False),
        Binding("up,ctrl+p,shift+tab", "move(-1)", show=False),
        Binding("pagedown", "move(10)", show=False),
        Binding("pageup", "move(-10)", show=False),
    ]

    def __init__(self, entries: Sequence[Entry], glyphs: Glyphs) -> None:
        """Find among these."""
        super().__init__()
        self._entries, self._glyphs = list(entries), glyphs
        self._found = list(entries)
        self._index = self._top = 0

    def compose(self) -> ComposeResult:
        """Yield the field and what is found."""
        with Vertical(id="box"):
            field = LineField(placeholder="some letters of a command, a preset, a theme")
            yield field
            yield Lines(id="found")
            yield Lines(id="about")
            yield Lines(id="hint")

    def on_mount(self) -> None:
        """Show all that there is."""
        self.query_one("#box").border_title = "Commands"
        self._redraw()

    def on_resize(self) -> None:
        """Use the room there is."""
        self._redraw()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self._found, self._index, self._top = ranked(self._entries, event.value), 0, 0
        self._redraw()

    @on(Input.Submitted)
    def _chosen(self, event: Input.Submitted) -> None:
        event.stop()
        if self._found and not self._found[self._index].why_not:
            self.dismiss(self._found[self._index])

    def action_move(self, step: int) -> None:
        """Move the cursor."""
        self._index = min(max(self._index + step, 0), max(len(self._found) - 1, 0))
        self._redraw()

    def action_cancel(self) -> None:
        """Do nothing."""
        self.dismiss(None)

    def _redraw(self) -> None:
        rows = max(min(MOST_ROWS, self.size.height - AROUND), 1)
        self._top = min(max(self._top, self._index - rows + 1), self._index)
        width = max(min(self.size.width, WIDTH) - 4, 20)
        in_sight = self._found[self._top : self._top + rows]
        lines = [
            entry_line(entry, width, self._glyphs, chosen=self._top + place == self._index)
            for place, entry in enumerate(in_sight)
        ]
        # As many lines as before: a box that changes its height would be painted as a whole with every letter.
        rows = min(rows, len(self._entries))
        self.query_one("#found", Lines).show([*lines, *[()] * (rows - len(lines))])
        about = wrapped(about_text(self._found[self._index], self._glyphs), width, lines=ABOUT_ROWS) if lines else []
        self.query_one("#about", Lines).show([*about, *[()] * (ABOUT_ROWS - len(about))])
        count = f"{self._index + 1} of {len(self._found)}" if self._found else "nothing is called that"
        keys: Spans = (("enter", "key"), (" do it  ", "text"), ("up down", "key"), (" move  ", "text"),
                       ("esc", "key"), (" back  ", "text"), (count, "muted"))  # fmt: skip
        self.query_one("#hint", Lines).show([keys])


def about_text(entry: Entry, glyphs: Glyphs) -> str:
    """Return what an entry does, or why it cannot."""
    return spelled(entry.why_not[:1].upper() + entry.why_not[1:] if entry.why_not else entry.about, glyphs)


def entry_line(entry: Entry, width: int, glyphs: Glyphs, *, chosen: bool) -> Spans:
    """Return one line: what it is called, what it does or why it cannot, and its keys at the right end."""
    sign = glyphs.cursor if chosen else " "
    name = f"{sign} {spelled(entry.title, glyphs):<{TITLE_WIDTH}} "
    room = max(width - len(name) - len(entry.keys) - 1, 0)
    text = about_text(entry, glyphs)
    if len(text) > room:
        text = text[: max(room - len(glyphs.ellipsis), 0)] + glyphs.ellipsis
    if chosen and not entry.why_not:
        return ((f"{name}{text:<{room}} {entry.keys}", "chosen"),)
    if entry.why_not:
        return ((name, "muted"), (f"{text:<{room}} ", "warn" if chosen else "muted"), (entry.keys, "muted"))
    return ((name, "strong"), (f"{text:<{room}} ", "muted"), (entry.keys, "key"))
