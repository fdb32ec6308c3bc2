"""The footer: the keys that work now. Labels follow the state, and impossible commands are dimmed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from textual.binding import Binding
from textual.geometry import Size
from textual.screen import Screen

from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.keys import COMMAND_BY_ID, COMMANDS, DEFAULT_KEYMAP, Command, Keymap, Situation, key_name, label
from cpugpu_tui.ui.panes.lines import Spans, StatePane

IMPORTANCE = (
    "run", "pause", "stop", "help", "filter", "chart", "quit", "find", "own-code", "open", "history", "zoom", "claims",
    "machine", "next-theme", "next-pane", "palette", "sort",
)  # fmt: skip
"""Commands of the footer, most important first; at least seven fit into 80 columns. Impossible ones come last."""


SMALL_WIDTH = 60
"""Below this width there is room for three or four keys: these of `IN_SMALL` come first."""
IN_SMALL = ("run", "pause", "stop", "help", "quit", "open")


class KeysPane(StatePane):
    """One line at the bottom."""

    def on_mount(self) -> None:
        """Let clicks press the keys."""
        self.add_class("keys")

    def draw(self, state: AppState, size: Size) -> Sequence[Spans]:
        """Return the line; while the filter has the focus, its keys."""
        if not self.is_mounted:
            return (keys_line(state.situation, size.width, state.keymap),)
        focused = self.screen.focused
        if focused is not None and focused.id == "filter":
            back = state.keymap.of("back")
            return (((" enter", "key"), (" Keep  ", "text"), (back, "key"), (" Show all", "text")),)
        situation = state.situation._replace(zoomed=self.screen.has_class("-zoomed"))
        return (keys_line(situation, size.width, state.keymap, working_keys(self.screen, state.keymap)),)


SELECTS = ("select", "select_cursor")
"""Actions of a list and a table on `enter`."""


def working_keys(screen: Screen[Any], keymap: Keymap) -> dict[str, str]:
    """Return command → its first key that works with the current focus; empty while a dialog is open.

    For example a list uses `k` itself, and a field takes every letter.
    """
    found: dict[str, str] = {}
    if screen.app.screen is not screen:
        return found
    active, focused = screen.active_bindings, screen.focused
    for command in COMMANDS:
        for key in keymap.keys[command.id]:
            name = "comma" if key == "," else next(iter(Binding.make_bindings([Binding(key, "")]))).key
            # Textual's own check misses keys whose name is not their character, such as "slash".
            if len(key) == 1 and focused is not None and focused.check_consume_key(name, key):
                continue
            bound = active.get(name)
            action = bound.binding.action.removeprefix("app.") if bound is not None else ""
            if action == command.action or (command.id == "open" and action in SELECTS):
                found.setdefault(command.id, key_name(key))
    return found


def keys_line(
    situation: Situation, width: int, keymap: Keymap = DEFAULT_KEYMAP, working: Mapping[str, str] | None = None
) -> Spans:
    """Return the keys that fit into `width` cells: the most important commands, in the order of `COMMANDS`.

    `working` maps each command to a key that works now; None for all in the keymap.
    """
    if working is None:
        working = {command.id: keymap.of(command.id) for command in COMMANDS}
    fitting: list[Command] = []
    used = 1
    # The keys that leave a saved run and the zoom come first.
    first = (*(("history",) if situation.past else ()), *(("zoom",) if situation.zoomed else ()))
    names = dict.fromkeys((*first, *(IN_SMALL if width < SMALL_WIDTH else ()), *IMPORTANCE))
    commands = [COMMAND_BY_ID[name] for name in names if name in working]
    for command in sorted(commands, key=lambda command: not command.possible(situation)):
        name = command.id
        used += len(working[name]) + 1 + len(label(command, situation)) + (2 if fitting else 0)
        if used > width:
            break
        fitting.append(command)
    spans: list[tuple[str, str]] = []
    for command in sorted(fitting, key=COMMANDS.index):
        possible = command.possible(situation)
        spans += [("  " if spans else " ", "text"), (working[command.id], "key" if possible else "muted")]
        spans += [(f" {label(command, situation)}", "text" if possible else "muted")]
    return tuple(spans)
