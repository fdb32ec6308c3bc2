"""Runs an agent for each GPU at the same time, and merges their events into one stream."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

from cpugpu_tui import model
from cpugpu_tui.errors import UsageError
from cpugpu_tui.transport.agent_output import LOOK_AGAIN_S, WAITING_EVENTS, Agent, AgentExited, Message
from cpugpu_tui.transport.agent_pool import Agents

OTHER_NOISE = 1_000
"""Distance between the seeds of two simulated agents: with one seed all GPUs would have equal times."""


def claim_agent(plan: model.Plan, agents: Agents) -> Agent:
    """Return the agent for a plan; for a parallel plan a group with an agent for each GPU.

    Raises:
        UsageError: the interpreter does not exist, or a parallel plan would run in threads.
    """
    if not plan.parallel:
        return agents.take()
    if agents.worker == "thread":
        raise UsageError("--parallel needs a process for each GPU.", "Leave out --worker thread or --parallel.")
    return AgentGroup([agents.take() for _ in plan.devices], plan.devices)


class SeveralAgents:
    """Several agents as one, see `Agent`. A thread for each of them hands its messages to `_take`."""

    def __init__(self, agents: Sequence[Agent]) -> None:
        self._agents = tuple(agents)
        self._lock = threading.Lock()
        self.messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
        """See `Agent`."""

    def _listen(self, names: Iterable[str]) -> None:
        """Start the threads, with these names."""
        for index, name in enumerate(names):
            threading.Thread(target=self._pass_on, args=(index,), name=name, daemon=True).start()

    def _pass_on(self, index: int) -> None:
        message: Message | None = None
        while not isinstance(message, (AgentExited, model.RunFinished)):
            message = self._agents[index].messages.get()
            with self._lock:
                self._take(index, message)
            while self._is_full:
                time.sleep(LOOK_AGAIN_S)

    def _take(self, index: int, message: Message) -> None:
        """Handle a message of the agent with this index; called by one thread at a time."""
        raise NotImplementedError

    @property
    def _is_full(self) -> bool:
        """Whether so many messages wait that no more should be taken."""
        return self.messages.qsize() > WAITING_EVENTS

    @property
    def pid(self) -> int:
        """Process id of the first agent."""
        return self._agents[0].pid

    def hand_over(self) -> None:
        """See `Agent`."""
        for agent in self._agents:
            agent.hand_over()

    def end(self, *, at_once: bool) -> None:
        """See `Agent`."""
        for agent in self._agents:
            agent.end(at_once=at_once)


class AgentGroup(SeveralAgents):
    """Agents with a GPU each. When one dies all are ended, and new ones rerun the open cases."""

    def __init__(self, agents: Sequence[Agent], gpus: Sequence[str]) -> None:
        super().__init__(agents)
        self._gpus = tuple(gpus)
        self._merge = Merge(len(self._agents))
        self._is_ended = False
        self._listen(f"agent-of-{gpu}" for gpu in gpus)

    def _take(self, index: int, message: Message) -> None:
        for each in self._merge.take(index, message):
            self.messages.put(each)
            if isinstance(each, (AgentExited, model.RunFinished)):
                self.end(at_once=False)

    @property
    def _is_full(self) -> bool:
        return not self._is_ended and (super()._is_full or self._merge.is_full)

    def send_plan(self, plan: model.Plan) -> None:
        """Give each agent the plan for its GPU."""
        for gpu, agent in zip(self._gpus, self._agents, strict=True):
            simulation = plan.simulation
            if simulation is not None:
                simulation = replace(simulation, seed=simulation.seed + OTHER_NOISE * model.place(gpu))
            agent.send_plan(replace(plan, devices=(gpu,), simulation=simulation))

    def command(self, word: str) -> None:
        """See `Agent`."""
        for agent in self._agents:
            agent.command(word)

    def end(self, *, at_once: bool) -> None:
        """See `Agent`."""
        self._is_ended = True
        super().end(at_once=at_once)


class Merge:
    """Merges the streams of several agents, with a GPU each, into the stream of one agent with all GPUs."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._hellos: dict[int, model.Hello] = {}
        self._devices: dict[int, model.DevicesFound] = {}
        self._early: list[tuple[int, model.Event]] = []
        self._doing: dict[int, model.Progressed] = {}
        self._seconds_left: dict[int, float] = {}
        self._started: set[str] = set()
        self._finished: dict[str, dict[int, model.CaseFinished]] = {}
        self._failed: set[str] = set()
        self._ended: dict[int, model.RunFinished] = {}
        self._is_over = False

    @property
    def is_full(self) -> bool:
        """Whether so many events wait for the devices of another agent that no more should be taken."""
        return len(self._early) > WAITING_EVENTS

    def take(self, index: int, message: Message) -> list[Message]:
        """Return the messages to deliver after a message of an agent; none after the end."""
        if self._is_over:
            return []
        if isinstance(message, AgentExited):
            return self._gone(index, message)
        if isinstance(message, model.WorkloadsLoading):
            return [message]
        if isinstance(message, model.Hello):
            self._hellos[index] = message
            return [self._hellos[min(self._hellos)]] if len(self._hellos) == self._count else []
        if isinstance(message, model.RunFinished):
            return self._run_finished(index, message)
        if isinstance(message, model.DevicesFound):
            return self._devices_found(index, message)
        if isinstance(message, model.Progressed) and message.phase != "gap":
            self._doing[index] = message
        if len(self._devices) < self._count:
            self._early.append((index, message))  # the stream must begin with all devices
            return []
        return self._from_agent(index, message)

    def _gone(self, index: int, gone: AgentExited) -> list[Message]:
        """Return an agent's end, after what that agent was doing: the last progress may be another agent's."""
        if index in self._ended:
            return []
        self._is_over = True
        doing = self._doing.get(index)
        return [gone] if doing is None else [doing, gone]

    def _run_finished(self, index: int, finished: model.RunFinished) -> list[Message]:
        """Return the end once all agents are done or one failed; before that, the progress of another agent."""
        self._ended[index] = finished
        if finished.status == "failed" or len(self._ended) == self._count:
            self._is_over = True
            early = [told for at, event in self._early for told in self._from_agent(at, event)]
            stopped = (each for each in self._ended.values() if each.status != "done")
            return [*early, finished if finished.status == "failed" else next(stopped, finished)]
        still = [doing for other, doing in self._doing.items() if other not in self._ended]
        return [*still[:1]]

    def _devices_found(self, index: int, found: model.DevicesFound) -> list[Message]:
        self._devices[index] = found
        if len(self._devices) < self._count:
            return []
        devices = {device.name: device for each in self._devices.values() for device in each.devices}
        early, self._early = self._early, []
        return [
            replace(found, devices=tuple(sorted(devices.values(), key=lambda device: model.place(device.name)))),
            *(told for at, event in early for told in self._from_agent(at, event)),
        ]

    def _from_agent(self, index: int, event: model.Event) -> list[Message]:
        case = getattr(event, "case", "")
        match event:
            case model.Progressed():
                return [self._progressed(index, event)]
            case model.CasesChosen():
                fresh = tuple(each for each in event.cases if each.key not in self._started)
                return [replace(event, cases=fresh)] if fresh else []
            case _ if case in self._failed:
                return []
            case model.CaseStarted():
                is_first = case not in self._started
                self._started.add(case)
                return [event] if is_first else []
            case model.CaseFailed():
                self._failed.add(case)
                return [event]
            case model.CaseFinished():
                return self._case_finished(index, event)
            case _:
                return [event]

    def _progressed(self, index: int, event: model.Progressed) -> model.Progressed:
        if event.seconds_left is None:
            return event
        self._seconds_left[index] = event.seconds_left
        return replace(event, seconds_left=max(self._seconds_left.values()))

    def _case_finished(self, index: int, event: model.CaseFinished) -> list[Message]:
        """Return the end of a case once all agents finished it, with the largest error of all."""
        ends = self._finished.setdefault(event.case, {})
        ends[index] = event
        if len(ends) < self._count:
            return []
        checks = [end.check for end in ends.values() if end.check is not None]
        return [replace(event, check=max(checks, key=lambda check: check.error, default=None))]
