"""The footer: what can be pressed now; labels follow the state, what is impossible is dimmed."""

from __future__ import annotations

from collections.abc import Sequence

from textual.geometry import Size

from cpugpu_tui.ui.commands import COMMAND_BY_ID, COMMANDS, Command, Situation, label
from cpugpu_tui.ui.keymap import DEFAULT_KEYMAP, Keymap
from cpugpu_tui.ui.panes.lines import PicturePane
from cpugpu_tui.ui.picture import Picture
from cpugpu_tui.ui.roles import Spans

IMPORTANCE = (
    "run", "pause", "stop", "help", "filter", "chart", "quit", "find", "open", "history", "zoom", "claims", "machine",
    "next-theme", "next-pane", "palette", "sort",
)  # fmt: skip
"""Commands that the footer names, from those that a narrow terminal keeps; seven fit into 80 columns at any time."""


class KeysPane(PicturePane):
    """One line at the bottom."""

    def draw(self, picture: Picture, size: Size) -> Sequence[Spans]:
        """Return the line."""
        return (keys_line(picture.situation, size.width, picture.keymap),)


def keys_line(situation: Situation, width: int, keymap: Keymap = DEFAULT_KEYMAP) -> Spans:
    """Return the keys that fit into `width` cells, the footer's own before the others, in the order of the table."""
    kept: list[Command] = []
    used = 1
    # Beside a saved run the way back comes first.
    for name in dict.fromkeys(("history", *IMPORTANCE) if situation.past else IMPORTANCE):
        command = COMMAND_BY_ID[name]
        used += len(keymap.of(command.id)) + 1 + len(label(command, situation)) + (2 if kept else 0)
        if used > width:
            break
        kept.append(command)
    spans: list[tuple[str, str]] = []
    for command in sorted(kept, key=COMMANDS.index):
        possible = command.possible(situation)
        spans += [("  " if spans else " ", "text"), (keymap.of(command.id), "key" if possible else "muted")]
        spans += [(f" {label(command, situation)}", "text" if possible else "muted")]
    return tuple(spans)
