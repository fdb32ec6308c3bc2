"""The further starts of a run: the same cases again, in fresh processes."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from cpugpu_tui import model
from cpugpu_tui.errors import EXIT_INTERRUPTED
from cpugpu_tui.session.parallel import claim_agent
from cpugpu_tui.session.turns import Rotation
from cpugpu_tui.session.visits import Visits, drifting, has_cores, room
from cpugpu_tui.transport.agent_output import Agent, Gone, Message

if TYPE_CHECKING:
    from cpugpu_tui.session.event_stream import EventStream
    from cpugpu_tui.transport.agent_pool import Agents


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

    def hello(self) -> model.Hello | Gone | None:
        """Wait for its hello or its end; None after a stop and after the time limit."""

    def follow(self, plan: model.Plan) -> model.RunFinished | Gone:
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
        visits = Visits(self._plan, self._stream.left.state, time.monotonic() - started_s, self._session.left_s)
        count = visits.count(self._early.count if self._early is not None else 0) if visits.cases else 0
        at_once = 1 if self._plan.parallel else max(count, 1)  # a start of several agents is visited alone
        for first in range(1, count + 1, at_once):
            rotation = self._early or self._started(at_once, first)
            if rotation is None or self._session.stopping:
                break
            self._visit(rotation, count, visits)
        if self._session.stopping:
            return model.RunFinished(status="stopped", exit_code=EXIT_INTERRUPTED)
        if self._lost and not finished.message:
            message = f"A further start of the process was not timed completely: {self._lost[0]}"
            return replace(finished, message=message, remedy="The others are complete. --starts 1 times only one.")
        return finished

    def _started(self, count: int, first: int = 1) -> Rotation | None:
        """Return so many processes, fewer if memory has no room for them; None without any."""
        fitting = room(count)
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
