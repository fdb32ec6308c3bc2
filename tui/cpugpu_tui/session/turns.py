"""Agents that live at the same time and are visited in turn: of a duet, or further starts of one run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from cpugpu_tui import model
from cpugpu_tui.session.parallel import SeveralAgents
from cpugpu_tui.transport.agent_output import Agent, AgentExited, Message

Place = tuple[int, int]
"""Where an agent waits: index of the case, and round of this case; round 0 prepares it."""


class Turns:
    """Lets one agent work at a time, the one that is furthest behind.

    The order flips with each round: A B, B A, A B, B A. So what drifts for seconds reaches all of them alike.
    """

    def __init__(
        self, count: int, cases: Sequence[model.Case], resume: Callable[[int], None], *, is_flipped: bool = False
    ) -> None:
        """`resume` lets the agent with an index work; `is_flipped` lets the last one begin."""
        self.visits_s = 0.0
        """Time in which a case was timed. The rest is starting agents, preparing cases and warm-up."""
        self._resume = resume
        self._index = {case.key: index for index, case in enumerate(cases)}
        self._is_flipped = is_flipped
        self._lock = threading.Lock()
        self._live = set(range(count))
        self._waiting: dict[int, Place] = {}
        self._visited_s: float | None = None
        self._is_held = False

    def hold(self, is_held: bool) -> None:
        """Let no agent work from its next turn on, or go on."""
        with self._lock:
            self._is_held = is_held
            self._visit_next()

    def wait(self, index: int, turn: model.Progressed) -> None:
        """Note that an agent waits, and let the next one work once all of them wait."""
        with self._lock:
            self._waiting[index] = self._index.get(turn.case, len(self._index)), turn.round_index
            self._visit_next()

    def leave(self, index: int) -> None:
        """Wait for this agent no more."""
        with self._lock:
            self._live.discard(index)
            self._waiting.pop(index, None)
            self._visit_next()

    def _visit_next(self) -> None:
        if self._visited_s is not None:
            self.visits_s += time.monotonic() - self._visited_s
            self._visited_s = None
        if self._is_held or not self._live or self._live - self._waiting.keys():
            return
        index = min(self._waiting, key=self._rank)
        _, round_index = self._waiting.pop(index)
        if round_index:
            self._visited_s = time.monotonic()
        self._resume(index)

    def _rank(self, index: int) -> tuple[int, int, int]:
        case, round_index = self._waiting[index]
        # A case is prepared by the first agent first, because that one checks the memory for all of them.
        is_reversed = round_index > 0 and (round_index % 2 == 0) != self._is_flipped
        return case, round_index, -index if is_reversed else index


class Rotation(SeveralAgents):
    """Further starts of one run as one agent. One that dies or is ended leaves the others."""

    def __init__(self, agents: Sequence[Agent], first: int = 1) -> None:
        """Listen to agents that have no plan yet. Their hello is one, once each has said it or died.

        `first` is the number of the first one's start.
        """
        super().__init__(agents)
        self._first = first
        self._greeted: set[int] = set()
        self._over: set[int] = set()
        self._is_greeted = False
        self._hello: model.Hello | None = None
        self._turns: Turns | None = None
        self._active = 0
        self._is_paused = False
        self.lost: list[str] = []
        """Why agents ended early, a sentence each."""
        self._listen(f"start-{first + index}" for index in range(len(self._agents)))

    @property
    def count(self) -> int:
        """Number of agents that live."""
        return len(self._live)

    def keep(self, count: int) -> None:
        """End all agents but so many."""
        with self._lock:
            for index in self._live[count:]:
                self._over.add(index)
                self._agents[index].end(at_once=False)

    @property
    def _live(self) -> list[int]:
        return [index for index in range(len(self._agents)) if index not in self._over]

    def send_plan(self, plan: model.Plan) -> None:
        """Give each agent the plan as that of its start."""
        with self._lock:
            self._turns = Turns(len(self._agents), plan.cases, self._resume)
            live = self._live
        for index in self._over:
            self._turns.leave(index)
        for place, index in enumerate(live):
            turns = len(live) - place if len(live) > 1 else 0
            self._agents[index].send_plan(replace(of_start(plan, self._first + index), turns=turns))

    def command(self, word: str) -> None:
        """Stop all, or pause or resume the one whose turn it is; the others wait."""
        with self._lock:
            is_stop = word == "stop"
            self._is_paused = word == "pause"
            for index in self._live if is_stop else [self._active]:
                self._agents[index].command(word)

    def _resume(self, index: int) -> None:
        self._active = index
        if not self._is_paused:
            self._agents[index].command("resume")

    def end_silent(self) -> None:
        """Kill the agent whose turn it is."""
        self._agents[self._active].end(at_once=True)

    def _take(self, index: int, message: Message) -> None:
        if isinstance(message, model.Hello):
            self._hello = message
            self._greeted.add(index)
        elif isinstance(message, model.Progressed) and message.phase == model.TURN and self._turns is not None:
            self._turns.wait(index, message)
        elif isinstance(message, model.DeviceSampled):  # a half-round has the number of its start
            self.messages.put(replace(message, start=self._first + index))
        elif isinstance(message, (AgentExited, model.RunFinished)):
            self._leave(index, message)
        else:
            self.messages.put(message)
        if not self._is_greeted and len(self._greeted | self._over) == len(self._agents):
            self._is_greeted = True
            self.messages.put(self._hello if self._hello is not None else AgentExited(1))

    def _leave(self, index: int, end: AgentExited | model.RunFinished) -> None:
        if index in self._over:
            return
        self._over.add(index)
        if isinstance(end, AgentExited):
            why = f"The process {end.manner}."
        else:
            why = end.message if end.status == "failed" else ""
        if why:
            self.lost.append(why)
            self.messages.put(model.CaseFailed(case="", kind="skipped", message=why, remedy=""))  # breaks the silence
        if self._turns is not None:
            self._turns.leave(index)
            if not self._live:
                self.messages.put(model.RunFinished(status="done"))


OTHER_NOISE = 1_000_000
"""Distance between the seeds of two simulated starts."""


def of_start(plan: model.Plan, start: int) -> model.Plan:
    """Return a plan as that of the start with this number."""
    simulation = plan.simulation
    if simulation is None:
        return plan
    simulation = replace(simulation, seed=simulation.seed + OTHER_NOISE * start, start=start)
    return replace(plan, simulation=simulation)
