"""The part of the app that opens and closes what stands over the panes: pages, boxes, the zoom, the palette.

Screens that a key opens are imported by that key: they take 10 ms, which the first frame need not wait for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from textual import on
from textual.dom import DOMNode

from cpugpu_tui.ui import keys as commands
from cpugpu_tui.ui.controllers.themes import Theming
from cpugpu_tui.ui.keys import COMMAND_BY_ID, impossible
from cpugpu_tui.ui.panes.timing_table import TimingTable
from cpugpu_tui.ui.panes.timings import TimingsPane
from cpugpu_tui.ui.panes.workload import WorkloadPane
from cpugpu_tui.ui.screens.main import MainScreen
from cpugpu_tui.ui.screens.page import Page

if TYPE_CHECKING:
    from textual.actions import ActionParseResult

    from cpugpu_tui.ui.palette import Entry


class Paging(Theming):
    """Knows what is open."""

    # ---------------------------------------------------------------- commands

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Perform an action, or say why that is impossible now: a key that does nothing seems broken."""
        own = default_namespace is None or default_namespace is self
        command = commands.command_of(action) if isinstance(action, str) and own else None
        why = impossible(command, self.state.situation) if command is not None else ""
        if command is not None and why:
            name = commands.label(command, self.state.situation)
            self.say(self.state.keymap.said(f"{name}: {why}"))
            return True
        return await super().run_action(action, default_namespace, namespaces)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Refuse what is impossible now."""
        del parameters
        command = commands.command_of(action)
        return True if command is None or command.possible(self.state.situation) else None

    def action_open(self) -> None:
        """Open what has the focus, as enter does in a list."""
        for name in ("action_select_cursor", "action_select"):
            select = getattr(self.focused, name, None)
            if select is not None:
                select()
                return
        self.say(self.state.keymap.said("There is nothing to open here; {zoom} gives this pane the whole screen."))

    def action_palette(self) -> None:
        """Let the person find a command, a preset or a theme."""
        from cpugpu_tui.ui.palette import command_entries, theme_entries, workload_entries
        from cpugpu_tui.ui.screens.palette import PaletteScreen

        state, found = self.state, self._answered()
        masked = {name for name, (_, action) in found.items() if action == "nothing"}
        entries = command_entries(state.situation, state.keymap, masked)
        why_not = state.keymap.said(impossible(COMMAND_BY_ID["run"], state.situation))
        entries += workload_entries(self._summaries(), why_not)
        entries += theme_entries(self.theme_names, self.theme)

        async def do(entry: Entry | None) -> None:
            if entry is None:
                return
            if entry.kind == "theme":
                self.theme = entry.name
            elif entry.kind == "workload":
                self.run_named(entry.name)
            else:
                node, action = found.get(entry.name, (self, COMMAND_BY_ID[entry.name].action or ""))
                await self.run_action(action, node)

        self.push_screen(PaletteScreen(entries, self._glyphs), do)

    def _answered(self) -> dict[str, tuple[DOMNode, str]]:
        """Return who answers each command on the screen that is open, and by which action."""
        found: dict[str, tuple[DOMNode, str]] = {}
        for active in self.screen.active_bindings.values():
            if active.binding.id in COMMAND_BY_ID:
                found.setdefault(active.binding.id, (active.node, active.binding.action))
        return found

    def _summaries(self) -> list[tuple[str, str]]:
        main = next(screen for screen in self.screen_stack if isinstance(screen, MainScreen))
        return main.query_one(WorkloadPane).summaries

    def run_named(self, name: str) -> None:
        """Run a preset or a workload."""
        raise NotImplementedError

    # ---------------------------------------------------------------- pages

    def action_close(self) -> None:
        """Close the page, or the filter, or the zoom."""
        if isinstance(self.screen, Page):
            self.pop_screen()
        elif isinstance(self.screen, MainScreen):
            _ = self.drop_count() or self.screen.close_one() or self.return_to_present() or self.return_to_whole()

    async def action_filter(self) -> None:
        """Let the person type what rows they want."""
        from cpugpu_tui.ui.screens.history import HistoryScreen

        if isinstance(self.screen, MainScreen):
            await self.screen.query_one(TimingsPane).open_filter()
        elif isinstance(self.screen, HistoryScreen):
            self.screen.open_filter()

    def action_zoom(self) -> None:
        """Zoom the pane with the focus, or back; what the telemetry pane has to say takes a page for each GPU."""
        from cpugpu_tui.ui.screens.gpu import GpuScreen

        if isinstance(self.screen, GpuScreen):
            self.pop_screen()
        elif isinstance(self.screen, MainScreen) and self.screen.wants_gpu_page:
            self.push_screen(GpuScreen(self.state, self._glyphs))
        elif isinstance(self.screen, MainScreen):
            self.screen.zoom()

    def action_machine(self) -> None:
        """Show the machine card; pressed again, go back."""
        from cpugpu_tui.ui.screens.machine import MachineScreen

        if isinstance(self.screen, MachineScreen):
            self.pop_screen()
        else:
            self.push_screen(MachineScreen(self.state, self._glyphs))

    def action_claims(self) -> None:
        """Show what publications claim; pressed again, go back."""
        from cpugpu_tui.ui.screens.claims import ClaimsScreen

        if isinstance(self.screen, ClaimsScreen):
            self.pop_screen()
        else:
            self.push_screen(ClaimsScreen(self.state, self._glyphs, self.bridge.claim_points))

    def action_help(self) -> None:
        """Explain the pane with the focus; pressed again, go back."""
        from cpugpu_tui.ui.screens.help import HelpScreen

        if isinstance(self.screen, HelpScreen):
            self.pop_screen()
        else:
            topic = self.screen.focused_pane if isinstance(self.screen, MainScreen) else "timings"
            topic = self.screen.TOPIC if isinstance(self.screen, Page) else topic
            self.push_screen(HelpScreen(self.state, topic, self._glyphs))

    @on(TimingTable.RowChosen)
    def _open_row(self, message: TimingTable.RowChosen) -> None:
        from cpugpu_tui.ui.screens.detail.screen import DetailScreen

        self.push_screen(DetailScreen(self.state, message.row_key, self._glyphs))
