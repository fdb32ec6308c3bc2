"""The fleet pages: a list of hosts or of all cases, and the cases of one host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType

from cpugpu_tui.render.fleet import FleetRow, FleetStanding, fleet_rows, host_rows, standing_of
from cpugpu_tui.session.fleet.state import FleetState, HostState
from cpugpu_tui.ui import keys
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.lines import Spans
from cpugpu_tui.ui.screens.fleet.lines import (
    case_heads,
    case_line,
    host_facts,
    host_heads,
    host_line,
    name_width,
    title_text,
)
from cpugpu_tui.ui.screens.page import ListPage


class FleetList(ListPage):
    """A list of hosts or cases, and the host under the cursor."""

    TOPIC = "fleet"

    def __init__(self, state: AppState, fleet: FleetState, glyphs: Glyphs) -> None:
        super().__init__(state, glyphs)
        self.fleet = fleet
        self._rows: list[FleetRow] = []
        self._judged: tuple[FleetState, FleetStanding] | None = None

    def show_fleet(self, fleet: FleetState) -> None:
        """Show a newer state."""
        self.fleet = fleet
        if self.is_mounted:
            self.redraw()

    def host(self) -> HostState:
        """Return the host under the cursor."""
        raise NotImplementedError

    def page_title(self) -> Spans:
        """Return the state of the fleet."""
        is_simulated = any(each.run.simulated for each in self.fleet.hosts.values())
        tag: Spans = ((" SIMULATED ", "tag"), (" ", "text")) if is_simulated else ()
        text = title_text(self.fleet, stopping=self.state.situation.stopping)
        return (*tag, ("Fleet  ", "title"), (text, "text"))

    def about_lines(self, width: int) -> list[Spans]:
        """Return the facts of the host under the cursor."""
        each = self.host()
        slow: Sequence[str] = ()
        if self.fleet.is_over:  # all hosts have the same cases then, and each state is judged once
            if self._judged is None or self._judged[0] is not self.fleet:
                self._judged = self.fleet, standing_of(fleet_rows(self.fleet))
            slow = self._judged[1].slow_of(each.host.host)
        return host_facts(each, slow, width, self.glyphs)


class FleetScreen(FleetList):
    """All hosts, or all their cases; it is the lowest screen and never closes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *keys.bindings(["open"], "open_host"),
        *keys.bindings(["zoom"], "other_view"),
    ]

    def __init__(self, state: AppState, fleet: FleetState, glyphs: Glyphs) -> None:
        super().__init__(state, fleet, glyphs)
        self._shows_cases = False

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
