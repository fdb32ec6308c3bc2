"""Help: what the pane with the focus shows, then every key."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.custom_keys import Keymap
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.help_words import WORDS
from cpugpu_tui.ui.keys import COMMANDS, MOVES
from cpugpu_tui.ui.panes.lines import spelled, wrapped
from cpugpu_tui.ui.panes.status import replay_tag
from cpugpu_tui.ui.roles import Spans
from cpugpu_tui.ui.screens.page import Page


class HelpScreen(Page):
    """Explains one pane and lists all keys."""

    def __init__(self, state: AppState, pane: str, glyphs: Glyphs, only: Collection[str] = ()) -> None:
        """Explain the pane with this id; with `only`, the ids of commands, nothing else and of the keys only those."""
        super().__init__(state)
        self._glyphs, self._only = glyphs, only
        self._pane = pane if pane in WORDS else "timings"

    def page_title(self) -> Spans:
        """Return what this page explains."""
        return (
            *replay_tag(self.state),
            ("Help ", "title"),
            (self.state.keymap.said(WORDS[self._pane][0]), "strong"),
        )

    def page_lines(self, width: int) -> Sequence[Spans]:
        """Return the pane's words, then the keys, then the other panes' words."""
        keymap, only = self.state.keymap, self._only
        others = [name for name in WORDS if name != self._pane and not only]
        lines: list[Spans] = [*_explained(self._pane, keymap, width, self._glyphs), (), (("Keys", "strong"),)]
        listed = [command for command in COMMANDS if not only or command.id in only]
        lines += _table([(keymap.text(command.id), command.help) for command in listed], width, "key")
        lines += [(("", "text"),), *wrapped(MOVES, width, "muted")]
        for name in others:
            title = keymap.said(WORDS[name][0])
            lines += [(), ((title, "strong"),), *_explained(name, keymap, width, self._glyphs)]
        return lines


def _explained(pane: str, keymap: Keymap, width: int, glyphs: Glyphs) -> list[Spans]:
    said = [(keymap.said(word), keymap.said(text)) for word, text in WORDS[pane][1]]
    return _table([(spelled(word, glyphs), spelled(text, glyphs)) for word, text in said], width, "text")


def _table(rows: Sequence[tuple[str, str]], width: int, role: str) -> list[Spans]:
    """Return two columns; the right one is wrapped."""
    left = max(len(word) for word, _ in rows) + 2
    lines: list[Spans] = []
    for word, text in rows:
        for number, piece in enumerate(wrapped(text, width - left, "muted")):
            lines.append(((f"{word if number == 0 else '':<{left}}", role), *piece))
    return lines
