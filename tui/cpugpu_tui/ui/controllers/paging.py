"""Pages, boxes, filter, zoom and palette; the rows' order and the chart's axes; and quitting."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from textual.dom import DOMNode

from cpugpu_tui.ui.app_state import Order
from cpugpu_tui.ui.controllers.themes import ThemeSwitcher
from cpugpu_tui.ui.keys import COMMAND_BY_ID, impossible
from cpugpu_tui.ui.live.messages import HeadingClicked, RowChosen
from cpugpu_tui.ui.panes.workload import WorkloadPane
from cpugpu_tui.ui.screens.main import MainScreen
from cpugpu_tui.ui.screens.page import ConfirmScreen, Page
from cpugpu_tui.ui.shell import Shell

if TYPE_CHECKING:
    from cpugpu_tui.ui.screens.palette import Entry


class Paging:
    """Opens and closes pages by key."""

    def __init__(
        self, app: Shell[Any], also_close: Sequence[Callable[[], bool]] = (), help_commands: Collection[str] = ()
    ) -> None:
        """Call `also_close` in order when no page is open, until one returns True.

        `help_commands` are the commands on the second page of help; empty: all.
        """
        self._app, self._also_close, self._help_commands = app, also_close, help_commands

    def open(self) -> None:
        """Open the row or entry under the cursor."""
        app, focused = self._app, self._app.screen.focused
        select = getattr(focused, "action_select_cursor", None) or getattr(focused, "action_select", None)
        if select is not None:
            select()
        else:
            app.say(app.state.keymap.with_keys("This pane has nothing to open; press {zoom} to zoom it."))

    def close(self) -> None:
        """Close the page, the filter or the zoom; the lowest screen stays open."""
        screen = self._app.screen
        if isinstance(screen, Page) and len(self._app.screen_stack) > 1:
            self._app.pop_screen()
        elif isinstance(screen, MainScreen):
            any(close() for close in self._also_close)

    async def filter(self) -> None:
        """Open the filter of the timings or of the history."""
        from cpugpu_tui.ui.screens.history import HistoryScreen

        screen = self._app.screen
        if isinstance(screen, MainScreen):
            await screen.open_filter()
        elif isinstance(screen, HistoryScreen):
            screen.open_filter()

    def zoom(self) -> None:
        """Zoom the focused pane, or zoom out; the telemetry pane opens its pages instead."""
        from cpugpu_tui.ui.screens.gpu import GpuScreen

        app, screen = self._app, self._app.screen
        if isinstance(screen, GpuScreen):
            app.pop_screen()
        elif isinstance(screen, MainScreen) and screen.wants_gpu_page:
            app.push_screen(GpuScreen(app.state, app.glyphs))
        elif isinstance(screen, MainScreen):
            screen.zoom()

    def toggle_machine(self) -> None:
        """Open or close the machine card."""
        from cpugpu_tui.ui.screens.machine import MachineScreen

        self._app.toggle(MachineScreen, lambda: MachineScreen(self._app.state, self._app.glyphs))

    def toggle_help(self) -> None:
        """Show the keys of the pane with the focus; pressed again: all keys and words; then go back."""
        from cpugpu_tui.ui.screens.help import HelpScreen

        app, screen = self._app, self._app.screen
        if isinstance(screen, HelpScreen) and screen.turn():
            return
        topic = screen.focused_pane if isinstance(screen, MainScreen) else "timings"
        topic = screen.TOPIC if isinstance(screen, Page) else topic
        app.toggle(HelpScreen, lambda: HelpScreen(app.state, topic, app.glyphs, self._help_commands))


class Palette:
    """Offers commands, workloads and themes by name, and performs what is chosen.

    Textual's own palette (`Provider`, `CommandPalette`) cannot show why a command is impossible, does not list or find
    keys, and accepts pastes of any length.
    """

    def __init__(
        self, app: Shell[Any], themes: ThemeSwitcher, run_named: Callable[[str], None],
        perform: Callable[[str, DOMNode | None], Awaitable[object]],
    ) -> None:  # fmt: skip
        """`perform` runs an action of a node (None: of the app); `run_named` runs a preset or workload."""
        self._app, self._themes, self._run_named, self._perform = app, themes, run_named, perform

    def open(self) -> None:
        """Open the palette and perform the chosen entry."""
        from cpugpu_tui.ui.screens.palette import PaletteScreen, command_entries, theme_entries, workload_entries

        state, main = self._app.state, self._app.main_screen
        found: dict[str, tuple[DOMNode, str]] = {}
        """Command id → node and action that answer it on the open screen."""
        for active in self._app.screen.active_bindings.values():
            if active.binding.id in COMMAND_BY_ID:
                found.setdefault(active.binding.id, (active.node, active.binding.action))
        # The open page binds commands that it does not answer to `nothing`.
        masked = {name for name, (_, action) in found.items() if action == "nothing"}
        entries = command_entries(state.situation, state.keymap, masked)
        why_not = state.keymap.with_keys(impossible(COMMAND_BY_ID["run"], state.situation))
        entries += workload_entries(main.query_one(WorkloadPane).summaries if main is not None else (), why_not)
        entries += theme_entries(self._themes.names, self._app.theme)

        async def do(entry: Entry | None) -> None:
            if entry is None:
                return
            if entry.kind == "theme":
                self._app.theme = entry.name
            elif entry.kind == "workload":
                self._run_named(entry.name)
            else:
                node, action = found.get(entry.name, (None, COMMAND_BY_ID[entry.name].action))
                await self._perform(action, node)

        self._app.push_screen(PaletteScreen(entries, self._app.glyphs), do)


class Timings:
    """Changes how rows are shown: their order, the one under the cursor, its detail, the chart and the what-if."""

    def __init__(self, app: Shell[Any]) -> None:
        self._app = app

    def highlight(self, row_key: str | None) -> None:
        """Make a row the subject of chart, answer and detail; None in an empty table."""
        if row_key != self._app.state.cursor:
            self._app.change(cursor=row_key)

    def open_row(self, message: RowChosen) -> None:
        """Show the detail of a row."""
        from cpugpu_tui.ui.screens.detail import DetailScreen

        self._app.push_screen(DetailScreen(self._app.state, message.row_key, self._app.glyphs))

    def toggle_chart(self) -> None:
        """Open or close the chart page."""
        from cpugpu_tui.ui.chart import ChartScreen

        self._app.toggle(ChartScreen, lambda: ChartScreen(self._app.state, self._app.glyphs))

    def what_if(self) -> None:
        """Switch to the next what-if."""
        from cpugpu_tui.ui.panes.run_answer import next_what_if

        state = self._app.state
        self._app.change(what_if=next_what_if(state.run, state.what_if))

    def sort(self) -> None:
        """Sort by the next column."""
        from cpugpu_tui.ui.panes.timing_columns import next_order

        self._app.change(order=next_order(self._app.state.order))

    def sort_by(self, message: HeadingClicked) -> None:
        """Sort by the column that was clicked; clicked again, reverse."""
        from cpugpu_tui.ui.panes.timing_columns import BY_COLUMN

        order, name = self._app.state.order, BY_COLUMN.get(message.column_key)
        if name is None:
            self._app.say("The rows cannot be sorted by this column.")
        else:
            self._app.change(order=order.reverse() if order.by == name else Order(name))

    def reverse(self) -> None:
        """Reverse the sort order."""
        self._app.change(order=self._app.state.order.reverse())

    def toggle_axis(self, axis: str) -> None:
        """Switch an axis between linear and logarithmic: `linear_sizes` or `linear_times`."""
        self._app.change(**{axis: not getattr(self._app.state, axis)})

    def move(self, step: int) -> None:
        """Highlight the next or previous row while the chart covers the timings."""
        main = self._app.main_screen
        if main is not None:
            main.move_cursor(step)


class Leaving:
    """Asks, stops the work, and exits when it has ended or after a grace period."""

    def __init__(
        self, app: Shell[Any], is_busy: Callable[[], bool], stop: Callable[[], object], leave: Callable[[int], object],
        question: tuple[str, str, str], grace_s: float,
    ) -> None:  # fmt: skip
        """Stop work with `stop` while `is_busy`; end the app with `leave`, which takes the exit code.

        `question` has three texts: the question while work runs, the label of the answer that lets it run, and the
        question once the work has ended. `grace_s` is how long to wait for the work to end.
        """
        self._app, self._is_busy, self._stop, self._leave = app, is_busy, stop, leave
        self._question, self._grace_s = question, grace_s
        self._box: ConfirmScreen | None = None

    def ask(self) -> None:
        """Quit; ask first while something runs, except in a demo."""
        if not self._is_busy() or self._app.state.situation.demo:
            self.leave()
            return

        def decide(yes: bool | None) -> None:
            if yes:
                self.leave()

        question, keep, _ = self._question
        self._box = ConfirmScreen(question, "stop and quit", keep)
        self._app.push_screen(self._box, decide)

    def leave(self, code: int = 0) -> None:
        """Stop the work, then exit after its end or the grace period; agents that are left end by themselves."""
        if self._app.exit_code is not None and code == 0:  # leaving already; only a signal changes the code
            return
        self._app.exit_code = code
        if not self._is_busy():
            self.exit_if_leaving()
            return
        self._stop()
        self._app.set_timer(self._grace_s, self.exit_if_leaving)

    def exit_if_leaving(self, _: object = None) -> None:
        """Exit if the app is leaving, else correct an open question. Called after the work or the grace period ends."""
        if self._app.exit_code is not None:
            self._leave(self._app.exit_code)
        elif self._box is not None:
            self._box.ask(self._question[2], "quit", "stay")
