"""The palette: finds a command, a preset or a theme, and performs it.

Textual's own palette (`Provider`, `CommandPalette`) cannot show why a command is impossible, does not list or find
keys, and accepts pastes of any length.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from textual.dom import DOMNode

from cpugpu_tui.ui.controllers.app_port import Port, main_screen
from cpugpu_tui.ui.controllers.themes import Themes
from cpugpu_tui.ui.keys import COMMAND_BY_ID, impossible
from cpugpu_tui.ui.panes.workload import WorkloadPane

if TYPE_CHECKING:
    from cpugpu_tui.ui.screens.palette import Entry


class Palette:
    """Offers commands, workloads and themes by name."""

    def __init__(
        self,
        port: Port,
        themes: Themes,
        run_named: Callable[[str], None],
        perform: Callable[[str, DOMNode | None], Awaitable[object]],
    ) -> None:
        """`perform` runs an action of a node (None: of the app); `run_named` runs a preset or workload."""
        self._port, self._themes, self._run_named, self._perform = port, themes, run_named, perform

    def open(self) -> None:
        """Open the palette and perform the chosen entry."""
        from cpugpu_tui.ui.screens.palette import PaletteScreen, command_entries, theme_entries, workload_entries

        state, found, main = self._port.state, self._answered(), main_screen(self._port)
        masked = {name for name, (_, action) in found.items() if action == "nothing"}
        entries = command_entries(state.situation, state.keymap, masked)
        why_not = state.keymap.with_keys(impossible(COMMAND_BY_ID["run"], state.situation))
        entries += workload_entries(main.query_one(WorkloadPane).summaries if main is not None else (), why_not)
        entries += theme_entries(self._themes.names, self._themes.current)

        async def do(entry: Entry | None) -> None:
            if entry is None:
                return
            if entry.kind == "theme":
                self._themes.put_on(entry.name)
            elif entry.kind == "workload":
                self._run_named(entry.name)
            else:
                node, action = found.get(entry.name, (None, COMMAND_BY_ID[entry.name].action))
                await self._perform(action, node)

        self._port.push_screen(PaletteScreen(entries, self._port.glyphs), do)

    def _answered(self) -> dict[str, tuple[DOMNode, str]]:
        """Return command id → node and action that answer it on the open screen."""
        found: dict[str, tuple[DOMNode, str]] = {}
        for active in self._port.screen.active_bindings.values():
            if active.binding.id in COMMAND_BY_ID:
                found.setdefault(active.binding.id, (active.node, active.binding.action))
        return found
