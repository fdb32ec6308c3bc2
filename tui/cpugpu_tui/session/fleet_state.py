"""The state of a fleet: each host's state and run, folded from one stream of events of all hosts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from cpugpu_tui.config.hosts import Host
from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_INTERRUPTED, EXIT_OK
from cpugpu_tui.model import Event, RunFinished, RunStarted
from cpugpu_tui.model.quantities import count_of, joined
from cpugpu_tui.state.folding import MeasuredRun, measured_state
from cpugpu_tui.state.state import RunState
from cpugpu_tui.transport.agent_command import KINDS

WAITING, CONNECTING, STARTING, RUNNING = "waiting", "connecting", "starting", "running"
DONE, STOPPED, FAILED = "done", "stopped", "failed"

TROUBLES = (*KINDS, FAILED)
"""States of a host that failed."""

OVER = (DONE, STOPPED, *TROUBLES)
"""Final states."""


@dataclass(frozen=True)
class HostChanged:
    """A change of a host's state."""

    state: str
    """`waiting`, `connecting`, `starting`, `running`, or one of `OVER`."""
    message: str = ""
    """Why, in one sentence; never empty for `TROUBLES`."""
    remedy: str = ""


Told = Event | HostChanged
"""An item of a fleet's stream; the host is given beside it."""


@dataclass(frozen=True)
class HostState:
    """One host."""

    host: Host
    state: str = WAITING
    message: str = ""
    remedy: str = ""
    run: RunState = field(default_factory=RunState)
    """Its current run, or the last one of its series."""
    runs: tuple[MeasuredRun, ...] = ()
    """Its finished runs, for comparisons."""
    failed_before: int = 0
    """Number of cases that failed in earlier runs."""

    @property
    def is_over(self) -> bool:
        """Whether its state is final."""
        return self.state in OVER

    @property
    def in_trouble(self) -> bool:
        """Whether it failed."""
        return self.state in TROUBLES

    @property
    def failed(self) -> int:
        """Number of cases that failed in all its runs."""
        return self.failed_before + self.run.failed

    @property
    def why(self) -> str:
        """Message and remedy as one text; empty without a problem."""
        return f"{self.message} {self.remedy}".strip()

    def apply(self, told: Told) -> HostState:
        """Return the state after an event or a change."""
        if isinstance(told, HostChanged):
            if told.state == STARTING and self.state not in (WAITING, CONNECTING):
                return self  # a new agent after a crash: the run continues
            return replace(self, state=told.state, message=told.message, remedy=told.remedy)
        after = replace(self, run=self.run.apply(told))
        if isinstance(told, RunStarted):
            return replace(after, state=RUNNING, failed_before=self.failed)
        if isinstance(told, RunFinished) and (run := measured_state(after.run)) is not None:
            return replace(after, runs=(*self.runs, run))
        return after


@dataclass(frozen=True)
class FleetState:
    """All hosts, in the order of the inventory."""

    hosts: Mapping[str, HostState]

    @classmethod
    def of(cls, hosts: Iterable[Host]) -> FleetState:
        """Return the initial state."""
        return cls({host.host: HostState(host) for host in hosts})

    def apply(self, host: str, told: Told) -> FleetState:
        """Return the state after an event or a change of a host."""
        before = self.hosts[host]
        after = before.apply(told)
        return self if after is before else FleetState({**self.hosts, host: after})

    @property
    def troubled(self) -> tuple[HostState, ...]:
        """Hosts that failed."""
        return tuple(each for each in self.hosts.values() if each.in_trouble)

    @property
    def is_over(self) -> bool:
        """Whether all hosts are in a final state."""
        return all(each.is_over for each in self.hosts.values())

    @property
    def counts(self) -> Mapping[str, int]:
        """State → number of hosts, in the order of a host's life."""
        order = (DONE, RUNNING, STARTING, CONNECTING, WAITING, STOPPED, *TROUBLES)
        states = [each.state for each in self.hosts.values()]
        return {state: states.count(state) for state in order if state in states}

    @property
    def cases_text(self) -> str:
        """Number of cases that have finished or failed: `41 of 112 cases`."""
        runs = [each.run for each in self.hosts.values()]
        return f"{sum(run.settled - run.skipped for run in runs)} of {sum(len(run.rows) for run in runs)} cases"

    @property
    def exit_code(self) -> int:
        """0 if all is well, 3 if a host or a case failed, 130 if a host was stopped."""
        if any(each.state == STOPPED for each in self.hosts.values()):
            return EXIT_INTERRUPTED
        failed = self.troubled or any(each.failed for each in self.hosts.values())
        return EXIT_CASES_FAILED if failed else EXIT_OK

    @property
    def crowded(self) -> tuple[str, ...]:
        """Sentences about hosts that are one machine, by its own name, and whose runs disturbed each other."""
        by_machine: dict[str, list[HostState]] = {}
        for each in self.hosts.values():
            if each.run.run is not None and not each.run.simulated:
                by_machine.setdefault(str(each.run.run.environment.get("hostname")), []).append(each)
        found = []
        for machine, group in by_machine.items():
            names = [each.host.host for each in group]
            shown = [*names[:2], f"{len(names) - 2} others"] if len(names) > 4 else names
            if _overlap(group):
                found.append(
                    f"{joined(shown)} are one machine ({machine}), and their runs overlapped. CPU times are too long. "
                    "Time them one after another with --at-once 1."
                )
        return tuple(found)

    @property
    def sentence(self) -> str:
        """Number of hosts in each state, and of failed cases, as a sentence."""
        counts = self.counts
        said = ", ".join(f"{count} {state}" for state, count in counts.items())
        failed = sum(each.failed for each in self.hosts.values())
        cases = f"; {count_of(failed, 'case')} failed" if failed else ""
        return f"{count_of(len(self.hosts), 'host')}: {said}{cases}."


def _overlap(hosts: Iterable[HostState]) -> bool:
    """Return whether a run began before another one ended, by the clock of the machine that all of these share."""
    spans = sorted(
        (each.run.run.wall_ns, each.run.finished.wall_ns if each.run.finished is not None else math.inf)
        for each in hosts
        if each.run.run is not None
    )
    return any(begin < end for (_, end), (begin, _) in pairwise(spans))
