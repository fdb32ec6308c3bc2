"""Opens and closes what stands over the panes: pages, boxes, the zoom.

Screens that a key opens are imported by that key: they take 10 ms, which the first frame need not wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from cpugpu_tui.ui.controllers.app_port import Port, toggle
from cpugpu_tui.ui.panes.timings_pane import TimingsPane
from cpugpu_tui.ui.screens.main import MainScreen
from cpugpu_tui.ui.screens.page import Page


class Paging:
    """Knows what is open."""

    def __init__(
        self, port: Port, also_close: Sequence[Callable[[], bool]] = (), help_lists: Collection[str] = ()
    ) -> None:
        """Close, where nothing is open, with the first of `also_close` that returns True.

        `help_lists` are the commands that help lists, all of them if it is empty.
        """
        self._port, self._also_close, self._help_lists = port, also_close, help_lists

    def open(self) -> None:
        """Open what has the focus, as enter does in a list."""
        for name in ("action_select_cursor", "action_select"):
            select = getattr(self._port.screen.focused, name, None)
            if select is not None:
                select()
                return
        nothing = "There is nothing to open here; {zoom} gives this pane the whole screen."
        self._port.say(self._port.state.keymap.said(nothing))

    def close(self) -> None:
        """Close the page, or the filter, or the zoom; the lowest screen is never closed."""
        screen = self._port.screen
        if isinstance(screen, Page) and len(self._port.screen_stack) > 1:
            self._port.pop_screen()
        elif isinstance(screen, MainScreen):
            any(close() for close in self._also_close)

    async def filter(self) -> None:
        """Let the person type what rows they want."""
        from cpugpu_tui.ui.screens.history import HistoryScreen

        screen = self._port.screen
        if isinstance(screen, MainScreen):
            await screen.query_one(TimingsPane).open_filter()
        elif isinstance(screen, HistoryScreen):
            screen.open_filter()

    def zoom(self) -> None:
        """Zoom the pane with the focus, or back; what the telemetry pane has to say takes a page for each GPU."""
        from cpugpu_tui.ui.screens.gpu import GpuScreen

        port, screen = self._port, self._port.screen
        if isinstance(screen, GpuScreen):
            port.pop_screen()
        elif isinstance(screen, MainScreen) and screen.wants_gpu_page:
            port.push_screen(GpuScreen(port.state, port.glyphs))
        elif isinstance(screen, MainScreen):
            screen.zoom()

    def toggle_machine(self) -> None:
        """Show the machine card; pressed again, go back."""
        from cpugpu_tui.ui.screens.machine import MachineScreen

        toggle(self._port, MachineScreen, lambda: MachineScreen(self._port.state, self._port.glyphs))

    def toggle_help(self) -> None:
        """Explain the pane with the focus; pressed again, go back."""
        from cpugpu_tui.ui.screens.help import HelpScreen

        port, screen = self._port, self._port.screen
        topic = screen.focused_pane if isinstance(screen, MainScreen) else "timings"
        topic = screen.TOPIC if isinstance(screen, Page) else topic
        toggle(port, HelpScreen, lambda: HelpScreen(port.state, topic, port.glyphs, self._help_lists))
