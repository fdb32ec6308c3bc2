"""The footer: what can be pressed now; labels follow the state, what is impossible is dimmed."""

from __future__ import annotations

from collections.abc import Sequence

from textual.geometry import Size

from cpugpu_tui.ui.commands import COMMANDS, Situation, key_name, label
from cpugpu_tui.ui.panes.lines import PicturePane
from cpugpu_tui.ui.picture import Picture
from cpugpu_tui.ui.roles import Spans


class KeysPane(PicturePane):
    """One line at the bottom."""

    def draw(self, picture: Picture, size: Size) -> Sequence[Spans]:
        """Return the line."""
        return (keys_line(picture.situation, size.width),)


def keys_line(situation: Situation, width: int) -> Spans:
    """Return the footer's keys, then as many of the others as fit into `width` cells."""
    others = [command for name in ("quit", "open", "next-pane") for command in COMMANDS if command.id == name]
    ordered = [command for command in COMMANDS if command.footer] + others
    spans: list[tuple[str, str]] = []
    used = 1
    for command in ordered:
        key, name = key_name(command.keys[0]), label(command, situation)
        used += len(key) + 1 + len(name) + (2 if spans else 0)
        if used > width:
            break
        possible = command.possible(situation)
        spans += [("  " if spans else " ", "text"), (key, "key" if possible else "muted")]
        spans += [(f" {name}", "text" if possible else "muted")]
    return tuple(spans)
