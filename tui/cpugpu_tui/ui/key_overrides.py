"""The keys in force: those of the registry, replaced by those of the config's table `[keys]`.

Textual ignores unknown ids and keys, and lets a clash steal the key, so everything is checked here at load.
Nothing here imports Textual, because every command checks the config.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cpugpu_tui.config.settings import KeyLine
from cpugpu_tui.errors import UsageError
from cpugpu_tui.machine.text import printable
from cpugpu_tui.ui.keys import COMMAND_BY_ID, COMMANDS, keys_text

KEPT = {"open": "enter", "back": "escape", "next-pane": "tab", "quit": "ctrl+c"}
"""Keys that a command keeps beside those of the config: boxes and lists use them, and a way out must remain."""

TAKEN: dict[str, str] = {
    **dict.fromkeys(("j", "k", "G", "up", "down", "left", "right"), "moves in lists"),
    **dict.fromkeys(("home", "end", "pageup", "pagedown"), "moves in lists"),
    **dict.fromkeys("0123456789", "sets the repeats"),
    "g": "goes to the first line of a page",
    "shift+tab": "goes to the previous pane", "ctrl+q": "quits the app", "l": "changes tags in the history",
    "d": "deletes in the history", "o": "chooses an older series", "n": "chooses a newer series",
    "X": "changes the chart's sizes", "Y": "changes the chart's times",
}  # fmt: skip
"""Keys that a list or a page uses itself, so that a command on them could not be reached → what they do."""

NAMED = frozenset({
    "space", "enter", "escape", "tab", "backspace", "delete", "insert", "home", "end", "pageup", "pagedown", "up",
    "down", "left", "right", *(f"f{number}" for number in range(1, 25)),
})  # fmt: skip
"""Textual's names of keys that type no character."""

ALIASES = {"esc": "escape", "return": "enter", "del": "delete", "pgup": "pageup", "pgdn": "pagedown", "ctrl+i": "tab",
           "ctrl+m": "enter", " ": "space"}  # fmt: skip
"""Other names of keys; a terminal cannot tell ctrl+i from tab."""

_MODIFIERS = ("ctrl", "alt", "shift")


class Keymap(NamedTuple):
    """The keys in force."""

    keys: Mapping[str, tuple[str, ...]]
    """Command id → its keys as people write them; the first is shown."""

    def of(self, command_id: str) -> str:
        """Return the first key of a command."""
        return keys_text(self.keys[command_id][:1])

    def text(self, command_id: str) -> str:
        """Return all keys of a command, `q, ctrl+c`."""
        return keys_text(self.keys[command_id])

    def with_keys(self, sentence: str) -> str:
        """Return a sentence with each command id in braces replaced by its key: `Press {run}.` → `Press r.`."""
        return re.sub(
            r"\{([a-z-]+)\}", lambda found: self.of(found[1]) if found[1] in self.keys else found[0], sentence
        )

    def for_textual(self) -> dict[str, str]:
        """Return the changed keys in the form of Textual's `set_keymap`."""
        return {
            command.id: ",".join("comma" if key == "," else key for key in self.keys[command.id])
            for command in COMMANDS
            if self.keys[command.id] != command.keys
        }


DEFAULT_KEYMAP = Keymap({command.id: command.keys for command in COMMANDS})
"""The registry's keys."""


def keymap_of(lines: Iterable[KeyLine]) -> Keymap:
    """Return the keymap of a config.

    Raises:
        UsageError: a command or key is unknown, or two commands share a key; the message names the line.
    """
    asked = {line.command: line for line in lines}
    keys = dict(DEFAULT_KEYMAP.keys)
    for line in asked.values():
        if line.command not in keys:
            import difflib

            near = difflib.get_close_matches(line.command, keys, 1, cutoff=0.5)
            remedy = f"Did you mean {near[0]}?" if near else f"Use one of: {', '.join(keys)}."
            raise _wrong(line, f"Unknown command {printable(line.command)!r}.", remedy)
        named = tuple(dict.fromkeys(_checked(line, key) for key in line.keys))
        kept = KEPT.get(line.command)
        keys[line.command] = (*named, kept) if kept is not None and kept not in named else named
    for line in asked.values():
        _refuse_clash(line, keys, asked)
    return Keymap(keys)


def _refuse_clash(line: KeyLine, keys: Mapping[str, tuple[str, ...]], asked: Mapping[str, KeyLine]) -> None:
    own = COMMAND_BY_ID[line.command]
    for key in keys[line.command]:
        if key in TAKEN and key not in own.keys:
            raise _wrong(line, f"Key {key} already {TAKEN[key]}.", "Choose another key.")
        other = next((each for each in COMMANDS if each is not own and key in keys[each.id]), None)
        if other is not None:
            also = asked.get(other.id)
            where = f" (line {also.line})" if also is not None and also.line else ""
            remedy = "Choose another key" + ("." if other.id in KEPT else f", or give {other.id} another one.")
            raise _wrong(line, f"Key {key} already belongs to {other.id}{where}.", remedy)


def _checked(line: KeyLine, text: str) -> str:
    """Return the key in its normal form.

    Raises:
        UsageError: no terminal sends it.
    """
    wrong = _wrong(
        line, f"Unknown key {printable(text)!r}.",
        "Use one character or a name such as space, tab, f5 or up; ctrl+, alt+ or shift+ may precede it.",
    )  # fmt: skip
    if text == "+":
        return text
    *modifiers, key = text.split("+") if not text.endswith("++") else [*text[:-2].split("+"), "+"]
    modifiers = [each.lower() for each in modifiers]
    if len(key) > 1:
        key = key.lower()
    key = ALIASES.get(key, key)
    is_character = len(key) == 1 and key.isprintable() and not key.isspace()
    if not (key in NAMED or is_character) or any(each not in _MODIFIERS for each in modifiers):
        raise wrong
    if is_character and modifiers:
        if "shift" in modifiers:
            raise _wrong(line, f"No terminal sends {printable(text)}.", f"Use the character itself: {key.upper()}.")
        if not (key.isascii() and key.isalnum()):
            raise wrong  # terminals differ in what they send for these
        key = key.lower()
    whole = "+".join([*(each for each in _MODIFIERS if each in modifiers), key])
    return ALIASES.get(whole, whole)


def _wrong(line: KeyLine, message: str, remedy: str) -> UsageError:
    return UsageError(f"{line.where}: {message}", remedy)
