"""What the palette finds: every command, preset, workload and theme, ranked by what is typed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from textual.fuzzy import FuzzySearch

from cpugpu_tui.ui.custom_keys import Keymap
from cpugpu_tui.ui.keys import COMMANDS, Situation, impossible, label

COMMAND, WORKLOAD, THEME = "command", "workload", "theme"
"""Kinds of entries."""

HERE = "that is for the run in the panes; {back} goes back there."

_SEARCH = FuzzySearch()


@dataclass(frozen=True)
class Entry:
    """One line of the palette."""

    kind: str
    name: str
    """Id of the command, name of the workload or the theme."""
    title: str
    """What it is found by."""
    about: str
    """What it does, in one sentence."""
    keys: str = ""
    """Keys that do the same, as people write them."""
    why_not: str = ""
    """Why it is impossible now and what to do about it; empty if it is possible."""


def command_entries(situation: Situation, keymap: Keymap, masked: Collection[str] = ()) -> list[Entry]:
    """Return the commands; `masked` ones are not answered by the page that is open."""
    found = []
    for command in COMMANDS:
        why = HERE if command.id in masked else impossible(command, situation)
        if command.action is not None and command.id != "palette":
            text = keymap.text(command.id)
            found.append(
                Entry(COMMAND, command.id, label(command, situation), command.help, text, keymap.said(why))
            )  # fmt: skip
    return found


def workload_entries(summaries: Iterable[tuple[str, str]], why_not: str) -> list[Entry]:
    """Return an entry for each preset and workload, by name and summary; `why_not`: why nothing can be run now."""
    return [Entry(WORKLOAD, name, f"Run {name}", about, why_not=why_not) for name, about in summaries]


def theme_entries(names: Iterable[str], current: str) -> list[Entry]:
    """Return an entry for each theme."""
    return [
        Entry(
            THEME, name, f"Theme {name}", "This is the theme in force." if name == current else "Change to this theme."
        )
        for name in names
    ]


def ranked(entries: Sequence[Entry], typed: str) -> list[Entry]:
    """Return the entries that hold what is typed, the likeliest first; all of them, as they are, if nothing is.

    Letters of the title in their order find it, `rq` finds `Run quick`; whole words find what a command does.
    """
    wanted = typed.strip()
    if not wanted:
        return list(entries)
    scored = [(_score(wanted, entry), entry) for entry in entries]
    return [entry for score, entry in sorted(scored, key=lambda pair: -pair[0]) if score > 0]


@lru_cache(maxsize=4096)  # every letter asks for all of them
def _score(wanted: str, entry: Entry) -> float:
    if wanted == entry.keys or wanted in entry.keys.split(", "):
        return 1e6  # the key itself was typed: that is what it does
    title = entry.title.lower()
    low = wanted.lower()
    if low == entry.name:
        return 2e5  # of `paper` and `cvd-paper` the former
    if title.startswith(low):
        return 1e5 - len(title)
    score = float(_SEARCH.match(wanted, entry.title)[0])
    if low in title:
        score += 1e3
    if score <= 0 and all(word in f"{title} {entry.about.lower()}" for word in low.split()):
        score = 0.01
    return score
