"""A fleet as tables: one row per host, and one per case, host and GPU."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from cpugpu_tui.cli.output.table_style import console, plain, table_of
from cpugpu_tui.compare.series import numbers_text
from cpugpu_tui.machine.text import printable
from cpugpu_tui.render.columns import NONE, Key, name_text
from cpugpu_tui.render.fleet import (
    FleetRow,
    FleetStanding,
    cases_text,
    fleet_rows,
    machine_text,
    numbers_of,
    says,
    standing_of,
)
from cpugpu_tui.render.marks import common_marks
from cpugpu_tui.render.peers import peer_sentences
from cpugpu_tui.render.sentences import conditions
from cpugpu_tui.session.fleet.state import FleetState, HostState

TIMED = (Key.CPU, Key.GPU, Key.KERNEL, Key.SPEEDUP, Key.VERDICT)
"""Columns with times and verdicts."""

LONGEST_LINE = 1000
"""Maximum length of a line about one host."""


def print_fleet(state: FleetState) -> None:
    """Print cases, hosts, the answer of each host, and the reasons of hosts that failed."""
    out = console()
    simulated = any(each.run.simulated for each in state.hosts.values())
    out.print(plain("SIMULATED: no number here was measured." if simulated else ""), end="\n" if simulated else "")
    rows = fleet_rows(state)
    standing = standing_of(rows)
    if rows:
        out.print(cases_table(state, rows, standing))
    out.print(hosts_table(state))
    for each in state.hosts.values():
        # Copies between GPUs are not cases, so no table above has them. `show` prints their matrix.
        sentences = dict.fromkeys((says(each), *conditions(each.run), *peer_sentences(each.run)))
        if sentence := " ".join(filter(None, sentences)):
            out.print(plain(f"{each.host.host}: {sentence}"), soft_wrap=True)
    for sentence in standing.sentences:
        out.print(plain(sentence), soft_wrap=True)
    for sentence in state.crowded:
        out.print(plain(sentence), soft_wrap=True)
    for line in trouble_lines(state):
        out.print(plain(line), soft_wrap=True)
    out.print(plain(state.sentence), soft_wrap=True)


def cases_table(state: FleetState, rows: Sequence[FleetRow], standing: FleetStanding) -> Table:
    """Return a table with one row per case, host and GPU. Slow GPUs are marked."""
    common = {name: common_marks(each.run) for name, each in state.hosts.items()}
    several = len({(row.whole.case.workload, row.whole.case.variant) for row in rows}) > 1
    remarks = [", ".join(filter(None, (row.remarks(common[row.host]), standing.mark(row)))) for row in rows]
    columns = [("case" if several else "size", several), ("host", True), ("GPU", True), ("CPU", False)]
    columns += [("GPU time", False), ("kernels", False), ("speedup", False), ("faster", True), ("remarks", True)]
    cells = [[*case_cells(row, several=several), remark] for row, remark in zip(rows, remarks, strict=True)]
    return table_of(columns, cells) if any(remarks) else table_of(columns[:-1], [row[:-1] for row in cells])


def case_cells(row: FleetRow, *, several: bool) -> list[str]:
    """Return the cells of one row, without its remarks."""
    case = row.whole.case
    name = f"{name_text(case)} " if several else ""
    gpu = NONE if row.gpu is None else row.gpu.name.removeprefix("cuda:")
    return [f"{name}{case.size:,}", row.host, gpu, *(row.text(key) for key in TIMED)]


def hosts_table(state: FleetState) -> Table:
    """Return a table with one row per host: state, GPUs, cases and saved runs."""
    columns = [(name, name != "cases") for name in ("host", "state", "GPUs", "cases", "saved as")]
    return table_of(columns, map(host_cells, state.hosts.values()))


def host_cells(each: HostState) -> list[str]:
    """Return the cells of a host's row."""
    texts = (machine_text(each), cases_text(each), numbers_text(numbers_of(each)))
    return [each.host.host, each.state, *(text or NONE for text in texts)]


def trouble_lines(state: FleetState) -> list[str]:
    """Return one line with the reason for each host that failed."""
    return [printable(f"{each.host.host}: {each.state}: {each.why}", LONGEST_LINE) for each in state.troubled]
