"""What a fleet looks like now: each host's state and run, folded from one stream of all of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from cpugpu_tui.config.hosts import Host
from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_INTERRUPTED, EXIT_OK
from cpugpu_tui.model import Device, Event, RunFinished, RunStarted
from cpugpu_tui.model.quantities import joined
from cpugpu_tui.state.measured import MeasuredRun, measured_state
from cpugpu_tui.state.state import RunState
from cpugpu_tui.transport.host_failure import (
    AUTH,
    CRASHED,
    MISBEHAVING,
    NO_PYTHON,
    NO_TORCH,
    TIMEOUT,
    UNREACHABLE,
    VERSION,
)

WAITING, CONNECTING, STARTING, RUNNING = "waiting", "connecting", "starting", "running"
DONE, STOPPED, FAILED = "done", "stopped", "failed"

TROUBLES = (UNREACHABLE, AUTH, NO_PYTHON, NO_TORCH, VERSION, CRASHED, TIMEOUT, MISBEHAVING, FAILED)
"""States of a host that could not do its part."""

OVER = (DONE, STOPPED, *TROUBLES)
"""States that nothing comes after."""


@dataclass(frozen=True)
class HostChanged:
    """A host's state is another one."""

    state: str
    """`waiting`, `connecting`, `starting`, `running`, or one of `OVER`."""
    message: str = ""
    """Why, one sentence; of troubles always."""
    remedy: str = ""


Told = Event | HostChanged
"""What a fleet's stream is made of; who tells is said beside it."""


@dataclass(frozen=True)
class HostState:
    """One host."""

    host: Host
    state: str = WAITING
    message: str = ""
    remedy: str = ""
    run: RunState = field(default_factory=RunState)
    """Its run, the last one of a series."""
    runs: tuple[MeasuredRun, ...] = ()
    """Its runs that are over, for comparisons."""
    failed_before: int = 0
    """Cases that failed in runs before this one."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes from it."""
        return self.state in OVER

    @property
    def in_trouble(self) -> bool:
        """Whether it could not do its part."""
        return self.state in TROUBLES

    @property
    def failed(self) -> int:
        """Cases that failed, in all its runs."""
        return self.failed_before + self.run.failed

    @property
    def gpus(self) -> tuple[Device, ...]:
        """Its GPUs, as its agent told."""
        return tuple(device for device in self.run.devices if not device.is_cpu)

    @property
    def why(self) -> str:
        """Message and remedy, as one text; empty where all is well."""
        return f"{self.message} {self.remedy}".strip()

    def apply(self, told: Told) -> HostState:
        """Return the state after this."""
        if isinstance(told, HostChanged):
            if told.state == STARTING and self.state not in (WAITING, CONNECTING):
                return self  # another agent after a crash: the run goes on
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
        """Return the state before anything happened."""
        return cls({host.host: HostState(host) for host in hosts})

    def apply(self, host: str, told: Told) -> FleetState:
        """Return the state after something came from a host."""
        before = self.hosts[host]
        after = before.apply(told)
        return self if after is before else FleetState({**self.hosts, host: after})

    @property
    def troubled(self) -> tuple[HostState, ...]:
        """Hosts that could not do their part."""
        return tuple(each for each in self.hosts.values() if each.in_trouble)

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes."""
        return all(each.is_over for each in self.hosts.values())

    @property
    def counts(self) -> Mapping[str, int]:
        """State → how many hosts, in the order of a host's life."""
        order = (DONE, RUNNING, STARTING, CONNECTING, WAITING, STOPPED, *TROUBLES)
        states = [each.state for each in self.hosts.values()]
        return {state: states.count(state) for state in order if state in states}

    @property
    def cases_text(self) -> str:
        """How many cases have finished or failed: `41 of 112 cases`."""
        runs = [each.run for each in self.hosts.values()]
        return f"{sum(run.settled - run.skipped for run in runs)} of {sum(len(run.rows) for run in runs)} cases"

    @property
    def exit_code(self) -> int:
        """0; 3 where a host or a case failed; 130 where somebody stopped it."""
        if any(each.state == STOPPED for each in self.hosts.values()):
            return EXIT_INTERRUPTED
        failed = self.troubled or any(each.failed for each in self.hosts.values())
        return EXIT_CASES_FAILED if failed else EXIT_OK

    @property
    def crowded(self) -> tuple[str, ...]:
        """Which hosts are one machine, as its own name tells: their runs were in each other's way."""
        by_machine: dict[str, list[HostState]] = {}
        for each in self.hosts.values():
            if each.run.run is not None and not each.run.simulated:
                by_machine.setdefault(str(each.run.run.environment.get("hostname")), []).append(each)
        return tuple(
            f"{some_of([each.host.host for each in group])} are one machine ({machine}) and were timed on the same "
            "cores at the same time: the CPU's times are too long. Time them one after another with --at-once 1."
            for machine, group in by_machine.items()
            if _overlap(group)
        )

    @property
    def sentence(self) -> str:
        """How many hosts are how, and which of them are in trouble."""
        counts = self.counts
        said = ", ".join(f"{count} {state}" for state, count in counts.items())
        failed = sum(each.failed for each in self.hosts.values())
        cases = f"; {failed} case{'' if failed == 1 else 's'} failed" if failed else ""
        return f"{len(self.hosts)} host{'' if len(self.hosts) == 1 else 's'}: {said}{cases}."


def some_of(names: Sequence[str]) -> str:
    """Return `a, b and c`; of more than four the first two and how many others there are."""
    shown = [*names[:2], f"{len(names) - 2} others"] if len(names) > 4 else list(names)
    return joined(shown)


def _overlap(hosts: Iterable[HostState]) -> bool:
    """Return whether a run began before another one ended; a machine's clock tells, which all of these share."""
    spans = sorted(
        (each.run.run.wall_ns, each.run.finished.wall_ns if each.run.finished is not None else math.inf)
        for each in hosts
        if each.run.run is not None
    )
    return any(begin < end for (_, end), (begin, _) in pairwise(spans))
