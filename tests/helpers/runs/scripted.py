"""Agents and a store that do what a test wrote down: no process, no file."""

import queue
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

from tests.helpers.runs.recorder import plan_of, swept

from cpugpu_tui import model
from cpugpu_tui.errors import StoreError
from cpugpu_tui.session.session import Session
from cpugpu_tui.simulation.simulated_machine import SimulatedMachine
from cpugpu_tui.state.folding import folded
from cpugpu_tui.store.outbox import Outbox
from cpugpu_tui.transport.agent_output import AgentExited, Message

Script = Callable[[model.Plan], Iterable[Message]]
HELLO = model.Hello(protocol=model.PROTOCOL, environment={"torch": None, "interpreter": "/usr/bin/python3"})
KILLED = AgentExited(-9, ("Segmentation fault",))


class ScriptedAgent:
    """Says hello, and its script when it gets a plan."""

    pid = 4711

    def __init__(self, script: Script, greeting: Sequence[Message] = (HELLO,)) -> None:
        self._script = script
        self.plan: model.Plan | None = None
        self.commands: list[str] = []
        self.ended: list[bool] = []
        self.messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.say(*greeting)

    def say(self, *messages: Message) -> None:
        for message in messages:
            self.messages.put(message)

    def hand_over(self) -> None:
        """Hold nothing back."""

    def send_plan(self, plan: model.Plan) -> None:
        assert self.plan is None, "an agent takes one plan"
        self.plan = plan
        self.say(*self._script(plan))

    def command(self, word: str) -> None:
        self.commands.append(word)

    def end(self, *, at_once: bool) -> None:
        self.ended.append(at_once)


class ScriptedAgents:
    """Hands out agents in order."""

    python: str | None = None
    worker = "process"
    is_standby_ready = False
    host = None

    def __init__(self, *agents: ScriptedAgent | Script) -> None:
        self.agents = [agent if isinstance(agent, ScriptedAgent) else ScriptedAgent(agent) for agent in agents]
        self.taken = 0

    def take(self) -> ScriptedAgent:
        self.taken += 1
        return self.agents[self.taken - 1]


def session_of(plan: model.Plan, *agents: ScriptedAgent | Script, **more: Any) -> tuple[Session, ScriptedAgents]:
    """Return a session with scripted agents."""
    scripted = ScriptedAgents(*agents)
    store = more.pop("store", None)
    if store is not None:
        more["outbox"] = Outbox(lambda _wait_s: store, store)
    return Session(plan, scripted, **more), scripted  # type: ignore[arg-type]


# ------------------------------------------------------------------ scripts


def well(plan: model.Plan) -> list[Message]:
    """All cases, as the simulated machine times them."""
    devices = SimulatedMachine(plan).devices
    alone = replace(plan, turns=0)  # nobody would let it go on
    return [model.DevicesFound(devices=devices), *swept(alone)[1].events, model.RunFinished(status="done")]


def dies_at(size: int, gone: AgentExited = KILLED, phase: str = "round") -> Script:
    """Well until a step of the case of this size is announced; then dead."""

    def script(plan: model.Plan) -> list[Message]:
        told: list[Message] = []
        for message in well(plan):
            told.append(message)
            if isinstance(message, model.Progressed) and message.phase == phase and f"/{size}/" in message.case:
                break
        return [*told, gone]

    return script


def silent_at(size: int) -> Script:
    """Well until a round of the case of this size is announced; then nothing more."""
    return lambda plan: dies_at(size)(plan)[:-1]  # type: ignore[index]


def dead(plan: model.Plan) -> list[Message]:
    """Die without a message."""
    del plan
    return [KILLED]


# ------------------------------------------------------------------ a store in a list


class ListStore:
    """Notes what is saved, in the same list as what is shown; may fail from some call on."""

    def __init__(self, log: list[Any], fails_from: int = 10**9) -> None:
        self.log = log
        self.attempts = 0
        self._fails_from = fails_from
        self.known: tuple[model.Ceilings, ...] = ()
        self.notice: str | None = None

    def works_again(self) -> None:
        self._fails_from = 10**9

    def patience(self, wait_s: float) -> AbstractContextManager[None]:
        return nullcontext()

    def _note(self, what: str, *facts: Any) -> None:
        self.attempts += 1
        if self.attempts > self._fails_from:
            raise StoreError("The disk that holds the database is full.", "Free some space.")
        self.log.append(("saved", what, *facts))

    def begin_run(self, started: model.Event) -> int:
        self._note("run", started)
        return 7

    def add_devices(self, run_id: str, found: model.DevicesFound) -> None:
        self._note("devices", found)

    def commit_cases(
        self, run_id: str, cases: Sequence[Sequence[model.Event]], telemetry: Sequence[model.Event]
    ) -> None:
        if len(cases) == 1:
            self._note("case", list(cases[0]), list(telemetry))
        else:
            self._note("cases", [list(events) for events in cases], list(telemetry))

    def add_later(self, run_id: str, events: Sequence[model.Event]) -> None:
        self._note("later", list(events))

    def keep_ceilings(self, found: model.Ceilings) -> None:
        self._note("ceilings", found)

    def ceilings(self) -> tuple[model.Ceilings, ...]:
        return tuple(self.known)

    def earlier_starts(self, run_id: str) -> list[model.EarlierTimed]:
        return []

    def finish_run(self, run_id: str, finished: model.RunFinished, telemetry: Sequence[model.Event]) -> None:
        self._note("end", finished, list(telemetry))


def three_cases() -> model.Plan:
    return plan_of(32, 64, 128)


# ------------------------------------------------------------------ what a person sees in the end


def statuses(events: list[model.Event]) -> list[str]:
    return [row.status for row in folded(events).rows.values()]


def failures(events: list[model.Event]) -> dict[int, model.CaseFailed]:
    """Size → failure."""
    return {int(event.case.split("/")[2]): event for event in events if isinstance(event, model.CaseFailed)}
