"""The fleet pages: a list of hosts or of all cases, and the cases of one host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from cpugpu_tui.render.fleet import FleetRow, FleetStanding, fleet_rows, host_rows, standing_of
from cpugpu_tui.session.fleet_state import FleetState, HostState
from cpugpu_tui.ui import keys
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.lines import Lines
from cpugpu_tui.ui.roles import Spans
from cpugpu_tui.ui.screens.fleet.lines import (
    case_heads,
    case_line,
    host_facts,
    host_heads,
    host_line,
    in_sight,
    name_width,
    padded,
    title_text,
)
from cpugpu_tui.ui.screens.page import MOVES, Page


class FleetList(Page, inherit_bindings=False):
    """A list with a cursor that draws only visible lines, because a hundred hosts have thousands of cases."""

    BINDINGS: ClassVar[list[BindingType]] = [*MOVES]
    AUTO_FOCUS = ""
    TOPIC = "fleet"
    DEFAULT_CSS = """
    FleetList #heads { height: 1; padding: 0 1; }
    FleetList #list { height: 1fr; padding: 0 1; }
    FleetList #about { height: auto; max-height: 6; padding: 0 1; background: $surface; }
    """

    def __init__(self, state: AppState, fleet: FleetState, glyphs: Glyphs) -> None:
        super().__init__(state)
        self.fleet, self.glyphs = fleet, glyphs
        self.index = self._top = 0
        self._judged: tuple[FleetState, FleetStanding] | None = None

    def compose(self) -> ComposeResult:
        """Yield title, list, the host under the cursor and the keys."""
        yield Lines(id="page-title")
        yield Lines(id="heads")
        yield Lines(id="list")
        yield Lines(id="about")
        yield Lines(id="page-keys")

    def show_fleet(self, fleet: FleetState) -> None:
        """Show a newer state."""
        self.fleet = fleet
        if self.is_mounted:
            self.redraw()

    # ---------------------------------------------------------------- to be overridden

    def count(self) -> int:
        """Return the number of lines of the list."""
        raise NotImplementedError

    def list_heads(self, width: int) -> Spans:
        """Return the headings."""
        raise NotImplementedError

    def list_line(self, index: int, width: int, *, chosen: bool) -> Spans:
        """Return a line of the list."""
        raise NotImplementedError

    def host(self) -> HostState:
        """Return the host under the cursor."""
        raise NotImplementedError

    # ---------------------------------------------------------------- drawing and moving

    def page_title(self) -> Spans:
        """Return the state of the fleet."""
        stopping = self.state.situation.stopping
        tag: Spans = ((" SIMULATED ", "tag"), (" ", "text")) if self._simulated else ()
        return (*tag, ("Fleet  ", "title"), (title_text(self.fleet, stopping=stopping), "text"))

    @property
    def _simulated(self) -> bool:
        return any(each.run.simulated for each in self.fleet.hosts.values())

    def draw(self) -> None:
        """Write the visible lines; unchanged lines are not repainted."""
        width, height, count = max(self.size.width - 2, 20), self.height, self.count()
        self.index = min(max(self.index, 0), max(count - 1, 0))
        self._top = in_sight(count, self.index, self._top, height)
        places = range(self._top, min(self._top + height, count))
        lines = [self.list_line(place, width, chosen=place == self.index) for place in places]
        self.query_one("#page-title", Lines).show([self.page_title()])
        self.query_one("#heads", Lines).show([self.list_heads(width)])
        self.query_one("#list", Lines).show(padded(lines, height))
        about, facts = self.query_one("#about", Lines), self._facts(width)
        if len(about.lines) != len(facts):
            self.call_after_refresh(self.redraw)  # the height of the list changes then
        about.show(facts)
        self.show_keys(self.page_keys())

    def _facts(self, width: int) -> list[Spans]:
        each = self.host()
        slow: Sequence[str] = ()
        if self.fleet.is_over:  # all hosts have the same cases then, and each state is judged once
            if self._judged is None or self._judged[0] is not self.fleet:
                self._judged = self.fleet, standing_of(fleet_rows(self.fleet))
            slow = self._judged[1].slow_of(each.host.host)
        return host_facts(each, slow, width, self.glyphs)

    @property
    def height(self) -> int:
        """Number of visible lines of the list."""
        return max(self.query_one("#list").size.height, 1) if self.is_mounted else 1

    def action_move(self, step: int) -> None:
        """Move the cursor and keep it visible."""
        self.index = min(max(self.index + step, 0), max(self.count() - 1, 0))
        self.redraw()

    def action_move_page(self, pages: int) -> None:
        """Move by one screen of lines."""
        self.action_move(pages * self.height)


class FleetScreen(FleetList):
    """All hosts, or all their cases; it is the lowest screen and never closes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *keys.bindings(["open"], "open_host"),
        *keys.bindings(["zoom"], "other_view"),
    ]

    def __init__(self, state: AppState, fleet: FleetState, glyphs: Glyphs) -> None:
        super().__init__(state, fleet, glyphs)
        self._shows_cases = False
        self._rows: list[FleetRow] = []

    def show_fleet(self, fleet: FleetState) -> None:
        """Show a newer state; the cursor stays on its case when others appear above it."""
        under = self._row_key()
        super().show_fleet(fleet)
        if under is not None:
            names = [(row.host, row.gpu, row.whole.case.key) for row in self._rows]
            if under in names and names.index(under) != self.index:
                self.index = names.index(under)
                self.redraw()

    def _row_key(self) -> tuple[object, ...] | None:
        if not self._shows_cases or not self._rows:
            return None
        row = self._rows[min(self.index, len(self._rows) - 1)]
        return row.host, row.gpu, row.whole.case.key

    def count(self) -> int:
        """Return the number of hosts or cases."""
        if not self._shows_cases:
            return len(self.fleet.hosts)
        self._rows = fleet_rows(self.fleet)
        return len(self._rows)

    def list_heads(self, width: int) -> Spans:
        """Return the headings of hosts or cases."""
        return case_heads(name_width(self.fleet), width) if self._shows_cases else host_heads(self.fleet, width)

    def list_line(self, index: int, width: int, *, chosen: bool) -> Spans:
        """Return a host or a case."""
        names = name_width(self.fleet)
        if self._shows_cases:
            return case_line(self._rows[index], names, width, self.glyphs, chosen=chosen)
        each = list(self.fleet.hosts.values())[index]
        return host_line(each, names, width, self.glyphs, chosen=chosen)

    def host(self) -> HostState:
        """Return the host under the cursor, or that of the case there."""
        hosts = list(self.fleet.hosts.values())
        if self._shows_cases and self._rows:
            return self.fleet.hosts[self._rows[min(self.index, len(self._rows) - 1)].host]
        return hosts[min(self.index, len(hosts) - 1)]

    def page_keys(self) -> Sequence[tuple[str, str]]:
        """Return the keys of this page."""
        other = "hosts" if self._shows_cases else "all cases"
        stop = () if self.fleet.is_over else (("{stop}", "stop now" if self.state.situation.stopping else "stop"),)
        return (
            ("enter", "cases"), ("{zoom}", other), *stop, ("{next-theme}", "theme"), ("{help}", "help"),
            ("{quit}", "quit"), ("j k", "move"),
        )  # fmt: skip

    def action_other_view(self) -> None:
        """Switch between hosts and all cases; the cursor stays on its host."""
        name = self.host().host.host
        self._shows_cases = not self._shows_cases
        self.index = self._top = 0
        if self._shows_cases:
            self.count()
            self.index = next((place for place, row in enumerate(self._rows) if row.host == name), 0)
        else:
            self.index = list(self.fleet.hosts).index(name)
        self.redraw()

    def action_open_host(self) -> None:
        """Show the cases of the host under the cursor."""
        self.app.push_screen(HostScreen(self.state, self.fleet, self.glyphs, self.host().host.host))


class HostScreen(FleetList):
    """One host: its cases on each of its GPUs, and its answer."""

    TOPIC = "host"

    def __init__(self, state: AppState, fleet: FleetState, glyphs: Glyphs, name: str) -> None:
        super().__init__(state, fleet, glyphs)
        self._host_name = name
        self._rows: list[FleetRow] = []

    def count(self) -> int:
        """Return the number of its cases."""
        self._rows = list(host_rows(self.host()))
        return len(self._rows)

    def list_heads(self, width: int) -> Spans:
        """Return the headings of cases."""
        return case_heads(0, width) if self._rows else ()

    def list_line(self, index: int, width: int, *, chosen: bool) -> Spans:
        """Return a case."""
        return case_line(self._rows[index], 0, width, self.glyphs, chosen=chosen)

    def host(self) -> HostState:
        """Return the host."""
        return self.fleet.hosts[self._host_name]

    def page_keys(self) -> Sequence[tuple[str, str]]:
        """Return the keys of this page."""
        return (("{back}", "back"), ("{help}", "help"), ("j k", "move"))
