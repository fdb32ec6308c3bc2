"""The palette (commands, presets, workloads and themes, ranked by the typed text), and the list of themes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, NamedTuple

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.fuzzy import FuzzySearch
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.keys import COMMANDS, Keymap, Situation, impossible, label
from cpugpu_tui.ui.panes.fields import LineField
from cpugpu_tui.ui.panes.lines import Lines, Spans, cut, press, spelled, wrapped
from cpugpu_tui.ui.panes.paged_list import PagedList
from cpugpu_tui.ui.screens.page import Box, WheelMoves

COMMAND, WORKLOAD, THEME = "command", "workload", "theme"
"""Kinds of entries."""

HERE = "this acts on the run in the panes; press {back} to return there."

_SEARCH = FuzzySearch()


class Entry(NamedTuple):
    """One line of the palette."""

    kind: str
    name: str
    """Id of the command, name of the workload or the theme."""
    title: str
    """Text that the search matches first."""
    about: str
    """What it does, in one sentence."""
    keys: str = ""
    """Its keys, as people write them."""
    why_not: str = ""
    """Why it is impossible now and what to do about it; empty if it is possible."""


def command_entries(situation: Situation, keymap: Keymap, masked: Collection[str] = ()) -> list[Entry]:
    """Return the commands; the open page does not answer those in `masked`."""
    found = []
    for command in COMMANDS:
        why = HERE if command.id in masked else impossible(command, situation)
        if command.id != "palette":
            keys, why = keymap.text(command.id), keymap.with_keys(why)
            found.append(Entry(COMMAND, command.id, label(command, situation), command.help, keys, why))
    return found


def workload_entries(summaries: Iterable[tuple[str, str]], why_not: str) -> list[Entry]:
    """Return an entry for each preset and workload; `why_not` is why nothing can be run now."""
    return [Entry(WORKLOAD, name, f"Run {name}", about, why_not=why_not) for name, about in summaries]


def theme_entries(names: Iterable[str], current: str) -> list[Entry]:
    """Return an entry for each theme."""
    about = {current: "The current theme."}
    return [Entry(THEME, name, f"Theme {name}", about.get(name, "Switch to this theme.")) for name in names]


def ranked(entries: Sequence[Entry], typed: str) -> list[Entry]:
    """Return the entries that match the typed text, best first; all of them for an empty text.

    Letters in the order of the title match it (`rq` finds `Run quick`); whole words also match the description.
    """
    wanted = typed.strip()
    if not wanted:
        return list(entries)
    scored = [(_score(wanted, entry), entry) for entry in entries]
    return [entry for score, entry in sorted(scored, key=lambda pair: -pair[0]) if score > 0]


@lru_cache(maxsize=4096)  # each typed letter scores all entries
def _score(wanted: str, entry: Entry) -> float:
    if wanted == entry.keys or wanted in entry.keys.split(", "):
        return 1e6  # the key itself was typed
    title = entry.title.lower()
    low = wanted.lower()
    if low == entry.name:
        return 2e5  # prefer `paper` to `cvd-paper`
    if title.startswith(low):
        return 1e5 - len(title)
    score = float(_SEARCH.match(wanted, entry.title)[0])
    if low in title:
        score += 1e3
    if score <= 0 and all(word in f"{title} {entry.about.lower()}" for word in low.split()):
        score = 0.01
    return score


TITLE_WIDTH = 20
"""Cells of a title; longer ones shift the rest of the line."""

WIDTH = 92
"""Largest width of the box, as in `pages.tcss`."""

MOST_ROWS = 16
"""Largest number of visible entries."""

LEAST_ABOUT = 16
"""Cells from which a line has room for a description."""

ABOUT_ROWS = 2
"""Rows for the full description of the entry under the cursor."""

AROUND = 4 + ABOUT_ROWS
"""Rows of the box without entries: border, field, description and the last line."""


class PaletteScreen(WheelMoves, Box[Entry | None]):
    """Returns the chosen entry, or None if cancelled. Impossible entries are dimmed and show why."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,ctrl+c", "dismiss"), ("down,ctrl+n,tab", "move(1)"), ("up,ctrl+p,shift+tab", "move(-1)"),
        ("pagedown", "move(10)"), ("pageup", "move(-10)"),
    ]  # fmt: skip

    def __init__(self, entries: Sequence[Entry], glyphs: Glyphs) -> None:
        super().__init__()
        self._entries, self._glyphs = list(entries), glyphs
        self._found = list(entries)
        self._index = self._top = 0

    def compose(self) -> ComposeResult:
        """Yield the field and the entries."""
        with Vertical(id="box") as box:
            box.border_title = "Commands"
            yield LineField(placeholder="find a command, preset or theme")
            yield Lines(id="found")
            yield Lines(id="about")
            yield Lines(id="hint", classes="keys")

    def on_resize(self) -> None:
        """Use the new size."""
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

    @on(events.Click, "#found")
    def _click(self, event: events.Click) -> None:
        """Select the clicked entry; choose it on a double click."""
        if self._top + event.y < len(self._found):
            self.action_move(self._top + event.y - self._index)
            if event.chain == 2:
                press(self, "enter")

    def action_move(self, step: int) -> None:
        """Move the cursor."""
        self._index = min(max(self._index + step, 0), max(len(self._found) - 1, 0))
        self._redraw()

    def _redraw(self) -> None:
        rows = max(min(MOST_ROWS, self.size.height - AROUND), 1)
        self._top = min(max(self._top, self._index - rows + 1), self._index)
        width = max(min(self.size.width, WIDTH) - 4, 20)
        in_sight = self._found[self._top : self._top + rows]
        lines = [entry_line(entry, width, self._glyphs, chosen=place == self._index)
                 for place, entry in enumerate(in_sight, self._top)]  # fmt: skip
        # A constant number of lines: if the box changed its height, each letter would repaint all of it.
        rows = min(rows, len(self._entries))
        self.query_one("#found", Lines).show([*lines, *[()] * (rows - len(lines))])
        about = wrapped(about_text(self._found[self._index], self._glyphs), width, lines=ABOUT_ROWS) if lines else []
        self.query_one("#about", Lines).show([*about, *[()] * (ABOUT_ROWS - len(about))])
        count = f"{self._index + 1} of {len(self._found)}" if self._found else "no match"
        keys: Spans = (("enter", "key"), (" run  ", "text"), ("up down", "key"), (" move  ", "text"),
                       ("esc", "key"), (" cancel  ", "text"), (count, "muted"))  # fmt: skip
        self.query_one("#hint", Lines).show([keys])


def about_text(entry: Entry, glyphs: Glyphs) -> str:
    """Return what an entry does, or why it is impossible."""
    return spelled(entry.why_not[:1].upper() + entry.why_not[1:] if entry.why_not else entry.about, glyphs)


def entry_line(entry: Entry, width: int, glyphs: Glyphs, *, chosen: bool) -> Spans:
    """Return one line: title, description or reason, and the keys at the right."""
    sign = glyphs.cursor if chosen else " "
    name = f"{sign} {spelled(entry.title, glyphs):<{TITLE_WIDTH}} "
    room = max(width - len(name) - len(entry.keys) - 1, 0)
    text = cut(about_text(entry, glyphs) if room >= LEAST_ABOUT else "", room, glyphs)
    if chosen and not entry.why_not:
        return ((f"{name}{text} {entry.keys}", "chosen"),)
    if entry.why_not:
        return ((name, "muted"), (f"{text} ", "warn" if chosen else "muted"), (entry.keys, "muted"))
    return ((name, "strong"), (f"{text} ", "muted"), (entry.keys, "key"))


_INSIDE = 36
"""Cells of a line; `pages.tcss` sets the width of the box."""


class ThemeChoices(NamedTuple):
    """Content of the list of themes."""

    themes: tuple[tuple[str, str], ...]
    """Name and kind of each: `dark`, `light yours`, `dark textual`."""
    current: str
    broken: tuple[str, ...] = ()
    """Problems of the user's other files, with cause and remedy."""
    remark: str = ""
    """Why themes are missing, or look alike."""
    config_file: str = ""
    """The file in which a choice can be saved."""


class ThemesScreen(Box[None]):
    """Enter keeps the theme under the cursor, esc restores the old one."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,ctrl+c,q", "cancel"), ("G", "focused.last")]

    def __init__(self, choices: ThemeChoices, glyphs: Glyphs) -> None:
        super().__init__()
        self._choices, self._glyphs = choices, glyphs
        self._before = choices.current

    def compose(self) -> ComposeResult:
        """Yield the box."""
        with Vertical(id="box") as box:
            box.border_title = "Themes"
            yield PagedList(self._glyphs.cursor)
            yield Lines(classes="keys")

    def on_mount(self) -> None:
        """Put the cursor on the current theme."""
        self.show(self._choices)

    def show(self, choices: ThemeChoices) -> None:
        """List these themes, with the cursor on the current one."""
        self._choices = choices
        names = [name for name, _ in choices.themes]
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options(Option(_label(name, kind), name) for name, kind in choices.themes)
        options.highlighted = names.index(choices.current) if choices.current in names else 0
        self._explain(choices.current)

    def _explain(self, name: str) -> None:
        keys: Spans = (("enter", "key"), (" keep   ", "text"), ("esc", "key"), (" cancel", "text"))
        choices = self._choices
        lines: list[Spans] = [keys, *_keeping(name, choices.config_file)]
        for text in (*choices.broken, choices.remark):
            lines += wrapped(spelled(text, self._glyphs), _INSIDE, "warn")
        self.query_one(Lines).show(lines)

    @on(OptionList.OptionHighlighted)
    def _preview(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        if event.option_id is not None:
            self.app.theme = event.option_id
            self._explain(event.option_id)

    @on(OptionList.OptionSelected)
    def _keep(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(None)

    def action_cancel(self) -> None:
        """Restore the old theme and close."""
        self.app.theme = self._before
        self.dismiss(None)


def _label(name: str, kind: str) -> Text:
    """Return a line of the list: the name left, its kind right."""
    return Text(f" {name:<{_INSIDE - len(kind) - 3}} {kind}", no_wrap=True, overflow="ellipsis")


def _keeping(name: str, config_file: str) -> Sequence[Spans]:
    """Return how to keep the choice for good; the app never writes the config."""
    home = str(Path.home())
    where = f"~{config_file.removeprefix(home)}" if config_file.startswith(f"{home}/") else config_file
    return [(("Kept until you quit. To keep it, put", "muted"),), ((f'theme = "{name}"', "strong"),),
            *wrapped(f"in {where}", _INSIDE, "muted")]  # fmt: skip
