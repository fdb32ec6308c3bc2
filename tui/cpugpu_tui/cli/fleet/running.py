"""Runs a fleet for a command: the requested hosts, their events, the line of progress, and the tables at the end."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.table import Table

from cpugpu_tui.cli.options import Given
from cpugpu_tui.cli.output.printing import plain, print_answer, print_line
from cpugpu_tui.cli.output.table_style import console, table_of
from cpugpu_tui.cli.running.one_run import ProgressLine, controller_facts, signals_stop
from cpugpu_tui.cli.running.saving import Outputs
from cpugpu_tui.compare.cards import DriverReadings
from cpugpu_tui.compare.series import numbers_text
from cpugpu_tui.config.hosts import Host, hosts_of, read_hosts
from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_CHECK_FAILED, EXIT_OK, UsageError
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import Ceilings, CeilingsMeasured, Plan, RunFinished, TelemetryRead
from cpugpu_tui.model.quantities import size_text
from cpugpu_tui.render.columns import NONE, Key
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
from cpugpu_tui.render.gpus import SIMULATED, peer_sentences
from cpugpu_tui.render.sentences import conditions
from cpugpu_tui.render.verdicts import common_marks
from cpugpu_tui.session.fleet_running import Fleet, FleetPlan
from cpugpu_tui.session.fleet_state import FleetState, HostChanged, HostState, Told
from cpugpu_tui.transport.agent_output import encode
from cpugpu_tui.transport.launchers import with_resources


def named_hosts(given: Given, python: str | None) -> tuple[Host, ...]:
    """Return the hosts that a command names, with the resources that Slurm reports for each.

    `python` and the launcher are for hosts whose inventory does not name one. With a file, names are a subset of it.

    Raises:
        UsageError: no host is named, a host is not in the file, or the file is wrong.
        UnfitError: Slurm did not report the resources of its nodes.
    """
    names, values = given.host_names or (), {"launcher": given.launcher, "python": python}
    defaults = {name: value for name, value in values.items() if value is not None}
    if given.hosts is None:
        if not names:
            raise UsageError("No hosts given.", "Use -w gpu[1-4], or -H FILE.")
        return with_resources(hosts_of(names, defaults))
    hosts = read_hosts(given.hosts, defaults)
    if names:
        wanted = {host.host for host in hosts_of(names)}
        missing = sorted(wanted - {host.host for host in hosts})
        if missing:
            raise UsageError(f"Host {missing[0]!r} is not in {given.hosts}.", "Use -w with hosts from this file.")
        hosts = tuple(host for host in hosts if host.host in wanted)
    return with_resources(hosts)


def fleet_plan(given: Given, plan: Plan) -> FleetPlan:
    """Return the plan of a fleet: the hosts that a command names, and the plan that each of them runs.

    Raises:
        UsageError, UnfitError: see `named_hosts`.
    """
    hosts = named_hosts(given, given.node_python)
    return FleetPlan(
        hosts, plan, given.repeat, given.case_timeout, given.start_timeout, given.at_once, controller_facts()
    )


@dataclass
class Run:
    """The state and outputs of a fleet run."""

    state: FleetState
    outputs: Outputs
    as_json: bool = False

    def take(self, host: str, news: Told) -> None:
        """Apply an event or a change of a host, and print it with `--json`."""
        before, self.state = self.state, self.state.apply(host, news)
        if isinstance(news, HostChanged):
            if self.as_json and self.state is not before:
                print_told(host, news)
            return
        run = self.state.hosts[host].run
        self.outputs.see(run, news, host)
        if self.as_json:
            if isinstance(news, RunFinished) and run.run is not None:
                print_answer(run, host=host)
            print_told(host, news)


@dataclass
class Seen:
    """What the hosts told."""

    state: FleetState
    signal_exit: int = 0
    ceilings: dict[str, list[Ceilings]] = field(default_factory=dict)
    read: dict[str, TelemetryRead] = field(default_factory=dict)
    """Host → the last reading of its driver."""
    _readings: dict[str, DriverReadings] = field(default_factory=dict)

    def take(self, host: str, told: Told) -> None:
        """Note an event or a change of a host."""
        self.state = self.state.apply(host, told)
        if isinstance(told, CeilingsMeasured):
            self.ceilings.setdefault(host, []).append(told.ceilings)
        elif isinstance(told, TelemetryRead):
            self.read[host] = told
        if not isinstance(told, HostChanged):
            self.readings(host).see(told)

    def readings(self, host: str) -> DriverReadings:
        """Return what the driver of a host read."""
        return self._readings.setdefault(host, DriverReadings())

    def uuid(self, host: str, device: str) -> str | None:
        """Return the UUID of a GPU."""
        return next((gpu.uuid for gpu in self.state.hosts[host].run.gpus if gpu.name == device), None)

    def failed(self, without: set[str]) -> list[HostState]:
        """Return the hosts that failed, or did not answer and are not among these."""
        return [each for name, each in self.state.hosts.items() if each.in_trouble or name not in without]

    def exit_code(self, *, is_bad: bool, failed: list[HostState]) -> int:
        """Return the exit code of the command."""
        if self.signal_exit:
            return self.signal_exit
        return EXIT_CASES_FAILED if failed else EXIT_CHECK_FAILED if is_bad else EXIT_OK


def run_to_the_end(fleet: Fleet, run: Run | Seen) -> None:
    """Run a fleet with a line of progress on stderr. ctrl+c stops all hosts, a second one at once."""
    line = ProgressLine()

    def deliver(host: str, news: Told) -> None:
        run.take(host, news)
        if line.is_live and line.is_due:
            counts = (f"{count} {word}" for word, count in run.state.counts.items())
            line.paint(", ".join([*counts, *([run.state.cases_text] if isinstance(run, Run) else [])]))

    with signals_stop(fleet):
        fleet.run(deliver)
    line.clear()


def print_told(host: str, news: Told) -> None:
    """Print an event or a change of a host as a line of JSON, with the host as first field."""
    if isinstance(news, HostChanged):
        print_line({"host": host, "event": "HostChanged", **vars(news)})
    else:
        sys.stdout.buffer.write(b'{"host":' + json.dumps(host).encode() + b"," + encode(news)[1:])
        sys.stdout.buffer.flush()


# ------------------------------------------------------------------ fleet table


TIMED = (Key.CPU, Key.GPU, Key.KERNEL, Key.SPEEDUP, Key.VERDICT)
"""Columns with times and verdicts."""

LONGEST_LINE = 1000
"""Maximum length of a line about one host."""


def print_fleet(state: FleetState) -> None:
    """Print cases, hosts, the answer of each host, and the reasons of hosts that failed."""
    out = console()
    is_piped = not out.is_terminal  # a pipe has no width, and a terminal would break words
    if any(each.run.simulated for each in state.hosts.values()):
        out.print(SIMULATED)
    rows = fleet_rows(state)
    standing = standing_of(rows)
    if rows:
        out.print(cases_table(state, rows, standing))
    out.print(hosts_table(state))
    told = {
        # Copies between GPUs are not cases, so no table above has them. `show` prints their matrix.
        each.host.host: dict.fromkeys((says(each), *conditions(each.run), *peer_sentences(each.run)))
        for each in state.hosts.values()
    }
    answers = (f"{host}: {' '.join(filter(None, each))}" for host, each in told.items() if any(each))
    for line in (*answers, *standing.sentences, *state.crowded, *trouble_lines(state), state.sentence):
        out.print(plain(line), soft_wrap=is_piped)


def cases_table(state: FleetState, rows: Sequence[FleetRow], standing: FleetStanding) -> Table:
    """Return a table with one row per case, host and GPU. Slow GPUs are marked."""
    common = {name: common_marks(each.run) for name, each in state.hosts.items()}
    several = len({(row.whole.case.workload, row.whole.case.variant) for row in rows}) > 1
    remarks = [", ".join(filter(None, (row.remarks(common[row.host]), standing.mark(row)))) for row in rows]
    columns = [("case" if several else "size", several), ("host", True), ("GPU", True), ("CPU", False)]
    columns += [("GPU time", False), ("kernels", False), ("speedup", False), ("faster", True), ("remarks", True)]
    cells = [
        [(f"{row.whole.case.name} " if several else "") + size_text(row.whole.case.size), row.host,
         NONE if row.gpu is None else row.gpu.name.removeprefix("cuda:"), *(row.text(key) for key in TIMED), remark]
        for row, remark in zip(rows, remarks, strict=True)
    ]  # fmt: skip
    return table_of(columns, cells) if any(remarks) else table_of(columns[:-1], [row[:-1] for row in cells])


def hosts_table(state: FleetState) -> Table:
    """Return a table with one row per host: state, GPUs, cases and saved runs."""
    columns = [(name, name != "cases") for name in ("host", "state", "GPUs", "cases", "saved as")]
    cells = (
        (each.host.host, each.state, machine_text(each), cases_text(each), numbers_text(numbers_of(each)))
        for each in state.hosts.values()
    )
    return table_of(columns, ([text or NONE for text in row] for row in cells))


def trouble_lines(state: FleetState) -> list[str]:
    """Return one line with the reason for each host that failed."""
    return [printable(f"{each.host.host}: {each.state}: {each.why}", LONGEST_LINE) for each in state.troubled]
