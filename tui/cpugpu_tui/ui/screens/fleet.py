"""The fleet pages: a list of hosts or of all cases, and the cases of one host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from textual.binding import BindingType

from cpugpu_tui.compare.series import numbers_text
from cpugpu_tui.model import Case
from cpugpu_tui.model.quantities import size_text
from cpugpu_tui.render import fleet as render_fleet
from cpugpu_tui.render.columns import NONE, Key
from cpugpu_tui.render.sentences import conditions
from cpugpu_tui.session.fleet_state import DONE, RUNNING, STOPPED, WAITING, FleetState, HostState
from cpugpu_tui.ui import keys
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.lines import Spans, cut, spelled, wrapped
from cpugpu_tui.ui.rows import ODD, is_odd
from cpugpu_tui.ui.screens.page import ListPage

STATE_WIDTH = 13
"""Cells of a sign and the longest state, `unreachable`."""

NAMED_WIDTH = (6, 24)
"""Fewest and most cells of a host's name."""

CASE_WIDTH, GPU_WIDTH = (20, 32), 4
"""Fewest and most cells of a case's name, and those of a GPU's number."""

NARROW = 60
"""Columns below which a host's line ends with its cases, and a case's line has no times and no interval."""

NARROW_NAME, NARROW_SPEEDUP = 10, 8
"""Most cells of a host's name there, and those of a speedup; the case has the rest."""

LOW, MOST_FACTS = 16, (3, 6)
"""Lines of a terminal below which a host has few lines of facts, and their number there and elsewhere."""

FEWEST_OF_WORKLOAD = 4
"""Fewest useful cells of a workload's name."""

TIMED = {
    Key.CPU: ("CPU", 10, "cpu"),
    Key.GPU: ("GPU time", 10, "gpu"),
    Key.KERNEL: ("kernels", 10, "gpu"),
    Key.SPEEDUP: ("speedup", 16, "text"),
    Key.VERDICT: ("faster", 10, ""),
}
"""Column → heading, cells and role; the last has the role of the faster device."""

OPTIONAL = (Key.KERNEL, Key.VERDICT, Key.CPU)
"""Columns that narrow screens omit, in this order."""


def state_role(each: HostState) -> str:
    """Return the role of a host's state."""
    if each.in_trouble or each.failed:
        return "bad" if each.in_trouble else "warn"
    return {DONE: "good", RUNNING: "strong", WAITING: "muted", STOPPED: "warn"}.get(each.state, "text")


def state_sign(each: HostState, glyphs: Glyphs) -> str:
    """Return the sign of a host's state."""
    if each.in_trouble:
        return glyphs.no
    return {DONE: glyphs.yes, RUNNING: glyphs.arrow, WAITING: glyphs.none}.get(each.state, glyphs.dot)


def name_width(state: FleetState, width: int) -> int:
    """Return the cells of the hosts' names for this width of the screen."""
    fewest, most = NAMED_WIDTH
    return min(max(fewest, *map(cell_len, state.hosts)), NARROW_NAME if width < NARROW else most)


def host_name(name: str, width: int, glyphs: Glyphs) -> str:
    """Return a host's name in `width` cells, cut in the middle: names differ at the end, or before the domain."""
    if cell_len(name) <= width:
        return set_cell_size(name, width)
    room, tail = width - len(glyphs.ellipsis), name
    while cell_len(tail) > 2 * room // 3:
        tail = tail[1:]
    return set_cell_size(name, room - cell_len(tail)) + glyphs.ellipsis + tail


def case_width(names: int, width: int) -> int:
    """Return the cells of the cases' names beside hosts' names of `names` cells, 0 for one host."""
    fewest, most = CASE_WIDTH
    if width < NARROW:
        room = width - (2 + 1 + (names + 1 if names else 0) + GPU_WIDTH + 1 + NARROW_SPEEDUP)
        return min(max(FEWEST_OF_WORKLOAD, room), most)
    return min(max(fewest, width // 5), most)


def case_name(case: Case, width: int, glyphs: Glyphs) -> str:
    """Return a case in exactly `width` cells; the workload is cut first, the size never."""
    variant = "" if case.variant == "default" else f" {case.variant}"
    size = f" {size_text(case.size)}"
    room = width - len(size)
    if len(case.workload) + len(variant) > room >= len(variant) + FEWEST_OF_WORKLOAD:
        return f"{cut(case.workload, room - len(variant), glyphs)}{variant}{size}"
    name = case.workload + variant
    return cut(f"{name}{size}", width, glyphs) if len(name) <= room else f"{cut(name, room, glyphs)}{size}"


def host_heads(state: FleetState, width: int) -> Spans:
    """Return the headings of the hosts."""
    text = f"  {'host':<{name_width(state, width)}} {'state':<{STATE_WIDTH}} {'cases':>9}"
    text += "" if width < NARROW else f" {'GPUs':<20} now, or result"
    return ((text[:width], "muted"),)


def host_line(each: HostState, names: int, width: int, glyphs: Glyphs, *, chosen: bool) -> Spans:
    """Return a host in one line: state, progress, GPUs, and its current work or result."""
    state = f"{state_sign(each, glyphs)} {each.state:<{STATE_WIDTH - 2}}"
    before = f"{glyphs.cursor if chosen else ' '} {host_name(each.host.host, names, glyphs)} "
    cases = f"{each.run.done}/{len(each.run.rows)}" if each.run.rows else ""
    if each.failed:
        cases = f"{cases} {each.failed}{glyphs.no}"
    machine = cut(spelled(render_fleet.machine_text(each), glyphs), 20, glyphs)
    does = render_fleet.says(each) if each.is_over else render_fleet.doing_text(each)
    told = each.message if each.in_trouble else does
    room = max(width - cell_len(before) - STATE_WIDTH - 1 - 10 - 21, 0)
    rest = f" {cases:>9}" + ("" if width < NARROW else f" {machine} {cut(spelled(told, glyphs), room, glyphs)}")
    if chosen:
        return ((f"{before}{state}{rest}", "chosen"),)
    return ((before, "text"), (state, state_role(each)), (rest, "text"))


def host_facts(each: HostState, slow: Sequence[str], width: int, glyphs: Glyphs, most: int = 6) -> list[Spans]:
    """Return the facts of a host in up to `most` lines: launcher, run, result or reason, and slow GPUs."""
    facts = [f"{each.host.host}, by {each.host.launcher}", render_fleet.machine_text(each)]
    facts += [render_fleet.cases_text(each), numbers_text(render_fleet.numbers_of(each))]
    text = f" {glyphs.dot} ".join(spelled(fact, glyphs) for fact in facts if fact)
    lines: list[Spans] = [((cut(text, width, glyphs).rstrip(), "strong"),)]
    if each.why:
        role = "bad" if each.in_trouble else "warn"
        return lines + wrapped(spelled(each.why, glyphs), width, role, lines=min(4, most - 1))
    lines += wrapped(spelled(" ".join(slow), glyphs), width, "warn", lines=min(2, most - 2)) if slow else []
    told = spelled(render_fleet.says(each) or render_fleet.doing_text(each), glyphs)
    lines += wrapped(told, width, lines=max(min(5, most) - len(lines), 1))
    odd = " ".join(conditions(each.run)) if len(lines) < most else ""
    return lines + (wrapped(spelled(odd, glyphs), width, "warn", lines=most - len(lines)) if odd else [])


def timed_columns(names: int, width: int) -> list[str]:
    """Return the columns that fit beside case, host and GPU."""
    if width < NARROW:
        return [Key.SPEEDUP]
    columns, room = list(TIMED), width - (2 + case_width(names, width) + 1 + (names + 1 if names else 0) + GPU_WIDTH)
    for name in OPTIONAL:
        if sum(TIMED[each][1] + 1 for each in columns) <= room:
            break
        columns.remove(name)
    return columns


def case_heads(names: int, width: int) -> Spans:
    """Return the headings of cases; `names` are the cells of hosts' names, 0 for one host."""
    host = f"{'host':<{names}} " if names else ""
    text = f"  {'case':<{case_width(names, width)}} {host}{'GPU':<{GPU_WIDTH}}"
    for key in timed_columns(names, width):
        heading, cells = TIMED[key][0], _cells(key, width)
        text += f" {heading:<{cells}}" if key == Key.VERDICT else f" {heading:>{cells}}"
    return ((text[:width], "muted"),)


def case_line(row: render_fleet.FleetRow, names: int, width: int, glyphs: Glyphs, *, chosen: bool = False) -> Spans:
    """Return a case on one GPU of one host."""
    before = f"{glyphs.cursor if chosen else ' '} {case_name(row.whole.case, case_width(names, width), glyphs)} "
    before += f"{host_name(row.host, names, glyphs)} " if names else ""
    before += f"{glyphs.none if row.gpu is None else row.gpu.name.removeprefix('cuda:'):<{GPU_WIDTH}}"
    if row.why:
        why = spelled(row.why, glyphs)
        spans: Spans = ((f"{before} ", "text"), (cut(why, max(width - cell_len(before) - 1, 0), glyphs), "bad"))
    else:
        spans = ((before, "text"), *(_cell(key, row, width, glyphs) for key in timed_columns(names, width)))
    return ((set_cell_size("".join(text for text, _ in spans), width).rstrip(), "chosen"),) if chosen else spans


def _cells(key: str, width: int) -> int:
    """Return the cells of a column of times for this width of the screen."""
    return NARROW_SPEEDUP if width < NARROW else TIMED[key][1]


def _cell(key: str, row: render_fleet.FleetRow, width: int, glyphs: Glyphs) -> tuple[str, str]:
    """Return a case's text in a column, with a leading space, and its role."""
    cells, role = _cells(key, width), TIMED[key][2]
    if key != Key.VERDICT:
        times = {Key.CPU: row.row.cpu, Key.GPU: row.row.gpu}.get(key)
        text = row.text(key).partition(" ±")[0] if width < NARROW else row.text(key)
        sign = ODD if times is not None and text != NONE and is_odd(row.row, times) else ""
        return f" {sign + spelled(text, glyphs):>{cells}}", role
    said = row.text(Key.VERDICT)
    word = row.whole.status if said == NONE else said
    return f" {cut(word, cells, glyphs)}", {"GPU": "gpu", "CPU": "cpu"}.get(word, "muted")


class FleetList(ListPage):
    """A list of hosts or cases, and the host under the cursor."""

    TOPIC = "fleet"

    def __init__(self, state: AppState, fleet: FleetState, glyphs: Glyphs) -> None:
        super().__init__(state, glyphs)
        self.fleet = fleet
        self._rows: list[render_fleet.FleetRow] = []
        self._judged: tuple[FleetState, render_fleet.FleetStanding] | None = None

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
        is_stopping = self.state.situation.stopping and not self.fleet.is_over
        counts = ", ".join(f"{count} {word}" for word, count in self.fleet.counts.items())
        cases = "" if self.size.width < NARROW else f"; {self.fleet.cases_text}"
        return (("Fleet ", "title"), (f" {'stopping: ' if is_stopping else ''}{counts}{cases}", "text"))

    def page_tags(self) -> Spans:
        """Return the tag of a simulated fleet."""
        is_simulated = any(each.run.simulated for each in self.fleet.hosts.values())
        return ((" SIMULATED ", "tag"),) if is_simulated else ()

    def about_lines(self, width: int) -> list[Spans]:
        """Return the facts of the host under the cursor."""
        each = self.host()
        slow: Sequence[str] = ()
        if self.fleet.is_over:  # all hosts have the same cases then, and each state is judged once
            if self._judged is None or self._judged[0] is not self.fleet:
                self._judged = self.fleet, render_fleet.standing_of(render_fleet.fleet_rows(self.fleet))
            slow = self._judged[1].slow_of(each.host.host)
        return host_facts(each, slow, width, self.glyphs, MOST_FACTS[self.size.height >= LOW])


class FleetScreen(FleetList):
    """All hosts, or all their cases; it is the lowest screen and never closes."""

    LEAVE_KEY = "{quit}"
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
        self._rows = render_fleet.fleet_rows(self.fleet)
        return len(self._rows)

    def list_heads(self, width: int) -> Spans:
        """Return the headings of hosts or cases."""
        return case_heads(name_width(self.fleet, width), width) if self._shows_cases else host_heads(self.fleet, width)

    def list_line(self, index: int, width: int, *, chosen: bool) -> Spans:
        """Return a host or a case."""
        names = name_width(self.fleet, width)
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
        self._rows = list(render_fleet.host_rows(self.host()))
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
