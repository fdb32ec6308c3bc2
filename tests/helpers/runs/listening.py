"""Listens to agents, and runs plans on real ones."""

import queue
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any, TypeVar

from tests.helpers.command_line import PATIENCE_S
from tests.helpers.runs.recorder import QUICK

from cpugpu_tui.model import Event, Plan, RunStarted
from cpugpu_tui.session.session import Session
from cpugpu_tui.transport.agent_output import AgentExited, Message
from cpugpu_tui.transport.agent_pool import Agents

ENDLESS = replace(QUICK, pace=1.0)
"""Virtual time is real: a case takes about a second."""
M = TypeVar("M", bound=Message)


def heard(agent: Any) -> queue.SimpleQueue[Message]:
    """Return the messages of an agent."""
    found: queue.SimpleQueue[Message] = agent.messages
    return found


def next_of(inbox: queue.SimpleQueue[Message], kind: type[M], wanted: Callable[[M], bool] = lambda _: True) -> M:
    """Wait for a message of a kind; the others are dropped, an unexpected end is a failure."""
    while True:
        message = inbox.get(timeout=PATIENCE_S)
        if isinstance(message, kind) and wanted(message):
            return message
        assert not isinstance(message, AgentExited), message


def run_with(agents: Agents, plan: Plan) -> list[Event]:
    """Run a plan; return its events."""
    events: list[Event] = []
    with closing(agents):
        Session(plan, agents).run(events.append)
    return events


def environment_of(events: list[Event]) -> dict[str, Any]:
    assert isinstance(events[0], RunStarted), events
    return events[0].environment
