"""A fleet on its way to a table or a stream: which hosts, what they tell, and how far they are."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

from cpugpu_tui.cli.output.json_lines import print_answer, print_line
from cpugpu_tui.cli.running.one_run import facts, signals_stop
from cpugpu_tui.cli.running.outputs import Outputs
from cpugpu_tui.cli.running.progress import ProgressLine
from cpugpu_tui.config.hosts import Host, hosts_of, read_hosts
from cpugpu_tui.errors import UsageError
from cpugpu_tui.export.stream import KEPT, exported
from cpugpu_tui.model import Event, Plan, RunFinished, RunStarted
from cpugpu_tui.session.fleet.running import AT_ONCE, Fleet, FleetPlan
from cpugpu_tui.session.fleet.state import FleetState, HostChanged, Told
from cpugpu_tui.transport.agent_command import HELLO_LIMIT_S
from cpugpu_tui.transport.launchers import with_resources
from cpugpu_tui.transport.wire import encode


@dataclass(frozen=True)
class HostsRequest:
    """Which hosts, and how they are treated."""

    file: Path | None = None
    names: tuple[str, ...] = ()
    """`n[1-4]`, `gpu7`: hosts without a file, or those of the file that are wanted."""
    launcher: str | None = None
    """Of hosts that do not say it."""
    python: str | None = None
    """The same."""
    start_timeout_s: float = HELLO_LIMIT_S
    at_once: int = AT_ONCE

    def hosts(self) -> tuple[Host, ...]:
        """Return the hosts that a person named, with what Slurm gives to each.

        Raises:
            UsageError: none is named, one is not in the file, or a file says what cannot be.
            UnfitError: Slurm cannot be asked what its nodes have.
        """
        return with_resources(self._named())

    def _named(self) -> tuple[Host, ...]:
        told = {"launcher": self.launcher, "python": self.python}
        defaults = {name: value for name, value in told.items() if value is not None}
        if self.file is None:
            if not self.names:
                raise UsageError("No host is named.", "Name a file of hosts with -H, or hosts with -w gpu[1-4].")
            return hosts_of(self.names, defaults)
        hosts = read_hosts(self.file, defaults)
        if not self.names:
            return hosts
        wanted = {host.host for host in hosts_of(self.names)}
        missing = sorted(wanted - {host.host for host in hosts})
        if missing:
            raise UsageError(f"{self.file} has no host {missing[0]!r}.", "Name one that stands in it with -w.")
        return tuple(host for host in hosts if host.host in wanted)

    def plan(self, plan: Plan, repeat: int, case_timeout_s: float | None) -> FleetPlan:
        """Return what is run where.

        Raises:
            UsageError, UnfitError: see `hosts`.
        """
        return FleetPlan(
            self.hosts(), plan, repeat, case_timeout_s, self.start_timeout_s, self.at_once, facts()
        )  # fmt: skip


@dataclass
class Run:
    """A fleet run on its way to a table or a stream."""

    state: FleetState
    outputs: Outputs
    as_json: bool = False
    kept: dict[str, list[Event]] = field(default_factory=dict)
    """Host → events of its run, as long as it is to be exported."""

    def take(self, host: str, told: Told) -> None:
        """Take note of something, and print it if every line is wanted."""
        before, self.state = self.state, self.state.apply(host, told)
        if isinstance(told, HostChanged):
            if self.as_json and self.state is not before:
                print_told(host, told)
            return
        if self.outputs.wants_files:
            self._keep(host, told)
        if self.as_json:
            if isinstance(told, RunFinished) and self.state.hosts[host].run.run is not None:
                print_answer(self.state.hosts[host].run, host=host)
            print_told(host, told)

    def _keep(self, host: str, event: Event) -> None:
        if isinstance(event, RunStarted):
            self.kept[host] = []
        if isinstance(event, KEPT) and host in self.kept:
            self.kept[host].append(event)
        if isinstance(event, RunFinished) and host in self.kept:
            self.outputs.add(exported(self.kept.pop(host)))


def run_to_the_end(fleet: Fleet, run: Run) -> None:
    """Run a fleet with a line of progress on stderr; ctrl+c stops all of it, twice at once."""
    line = ProgressLine()

    def deliver(host: str, told: Told) -> None:
        run.take(host, told)
        if line.is_live and line.is_due:
            counts = (f"{count} {word}" for word, count in run.state.counts.items())
            line.paint(", ".join([*counts, run.state.cases_text]))

    with signals_stop(fleet):
        fleet.run(deliver)
    line.clear()


def print_told(host: str, told: Told) -> None:
    """Print something of a host as a line of JSON, at once: an event as everywhere, with the host before it."""
    if isinstance(told, HostChanged):
        print_line({"host": host, "event": "HostChanged", **vars(told)})
    else:
        sys.stdout.buffer.write(b'{"host":' + json.dumps(host).encode() + b"," + encode(told)[1:])
        sys.stdout.buffer.flush()
