"""Help: first the keys of the pane with the focus, on one screen; then all keys and the words of that pane."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from cpugpu_tui.render.columns import COLUMNS, Key
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.keys import COMMAND_BY_ID, GROUPS, Keymap, by_group
from cpugpu_tui.ui.panes.lines import Spans, labelled, respelled, wrapped
from cpugpu_tui.ui.screens.page import Page
from cpugpu_tui.ui.themes import shipped_path


class OwnKey(NamedTuple):
    """A key that does something of its own in one place."""

    keys: str
    """One or more, as people write them, with spaces between; ids in braces stand for the keys in force."""
    group: str
    """One of `GROUPS`."""
    help: str
    """One imperative sentence."""


class TopicHelp(msgspec.Struct, forbid_unknown_fields=True):
    """The help of a pane or page. Its own keys come before the commands of their group."""

    name: str
    commands: list[str]
    terms: list[str]
    own: list[OwnKey] = []
    also: list[str] = []
    words: list[tuple[str, str]] = []
    words_of: str = ""


class HelpTexts(msgspec.Struct, forbid_unknown_fields=True):
    """All of `help.toml`, which describes its fields."""

    mouse: str
    more: list[tuple[str, str]]
    shared: dict[str, OwnKey]
    topics: dict[str, TopicHelp]


TEXTS = msgspec.toml.decode(Path(__file__).with_name("help.toml").read_bytes(), type=HelpTexts)


def grouped(topic: TopicHelp, keymap: Keymap) -> dict[str, list[tuple[str, str]]]:
    """Return group → (keys, what they do), for the groups that have any."""
    found = {}
    own_keys = [*topic.own, *(TEXTS.shared[name] for name in topic.also)]
    for group in GROUPS:
        own = [(keymap.with_keys(key.keys), keymap.with_keys(key.help)) for key in own_keys if key.group == group]
        commands = [COMMAND_BY_ID[name] for name in topic.commands]
        rows = own + [(keymap.of(each.id), each.help) for each in commands if each.group == group]
        if rows:
            found[group] = rows
    return found


EXPLAINED = (Key.SPEEDUP, Key.PLUS_MINUS, Key.VERDICT, Key.KERNEL, Key.MOVED, Key.LIMIT, Key.WRITTEN, Key.GFLOPS,
             Key.CPU_P99, Key.CPU_ENERGY)  # fmt: skip
"""Columns of the timings that are explained by their headings."""


def words_of(topic: str) -> list[tuple[str, str]]:
    """Return the words of a topic and what they mean; ids in braces stand for the keys in force."""
    found = TEXTS.topics[topic]
    columns = [
        ("CPU, GPU", COLUMNS[Key.CPU].meaning), ("cuda:0, cuda:1", COLUMNS[Key.GPUS].meaning),
        *((COLUMNS[key].heading, COLUMNS[key].meaning) for key in EXPLAINED),
        ("change", COLUMNS[Key.CHANGE].meaning), ("min-max", COLUMNS[Key.SPREAD].meaning),
        (COLUMNS[Key.ROUNDS].heading, COLUMNS[Key.ROUNDS].meaning),
    ]  # fmt: skip
    more = words_of(found.words_of) if found.words_of else []
    return [*(columns if topic == "timings" else ()), *found.words, *more]


@cache
def glossary() -> dict[str, str]:
    """Return term → meaning from the tables of docs/glossary.md."""
    text = shipped_path("glossary.md", "docs").read_text(encoding="utf-8")
    return dict(re.findall(r"^\| (.+?) \| (.+?) \|$", text.replace("`", ""), re.MULTILINE))


GROUP_WIDTH = 11
"""Cells of the longest group's name, `Take away`, and the space behind it."""


class HelpScreen(Page):
    """Two pages: the keys of one pane, and everything else."""

    def __init__(self, state: AppState, topic: str, glyphs: Glyphs, only: Collection[str] = ()) -> None:
        """Explain the pane or page `topic`; `only` limits the second page to these commands, if it is not empty."""
        super().__init__(state, glyphs)
        self._only = only
        self._topic = topic if topic in TEXTS.topics else "timings"
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
        what = f"{'All keys, and the words' if self._is_second else 'Keys'} of {TEXTS.topics[self._topic].name}"
        return (("Help ", "title"), (f" {what}", "strong"))

    def page_lines(self, width: int) -> Sequence[Spans]:
        """Return the lines of the page that is shown."""
        return respelled(self._everything(width) if self._is_second else self._keys(width), self.glyphs)

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
        groups = grouped(TEXTS.topics[self._topic], self.state.keymap)
        spaced = key_lines(groups, width, gap=True)
        return spaced if len(spaced) <= self._room else key_lines(groups, width)

    def _everything(self, width: int) -> list[Spans]:
        """Return the words of the pane, all keys, the mouse and where to read more."""
        keymap, only = self.state.keymap, self._only
        named = keymap.with_keys
        words = [(named(word), named(text)) for word, text in words_of(self._topic)]
        words += [(word, glossary()[word]) for word in TEXTS.topics[self._topic].terms]
        keys = {
            group: [(keymap.text(each.id), each.help) for each in commands if not only or each.id in only]
            + [(named(own.keys), named(own.help)) for own in TEXTS.shared.values() if own.group == group and not only]
            for group, commands in by_group().items()
        }
        lines: list[Spans] = [(("Words", "title"),), *two_columns(words, width), ()]
        lines += [(("All keys", "title"),), *key_lines({name: rows for name, rows in keys.items() if rows}, width), ()]
        lines += [(("Mouse", "title"),), *wrapped(TEXTS.mouse, width, "text"), ()]
        return [*lines, (("Read more", "title"),), *two_columns(TEXTS.more, width)]


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
    wordings = (labelled(word, wrapped(text, width - cells, "muted"), cells, "text") for word, text in rows)
    return [line for lines in wordings for line in lines]
