"""Runs `cpugpu-tui`, in this process or in one of its own, and reads what it printed."""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import select
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import pytest

from cpugpu_tui.__main__ import main
from cpugpu_tui.model import Event
from cpugpu_tui.model.names import FILE
from cpugpu_tui.store import Store
from cpugpu_tui.transport.agent_output import decode
from cpugpu_tui.transport.agent_pool import Agents, AgentThread
from cpugpu_tui.transport.agent_process import AgentProcess

PATIENCE_S = 120.0
"""How long a test waits for what must happen. It says "hung", never "slow": other programs may keep the cores busy."""

ROOT = Path(__file__).parents[2]

COMMAND = (sys.executable, "-m", "cpugpu_tui")

FAST = "drift=0,cpu_overhead_ns=200000,launch_ns=200000,first_call_ns=0"
"""A simulated machine that repeats exactly, with long calls and so a short warm-up: 15 ms of real time per case."""


def events_of(lines: str | bytes) -> list[Event]:
    """Return the events that `--json` printed; anything else on stdout is a failure."""
    data = lines.encode() if isinstance(lines, str) else lines
    events = [decode(line) for line in data.splitlines()]
    return [event for event in events if event is not None]


@dataclass(frozen=True)
class Outcome:
    """Exit code and output of one command."""

    code: int
    out: str
    err: str

    @property
    def events(self) -> list[Event]:
        """Events that `run --json` or `show --json` printed."""
        return events_of(self.out)

    @property
    def objects(self) -> list[dict[str, Any]]:
        """Objects that other commands print with `--json`."""
        return [json.loads(line) for line in self.out.splitlines()]

    def ended_with(self, code: int | None) -> Outcome:
        """Return this outcome after checking its exit code, unless that is None."""
        assert code in (None, self.code), (self.code, self.err)
        return self


class CommandLine:
    """Calls the command; `database` is its history."""

    def __init__(self, database: Path) -> None:
        self.database = database

    def environment(self, **more: str) -> dict[str, str]:
        """Return this environment without CPUGPU_ variables, with the test's history and one start a run.

        Five would take five agents in each of hundreds of tests; those of starts ask for them.
        """
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("CPUGPU_")}
        return {**inherited, "CPUGPU_DB": str(self.database), "PYTHONUNBUFFERED": "1", "CPUGPU_STARTS": "1", **more}

    def __call__(self, *arguments: object, code: int | None = None, **environment: str) -> Outcome:
        """Run to the end: inside this process, or in one of its own that begins with this environment.

        With `code` it must end with that exit code.
        """
        if not environment:
            return self.here(*arguments, code=code)
        done = subprocess.run(
            [*COMMAND, *map(str, arguments)],
            capture_output=True, text=True, timeout=PATIENCE_S, stdin=subprocess.DEVNULL,
            env=self.environment(**environment),
        )  # fmt: skip
        return Outcome(done.returncode, done.stdout, done.stderr).ended_with(code)

    def here(self, *arguments: object, code: int | None = None) -> Outcome:
        """Run to the end inside this process: half a second faster. The agents of a run are processes as ever."""
        out, err, ended = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO(), 0
        with (
            mock.patch.dict(os.environ, self.environment(), clear=True),
            mock.patch.object(sys, "argv", ["cpugpu-tui", *map(str, arguments)]),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                main()
            except SystemExit as end:
                ended = end.code if isinstance(end.code, int) else 0
        out.seek(0)
        return Outcome(ended, out.read(), err.getvalue()).ended_with(code)

    def start(self, *arguments: object, **streams: int) -> subprocess.Popen[bytes]:
        """Start and return at once; stdout and stderr are pipes unless `streams` says otherwise."""
        pipes: dict[str, int] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
        return subprocess.Popen(
            [*COMMAND, *map(str, arguments)], stdin=subprocess.DEVNULL, env=self.environment(), bufsize=0, **pipes
        )

    def take_over(self, other: CommandLine) -> None:
        """Begin with a copy of another history, which several tests share because its runs take seconds to make."""
        with closing(sqlite3.connect(other.database)) as theirs, closing(sqlite3.connect(self.database)) as ours:
            theirs.backup(ours)

    def store(self) -> closing[Store]:
        """Open the history; use in `with`."""
        return closing(Store.open(self.database))


def committed(folder: Path, tag: str) -> None:
    """Make a folder a repository whose only commit, with this tag, has its files."""
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"],
                  ["tag", tag]):  # fmt: skip
        subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)


TYPED = {"CodeWorkload", "CommandWorkload", "TwoImplementations"}


def registered() -> dict[str, Any]:
    """Return the registry of workloads; empty before it was loaded."""
    contract = sys.modules.get("cpugpu_tui.workloads.contract")
    return contract.REGISTRY if contract is not None else {}


def forget(before: set[str]) -> None:
    """Remove the workloads that were registered since."""
    known = registered()
    for name in known.keys() - before:
        kind = type(known[name])
        if kind.__name__ in TYPED or not kind.__module__.startswith("cpugpu_tui."):
            del known[name]
            sys.modules["cpugpu_tui.workloads.contract"].SOURCES.pop(name, None)


def start_in_threads(patch: pytest.MonkeyPatch) -> None:
    """Let agents be threads of this process, which imports torch once: 30 processes took 66 s of CPU for that."""
    # An agent runs simulated own code once. Loading torch in its thread would keep the database's from going on.
    import_module("torch.utils.flop_counter")
    start, before = Agents._start, set(registered())

    def started(agents: Agents) -> AgentProcess | AgentThread:
        if agents.host is not None:
            return start(agents)
        if FILE in agents._own:  # another process would not have its workloads yet
            forget(before)
        thread = AgentThread(simulated=agents._simulated, on_ready=agents.on_ready, own=agents._own)
        agents._threads.append(thread)
        return thread

    patch.setattr(Agents, "_start", started)
    patch.setattr(AgentThread, "_hold", lambda agent, event: agent.messages.put(event))  # it waits for its turn


def until(happened: Callable[[], object]) -> None:
    """Wait for what other processes do, where no event tells of it."""
    ends_s = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < ends_s, inspect.getsource(happened).strip()
        time.sleep(0.01)


def next_event(process: subprocess.Popen[bytes], wanted: Callable[[Event], bool]) -> Event:
    """Read events until one is wanted; drop the others."""
    for event in events_from(process):
        if wanted(event):
            return event
    raise AssertionError("the stream ended before the event came")


def events_from(process: subprocess.Popen[bytes]) -> Iterator[Event]:
    """Yield events as they are printed, to the end of the stream."""
    # `start` has no buffer: what was not asked for stays in the pipe, for whoever reads next.
    while line := process.stdout.readline():
        event = decode(line)
        if event is not None:
            yield event


def agents_of(process: subprocess.Popen[bytes]) -> list[int]:
    """Return the process ids of the agents of a running command."""
    try:
        children = psutil.Process(process.pid).children()
    except psutil.NoSuchProcess:
        return []
    return [child.pid for child in children]


class Witness:
    """Notices the end of a process, even if its pid is reused or nobody reaps it."""

    def __init__(self, pid: int, *, may_be_gone: bool = False) -> None:
        self._descriptor = -1
        try:
            self._descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            if not may_be_gone:
                raise

    def sees_the_end(self, within_s: float = PATIENCE_S) -> bool:
        """Wait for the end of the process; return whether it ended in time. Call once."""
        if self._descriptor < 0:
            return True
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        try:
            return bool(poll.poll(within_s * 1000))
        finally:
            os.close(self._descriptor)
