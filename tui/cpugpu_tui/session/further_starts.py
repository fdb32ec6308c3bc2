"""The further starts of a run: the same cases again, in fresh processes."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from cpugpu_tui import model
from cpugpu_tui.errors import EXIT_INTERRUPTED
from cpugpu_tui.session.parallel import claim_agent
from cpugpu_tui.session.visits import Visits, drifting
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

    def use(self, agent: Agent) -> None:
        """Listen to this agent from now on."""

    def hello(self) -> model.Hello | Gone | None:
        """Wait for its hello or its end; None if a stop was requested meanwhile."""

    def follow(self, plan: model.Plan) -> model.RunFinished | Gone:
        """Send it the plan, and hand its events to `take` until it is done or dead."""


class FurtherStarts:
    """Times the cases that matter in further starts of the process, once the first one has run the plan.

    No process starts while another one is timed, because an import of torch takes all cores. Each is timed for itself,
    one after the other, so that what changes from second to second is in the interval as well.
    """

    def __init__(self, session: Listener, stream: EventStream, plan: model.Plan, agents: Agents) -> None:
        self._session, self._stream, self._plan, self._agents = session, stream, plan, agents
        self.start = 0
        """Number of the start in progress; 0 for the first one, which runs the whole plan."""
        self.lost: list[str] = []
        """What went wrong in further starts, a sentence each."""

    def run(self, finished: model.RunFinished, started_s: float) -> model.RunFinished:
        """Run all further starts and return the end of the run; `finished` is that of the first start."""
        visits = Visits(self._plan, self._stream.left.state, time.monotonic() - started_s)
        ready: list[Agent] = []
        try:
            for start in range(1, self._plan.starts):
                left_s = visits.left_s(time.monotonic() - started_s, start)
                if not visits.cases or left_s <= 0 or self._session.stopping:
                    break
                ready = ready or self._started(visits.together(start))
                if not ready:
                    break
                self._visit(ready.pop(0), start, visits.plan(start, left_s))
        finally:
            for agent in ready:
                agent.end(at_once=False)
        if self._session.stopping:
            return model.RunFinished(status="stopped", exit_code=EXIT_INTERRUPTED)
        if self.lost and not finished.message:
            message = f"A further start of the process was not timed completely: {self.lost[0]}"
            return replace(finished, message=message, remedy="The others are complete. --starts 1 times only one.")
        return finished

    def _visit(self, agent: Agent, start: int, plan: model.Plan) -> None:
        self._session.use(agent)
        self.start = start
        outcome = self._session.follow(drifting(plan, self._session.run_id))
        self._stream.end_start()
        if isinstance(outcome, Gone):
            self.lost.append(f"The process {outcome.manner}.")
        elif outcome.status == "failed":
            self.lost.append(outcome.message)
        agent.end(at_once=False)

    def _started(self, count: int) -> list[Agent]:
        """Return so many agents once all have said hello; those that died instead are noted."""
        agents, ready = [claim_agent(self._plan, self._agents) for _ in range(count)], list[Agent]()
        for agent in agents:
            self._session.use(agent)
            hello = self._session.hello()
            if isinstance(hello, model.Hello):
                ready.append(agent)
            elif hello is not None:
                self.lost.append(f"The process {hello.manner}.")
        return ready

    def take(self, message: Message) -> None:
        """Handle an event of a further start: of its cases only the half-rounds count."""
        if isinstance(message, model.DeviceSampled) and message.round_index:
            self._stream.add_later(replace(message, start=self.start))
        elif isinstance(message, model.CaseFailed) and message.kind != "skipped":
            self.lost.append(message.message)
        elif isinstance(message, (model.Progressed, model.Gap)):
            self._stream.add(message)
