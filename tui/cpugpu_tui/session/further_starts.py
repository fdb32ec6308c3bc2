"""The further starts of a run: the same cases again, in fresh processes. What they time, how many, and for how long."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from cpugpu_tui import model
from cpugpu_tui.analysis.costs import END_TO_END, RESIDENT
from cpugpu_tui.decide.starts import sizes_to_repeat
from cpugpu_tui.errors import EXIT_INTERRUPTED
from cpugpu_tui.machine import procfs
from cpugpu_tui.report.conditions import condition_of
from cpugpu_tui.session.parallel import claim_agent
from cpugpu_tui.session.turns import Rotation
from cpugpu_tui.state.row import Row
from cpugpu_tui.state.state import RunState
from cpugpu_tui.timing.warm_up import least_device_ns
from cpugpu_tui.transport.agent_output import Agent, AgentExited, Message
from cpugpu_tui.transport.agent_pool import Agents

if TYPE_CHECKING:
    from cpugpu_tui.session.event_stream import EventStream


class Listener(Protocol):
    """What further starts use of a session."""

    run_id: str

    @property
    def stopping(self) -> bool:
        """Whether a stop was requested."""

    @property
    def left_s(self) -> float:
        """What is left of the time limit, seconds; infinite without one."""

    def use(self, agent: Agent) -> None:
        """Listen to this agent from now on."""

    def hello(self) -> model.Hello | AgentExited | None:
        """Wait for its hello or its end; None after a stop and after the time limit."""

    def follow(self, plan: model.Plan) -> model.RunFinished | AgentExited:
        """Send it the plan, and hand its events to `take` until it is done or dead."""


class FurtherStarts:
    """Times the cases that matter in further starts of the process, once the first one has run the plan.

    No process starts while another one is timed, because an import of torch takes all cores. The starts are visited in
    turn, round by round, so that what drifts for seconds does not look like a difference between them.
    """

    def __init__(self, session: Listener, stream: EventStream, plan: model.Plan, agents: Agents) -> None:
        self._session, self._stream, self._plan, self._agents = session, stream, plan, agents
        self._early: Rotation | None = None
        """Started before the first start was timed."""
        self._running: Rotation | None = None
        self._lost: list[str] = []
        """What went wrong in further starts, a sentence each."""

    @property
    def is_running(self) -> bool:
        """Whether the first start is over and others are timed."""
        return self._running is not None

    def prepare(self) -> None:
        """Start the processes beside the first one if each has a core, unless that would delay the first row."""
        plan, agents = self._plan, self._agents
        is_alone = plan.starts < 2 or plan.parallel or agents.worker == "thread" or agents.is_standby_ready
        is_alone = is_alone or agents.host is not None  # whose cores are not known here
        if self._early is None and not is_alone and has_cores(plan.starts):
            self._early = self._started(plan.starts - 1)

    def await_ready(self) -> bool:
        """Wait until the processes of `prepare` are ready or dead; return whether there are any."""
        if self._early is None:
            return False
        self._session.use(self._early)
        self._session.hello()
        return True

    def close(self) -> None:
        """End the processes of `prepare`."""
        if self._early is not None:
            self._early.end(at_once=False)

    def run(self, finished: model.RunFinished, started_s: float) -> model.RunFinished:
        """Run all further starts and return the end of the run; `finished` is that of the first start."""
        host = self._agents.host
        visits = Visits(self._plan, self._stream.left.state, time.monotonic() - started_s, self._session.left_s)
        count = visits.count(self._early.count if self._early is not None else 0) if visits.cases else 0
        # A start of several agents is visited alone. So is one of Slurm, which gives a whole node to each.
        has_one = self._plan.parallel or (host is not None and host.launcher == "srun")
        at_once = 1 if has_one else max(count, 1)
        for first in range(1, count + 1, at_once):
            rotation = self._early or self._started(at_once, first)
            if rotation is None or self._session.stopping:
                break
            self._visit(rotation, count, visits)
        if self._session.stopping:
            return model.RunFinished(status="stopped", exit_code=EXIT_INTERRUPTED)
        finished = replace(finished, is_short_of_time=visits.is_short_of_time)
        if self._lost and not finished.message:
            message = f"A further start of the process was not timed completely: {self._lost[0]}"
            return replace(finished, message=message, remedy="The others are complete. --starts 1 times only one.")
        return finished

    def _started(self, count: int, first: int = 1) -> Rotation | None:
        """Return so many processes, fewer if memory has no room for them; None without any."""
        fitting = room(count) if self._agents.host is None else count
        if fitting < count:
            self._lost.append(f"Memory has room for {fitting} of {count} processes.")
        agents = [claim_agent(self._plan, self._agents) for _ in range(fitting)]
        return Rotation(agents, first) if agents else None

    def _visit(self, rotation: Rotation, count: int, visits: Visits) -> None:
        self._running = rotation
        self._session.use(rotation)
        try:
            if rotation is self._early or isinstance(self._session.hello(), model.Hello):
                rotation.keep(count)
                self._session.follow(drifting(visits.plan(self._session.left_s), self._session.run_id))
                self._stream.end_start()
        finally:
            self._lost += rotation.lost
            rotation.end(at_once=False)

    def take(self, message: Message) -> None:
        """Handle an event of a further start: of its cases only the half-rounds count."""
        if isinstance(message, model.DeviceSampled) and message.round_index:
            self._stream.add_later(message)
        elif isinstance(message, model.CaseFailed) and message.kind != "skipped":
            self._lost.append(message.message)
        elif isinstance(message, (model.Progressed, model.Gap)):
            self._stream.add(message)

    def end_silent(self, limit_s: float) -> None:
        """Kill the start that has not answered for so long; the others go on."""
        self._lost.append(f"No answer for {limit_s:g} s.")
        if self._running is not None:
            self._running.end_silent()


LEAST_STARTS = 3
"""Starts that are timed even if the time is short: with two, Student's t is 12.7."""

MORE_TIME = 0.5
"""Time for the further starts, as a share of the time until the first one has ended."""

LEAST_S = 30.0
"""A run of several starts may take so long at least, on a machine with a core for each of them, seconds."""

START_BYTES = 1 << 30
"""Memory of the host for a start, besides its cases."""

SEARCH_ROUNDS, FIXED_ROUNDS = 4, 2
"""Rounds of a case in a further start. More starts narrow the interval more than more rounds do."""

METRICS = (model.LATENCY, model.END_TO_END, model.DEVICE)
"""Metrics that further starts take, if the plan takes them: those that are compared between devices."""

LONGEST_SHARE = 0.5
"""A case is not repeated if its calls would take more than this share of the time for a further start."""


def drifting(plan: model.Plan, seed: str) -> model.Plan:
    """Return the plan with a seed of how a simulated machine differs from run to run, unless it has one."""
    simulation = plan.simulation
    if simulation is None or simulation.drift_seed:
        return plan
    return replace(plan, simulation=replace(simulation, drift_seed=zlib.crc32(seed.encode()) or 1))


def has_cores(starts: int) -> bool:
    """Return whether there is a core for each start, so that they can import torch at once beside the first one."""
    return len(procfs.affinity_cores()) > starts


def room(starts: int) -> int:
    """Return how many of so many further starts the memory of the host has room for."""
    free_bytes = procfs.available_memory_bytes()
    return starts if free_bytes is None else min(starts, free_bytes // START_BYTES)


def at_once(groups: int, size: int) -> int:
    """Return how many of so many groups of processes start together, if each process is to have a core and memory."""
    processes = min(len(procfs.affinity_cores()), room(groups * size))
    return max(1, min(groups, processes // size))


class Visits:
    """Plans the further starts of a run whose first start has ended."""

    def __init__(self, plan: model.Plan, state: RunState, first_s: float, left_s: float) -> None:
        """`first_s` is the time that the first start took; `left_s` is what is left of the time limit."""
        rounds = FIXED_ROUNDS if plan.search is None and len(plan.cases) > LEAST_STARTS * 2 else SEARCH_ROUNDS
        self._is_search = plan.search is not None
        self._plan = replace(
            plan, search=None, calibrate=False, window=1, rounds=rounds, max_rounds=rounds, is_repeat=True,
            has_exact_rounds=False,
            clocks=tuple(state.clocks.values()),
            metrics=tuple(metric for metric in METRICS if metric in plan.metrics),
        )  # fmt: skip
        self._cores = len(procfs.affinity_cores())
        least_s = LEAST_S - first_s if has_cores(plan.starts) else 0.0
        self._extra_s = max(MORE_TIME * first_s, least_s)
        self._left_s = left_s
        self.is_short_of_time = False
        """Whether the time limit left no room for one more start than `count` returned."""
        if plan.simulation is not None and not plan.simulation.pace:  # whose time is virtual
            self._extra_s = math.inf
        self.cases: tuple[model.Case, ...] = tuple(row.case for row in self._rows(state))
        """Cases that every further start times."""
        self._visit_s = sum(self._spent_s(state.rows[case.key]) for case in self.cases)
        self._import_s = float(state.facts.get("torch_import_s") or 0.0)

    def count(self, ready: int) -> int:
        """Return the number of further starts that fit into the time for them, at most as planned.

        At least two, or none if the time limit of the run would be over before.

        So many processes are `ready`; others have to import torch first.
        """
        planned = self._plan.starts - 1
        least = min(planned, LEAST_STARTS - 1)
        for count in range(planned, least - 1, -1):
            missing = max(0, count - ready)
            needed_s = count * self._visit_s + self._import_s * math.ceil(missing / self._cores)
            if needed_s <= self._left_s and (needed_s <= self._extra_s or count == least):
                return count
            self.is_short_of_time = needed_s > self._left_s
        return 0

    def plan(self, left_s: float) -> model.Plan:
        """Return the plan of all further starts, with what is left of the time limit."""
        return replace(self._plan.limited(left_s), cases=self.cases, starts=1)

    def _rows(self, state: RunState) -> Iterator[Row]:
        for rows in state.sweeps.values():
            usable = [row for row in rows if self._is_repeated(row)]
            sizes = [row.case.size for row in usable] if not self._is_search else _sizes(usable)
            yield from (row for row in usable if row.case.size in sizes)

    def _is_repeated(self, row: Row) -> bool:
        """Return whether a case has times and is short. Compiling it again would take longer than its times.

        The name of the variant decides: a person's own workload is registered in the agents, and not here.
        """
        if row.status != "ok" or row.is_starved or row.case.variant == model.COMPILED:
            return False
        is_repeatable = all(times.latency_ns is not None and not times.timed_once for times in row.times.values())
        return is_repeatable and self._spent_s(row) <= max(1.0, LONGEST_SHARE * self._extra_s)

    def _spent_s(self, row: Row) -> float:
        """Return how long a case takes in a further start."""
        return sum(least_device_ns(times.latency_ns or 0.0, self._plan) for times in row.times.values()) / 1e9


def _sizes(rows: Sequence[Row]) -> list[int]:
    """Return the sizes of a search that decide its answer."""
    resident, copied = (
        [(size.size, _log(size.comparison.speedup)) for size in condition_of(key, rows).timed if size.comparison]
        for key in (RESIDENT, END_TO_END)
    )
    return sizes_to_repeat(resident or sorted((row.case.size, 1.0) for row in rows), copied)


def _log(speedup: float) -> float:
    return math.log(speedup) if 0 < speedup < math.inf else 0.0
