"""`cpugpu-tui fleet`: the same plan on every host, as one table or one stream."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from cpugpu_tui.cli.export import Outputs
from cpugpu_tui.cli.fleet_table import print_fleet
from cpugpu_tui.cli.json_lines import print_json
from cpugpu_tui.cli.options import RunOptions
from cpugpu_tui.cli.run import facts, failed, print_event, signals_stop
from cpugpu_tui.cli.saving import remark_of, save_rest, saving
from cpugpu_tui.cli.table_style import add_columns, console, new_table, plain
from cpugpu_tui.config import config
from cpugpu_tui.config.hosts import Host, hosts_of, read_hosts
from cpugpu_tui.errors import CpuGpuError, UsageError, print_notice
from cpugpu_tui.export.stream import KEPT, exported
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import Event, RunFinished, RunStarted
from cpugpu_tui.render.answers import as_data
from cpugpu_tui.render.fleet_rows import host_data
from cpugpu_tui.render.signs import with_micro
from cpugpu_tui.session.fleet.running import AT_ONCE, Deliver, Fleet, FleetPlan, fleet_devices
from cpugpu_tui.session.fleet.state import FleetState, HostChanged, Told
from cpugpu_tui.session.own import Own
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.state.condition import conditions_data
from cpugpu_tui.transport.agent_command import HELLO_LIMIT_S
from cpugpu_tui.transport.launchers import launch_argv, shell_line, with_resources
from cpugpu_tui.transport.wire import encode

PROGRESS_S = 0.5
"""Between two updates of the line on stderr."""

LONGEST_CELL = 10_000
"""Characters of a command that is printed to be tried by hand."""

Show = Callable[[Fleet, FleetState, Deliver], None]
"""Runs a fleet, tells the last of these everything, and shows it meanwhile."""


@dataclass(frozen=True)
class Asked:
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
                print_answer(host, self.state)
            print_told(host, told)

    def _keep(self, host: str, event: Event) -> None:
        if isinstance(event, RunStarted):
            self.kept[host] = []
        if isinstance(event, KEPT) and host in self.kept:
            self.kept[host].append(event)
        if isinstance(event, RunFinished) and host in self.kept:
            self.outputs.add(exported(self.kept.pop(host)))


def run_fleet(
    request: PlanRequest, asked: Asked, options: RunOptions, *, as_json: bool, outputs: Outputs | None = None,
    show: Show | None = None,
) -> int:  # fmt: skip
    """Run a request on every host and return the exit code: 3 if a host or a case failed, 130 if it was stopped.

    `show` runs the fleet in place of a line of progress, and returns when it is over.

    Raises:
        CpuGpuError: the request or the hosts cannot be used at all (with `--json` it is a `RunFinished` line as well).
    """
    outputs = outputs or Outputs()
    try:
        plan = fleet_plan(request, asked)
        outputs.check()
    except CpuGpuError as error:
        if as_json:
            print_event(failed(error))
        raise
    with saving(options) as outbox:
        fleet, run = Fleet(plan, outbox), Run(FleetState.of(plan.hosts), outputs, as_json)
        if show is None:
            run_to_the_end(fleet, run)
        else:
            show(fleet, run.state, run.take)
        if show is not None and fleet.signal_exit:
            return save_rest(outbox, fleet.signal_exit)  # the terminal may be gone
        if remark := remark_of(outbox):
            print_notice(remark)
        code = save_rest(outbox, fleet.signal_exit or run.state.exit_code)
    if as_json:
        print_line(finished_data(fleet, run.state, code))
    else:
        print_fleet(run.state)
        sys.stdout.flush()
    for line in outputs.write():
        print_notice(line)
    return code or outputs.exit_code


def run_to_the_end(fleet: Fleet, run: Run) -> None:
    """Run a fleet with a line of progress on stderr; ctrl+c stops all of it, twice at once."""
    progress = FleetProgress()

    def deliver(host: str, told: Told) -> None:
        run.take(host, told)
        progress.show(run.state)

    with signals_stop(fleet):
        fleet.run(deliver)
    progress.clear()


def fleet_plan(request: PlanRequest, asked: Asked) -> FleetPlan:
    """Return what is run where.

    Raises:
        UsageError: the request or the hosts are wrong.
        UnfitError: Slurm cannot be asked what its nodes have.
    """
    plan = build_plan(PlanRequest(**{**vars(request), "own": Own(presets=config.load().presets)}))
    plan = fleet_devices(plan, None if request.devices == ("auto",) else request.devices)
    return FleetPlan(
        with_resources(hosts_asked(asked)), plan, request.repeat, request.case_timeout_s,
        asked.start_timeout_s, asked.at_once, facts(),
    )  # fmt: skip


def hosts_asked(asked: Asked) -> tuple[Host, ...]:
    """Return the hosts that a person named.

    Raises:
        UsageError: none is named, one is not in the file, or a file says what cannot be.
    """
    told = {"launcher": asked.launcher, "python": asked.python}
    defaults = {name: value for name, value in told.items() if value is not None}
    if asked.file is None:
        if not asked.names:
            raise UsageError("No host is named.", "Name a file of hosts with -H, or hosts with -w gpu[1-4].")
        return hosts_of(asked.names, defaults)
    hosts = read_hosts(asked.file, defaults)
    if not asked.names:
        return hosts
    wanted = {host.host for host in hosts_of(asked.names)}
    missing = sorted(wanted - {host.host for host in hosts})
    if missing:
        raise UsageError(f"{asked.file} has no host {missing[0]!r}.", "Name one that stands in it with -w.")
    return tuple(host for host in hosts if host.host in wanted)


def print_hosts(asked: Asked, *, as_json: bool) -> None:
    """Print each host and the command that reaches it, `true` in its agent's place; nothing is started.

    Raises:
        UsageError: the hosts are wrong.
        UnfitError: Slurm cannot be asked what its nodes have.
    """
    hosts = with_resources(hosts_asked(asked))
    if as_json:
        for host in hosts:
            print_json({**vars(host), "argv": launch_argv(host, shell_line(host, (), 0))})
        return
    table = new_table()
    add_columns(table, "host", "launcher", "python", "before it", "tags", "command")
    for host in hosts:
        # To be tried by hand, so quoted; the agent's lines are thousands of letters, `true` shows whether one gets in.
        command = shlex.join(launch_argv(host, "true"))
        cells = (host.host, host.launcher, host.python, " && ".join(host.pre), ", ".join(host.tags), command)
        table.add_row(*(plain(printable(cell, LONGEST_CELL)) for cell in cells))
    console().print(table)


# ------------------------------------------------------------------ the stream


def print_told(host: str, told: Told) -> None:
    """Print something of a host as a line of JSON, at once: an event as everywhere, with the host before it."""
    if isinstance(told, HostChanged):
        print_line({"host": host, "event": "HostChanged", **vars(told)})
    else:
        sys.stdout.buffer.write(b'{"host":' + json.dumps(host).encode() + b"," + encode(told)[1:])
        sys.stdout.buffer.flush()


def print_line(data: dict[str, Any]) -> None:
    """Print an object past Python's text layer, which would hold it back behind the events that go past it."""
    sys.stdout.buffer.write(json.dumps(data, allow_nan=False).encode() + b"\n")
    sys.stdout.buffer.flush()


def print_answer(host: str, state: FleetState) -> None:
    """Print what a host's run says, as `run --json` does."""
    run = state.hosts[host].run
    said = {"host": host, "event": "Answer", "sweeps": as_data(run), "machine": conditions_data(run)}
    print_line(with_micro(said))


def finished_data(fleet: Fleet, state: FleetState, code: int) -> dict[str, Any]:
    """Return how a fleet ended, as the last line of its stream; `code` is what the command exits with."""
    return {
        "event": "FleetFinished", "fleet": fleet.fleet_id, "exit_code": code,
        "says": state.sentence, "hosts": [host_data(each) for each in state.hosts.values()],
    }  # fmt: skip


class FleetProgress:
    """Draws `3 done, 5 running · 41 of 112 cases` over itself, where stderr is a terminal."""

    def __init__(self, stream: TextIO = sys.stderr) -> None:
        self._stream, self._live = stream, stream.isatty()
        self._painted_s = 0.0

    def show(self, state: FleetState) -> None:
        """Repaint if it is time."""
        if not self._live or time.monotonic() - self._painted_s < PROGRESS_S:
            return
        self._painted_s = time.monotonic()
        self._stream.write(f"\r\x1b[K{', '.join(_words(state))}")
        self._stream.flush()

    def clear(self) -> None:
        """Remove the line."""
        if self._live:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def _words(state: FleetState) -> Sequence[str]:
    return [*(f"{count} {word}" for word, count in state.counts.items()), state.cases_text]
