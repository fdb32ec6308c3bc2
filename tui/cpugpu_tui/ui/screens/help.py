"""Help: first the keys of the pane with the focus, on one screen; then all keys and the words of that pane."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.keys import by_group
from cpugpu_tui.ui.panes.lines import Spans, spelled, wrapped
from cpugpu_tui.ui.panes.status import replay_tag
from cpugpu_tui.ui.screens.help_keys import COUNT, MOVE, PANES, SCROLL, grouped
from cpugpu_tui.ui.screens.help_words import GLOSSARY, TERMS, WORDS
from cpugpu_tui.ui.screens.page import Page

ALWAYS = (COUNT, MOVE, SCROLL)
"""Keys without a command that work in many places."""

MOUSE = "The app leaves the mouse to the terminal, so you can select and copy text as usual."

MORE = (
    ("docs/", "how to read a result, the method, publications, your own workloads and keys"),
    ("docs/glossary.md", "all terms"),
    ("cpugpu-tui --help", "all commands"),
    ("cpugpu-tui doctor", "check this machine"),
)
"""Where to read more."""

GROUP_WIDTH = 11
"""Cells of the longest group's name, `Take away`, and the space behind it."""


class HelpScreen(Page):
    """Two pages: the keys of one pane, and everything else."""

    def __init__(self, state: AppState, topic: str, glyphs: Glyphs, only: Collection[str] = ()) -> None:
        """Explain the pane or page `topic`; `only` limits the second page to these commands, if it is not empty."""
        super().__init__(state)
        self._glyphs, self._only = glyphs, only
        self._topic = topic if topic in PANES else "timings"
        self._is_second = False

    def turn(self) -> bool:
        """Go to the second page; return False if it is shown already."""
        if self._is_second:
            return False
        self._is_second = True
        if self.is_mounted:
            self.redraw()
        return True

    def page_title(self) -> Spans:
        """Return which pane this is the help of."""
        what = f"{'All keys, and the words' if self._is_second else 'Keys'} of {PANES[self._topic].name}"
        return (*replay_tag(self.state), ("Help  ", "title"), (what, "strong"))

    def page_lines(self, width: int) -> Sequence[Spans]:
        """Return the lines of the page that is shown."""
        lines = self._everything(width) if self._is_second else self._keys(width)
        return [tuple((spelled(text, self._glyphs), role) for text, role in line) for line in lines]

    def page_keys(self) -> Sequence[tuple[str, str]]:
        """Return how to go on and back."""
        if self._is_second:
            return (("{back}", "back"), ("j k g G", "scroll"))
        scroll = (("j k", "scroll"),) if len(self._keys(self.text_width)) > self._room else ()
        return (("{help}", "all keys and words"), ("{back}", "back"), *scroll)

    @property
    def _room(self) -> int:
        """Lines between the title and the last line."""
        return self.size.height - 2

    def _keys(self, width: int) -> list[Spans]:
        """Return the pane's keys by group, with a line between the groups if all of them fit so."""
        groups = grouped(PANES[self._topic], self.state.keymap)
        spaced = key_lines(groups, width, gap=True)
        return spaced if len(spaced) <= self._room else key_lines(groups, width)

    def _everything(self, width: int) -> list[Spans]:
        """Return the words of the pane, all keys, the mouse and where to read more."""
        keymap, only = self.state.keymap, self._only
        named = keymap.with_keys
        words = [(named(word), named(text)) for word, text in WORDS.get(self._topic, ())]
        words += [(word.replace("`", ""), GLOSSARY[word].replace("`", "")) for word in TERMS.get(self._topic, ())]
        keys = {
            group: [(keymap.text(each.id), each.help) for each in commands if not only or each.id in only]
            + [(named(own.keys), named(own.help)) for own in ALWAYS if own.group == group and not only]
            for group, commands in by_group().items()
        }
        lines: list[Spans] = [(("Words", "title"),), *two_columns(words, width), ()]
        lines += [(("All keys", "title"),), *key_lines({name: rows for name, rows in keys.items() if rows}, width), ()]
        lines += [(("Mouse", "title"),), *wrapped(MOUSE, width, "text"), ()]
        return [*lines, (("Read more", "title"),), *two_columns(MORE, width)]


def key_lines(groups: Mapping[str, Sequence[tuple[str, str]]], width: int, *, gap: bool = False) -> list[Spans]:
    """Return a line for each key: its group once, the key, what it does; `gap` puts a line between the groups."""
    cells = max(len(keys) for rows in groups.values() for keys, _ in rows) + 2
    lines: list[Spans] = []
    for group, rows in groups.items():
        lines += [()] if gap and lines else []
        name = group
        for keys, text in rows:
            for piece in wrapped(text, width - GROUP_WIDTH - cells, "text"):
                lines.append(((f"{name:<{GROUP_WIDTH}}", "strong"), (f"{keys:<{cells}}", "key"), *piece))
                name = keys = ""
    return lines


def two_columns(rows: Sequence[tuple[str, str]], width: int) -> list[Spans]:
    """Return words and their explanations; the explanations are wrapped."""
    cells = max((len(word) for word, _ in rows), default=0) + 2
    lines: list[Spans] = []
    for word, text in rows:
        for number, piece in enumerate(wrapped(text, width - cells, "muted")):
            lines.append(((f"{word if number == 0 else '':<{cells}}", "text"), *piece))
    return lines
