"""What `--worker process` and `--worker thread` do alike: plans, stops, pauses, and the same stream of events.

What differs by nature is in test_launch.py and test_worker_thread.py. A thread cannot be killed, nor suspended without
the app; its events come in gaps and when a case is over; what ends a process would end the app.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from tests.helpers.runs.listening import ENDLESS, PATIENCE_S, heard, next_of, run_with
from tests.helpers.runs.recorder import QUICK, plan_of

from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_INTERRUPTED
from cpugpu_tui.model import (
    CaseFailed,
    CaseFinished,
    CaseStarted,
    Device,
    DeviceSampled,
    Event,
    Hello,
    Progressed,
    RunFinished,
)
from cpugpu_tui.session.session import Session
from cpugpu_tui.transport.agent_pool import Agents
from cpugpu_tui.transport.inbox import Agent, Gone

WORKERS = ("process", "thread")


@pytest.fixture(params=WORKERS)
def agents(request: pytest.FixtureRequest) -> Iterator[Agents]:
    with closing(Agents(worker=request.param, simulated=True)) as agents:
        yield agents


@pytest.fixture
def agent(agents: Agents) -> Agent:
    return agents.take()


def test_an_agent_says_hello_runs_one_plan_and_is_gone(agent: Agent) -> None:
    inbox = heard(agent)
    hello = next_of(inbox, Hello)
    assert hello.environment["interpreter"] == sys.executable
    assert hello.environment["simulated"] is True
    assert "matmul" in {info.name for info in hello.catalogue}
    agent.send_plan(plan_of(64))
    assert next_of(inbox, CaseFinished).case == plan_of(64).cases[0].key
    assert next_of(inbox, RunFinished).status == "done"
    assert next_of(inbox, Gone) == Gone(0)


def test_a_second_plan_is_not_taken(agent: Agent) -> None:
    inbox = heard(agent)
    agent.send_plan(plan_of(64))
    agent.send_plan(plan_of(128))
    cases = set()
    while not isinstance(message := inbox.get(timeout=PATIENCE_S), Gone):
        cases |= {message.case} if isinstance(message, CaseStarted) else set()
    assert cases == {plan_of(64).cases[0].key}


def test_a_stop_is_obeyed_between_blocks(agent: Agent) -> None:
    inbox = heard(agent)
    agent.send_plan(plan_of(64, 128, simulation=ENDLESS, gaps=True, gap_every_s=0.0))
    next_of(inbox, DeviceSampled, lambda event: event.round_index == 1)
    agent.command("stop")
    assert next_of(inbox, RunFinished).status == "stopped"
    assert next_of(inbox, Gone).exit_code == 0


def test_a_pause_holds_the_rounds_and_a_stop_ends_it(agent: Agent) -> None:
    inbox = heard(agent)
    agent.send_plan(plan_of(64, simulation=ENDLESS, gaps=True, gap_every_s=0.0))
    agent.command("pause")
    # The pause is noticed after the warm-up; nothing is timed from then on.
    next_of(inbox, Progressed, lambda event: event.phase == "warm-up" and event.device == "cuda:0")
    agent.command("stop")
    rounds = 0
    while not isinstance(message := inbox.get(timeout=PATIENCE_S), RunFinished):
        rounds += isinstance(message, DeviceSampled) and message.round_index > 0
    assert rounds == 0


def test_devices_are_only_asked_for_once_a_plan_needs_them(agent: Agent) -> None:
    """An agent in waiting holds no context on a shared GPU: its hello names no device."""
    hello = next_of(heard(agent), Hello)
    assert not any(isinstance(value, Device) or "cuda:" in str(value) for value in hello.environment.values())


def test_what_is_paused_goes_on_when_it_is_resumed(agent: Agent) -> None:
    inbox = heard(agent)
    agent.send_plan(plan_of(64, simulation=ENDLESS, gaps=True, gap_every_s=0.0))
    agent.command("pause")
    next_of(inbox, Progressed, lambda event: event.phase == "warm-up" and event.device == "cuda:0")
    agent.command("resume")
    assert next_of(inbox, CaseFinished).case == plan_of(64).cases[0].key
    assert next_of(inbox, RunFinished).status == "done"
    assert next_of(inbox, Gone) == Gone(0)


# ------------------------------------------------------------------ through a session


def told(event: Event) -> tuple[Any, ...]:
    """What an event tells, without clocks and processes."""
    names = ("case", "device", "phase", "round_index", "samples", "marks", "kind", "message", "status", "exit_code")
    return type(event), *(getattr(event, name, None) for name in names)


def test_both_tell_the_same_events_with_the_same_numbers() -> None:
    plan = plan_of(64, 128, 4096, gaps=False, simulation=replace(QUICK, drift=0.0))
    process, thread = (run_with(Agents(worker=worker, simulated=True), plan) for worker in WORKERS)
    assert [told(event) for event in process[1:]] == [told(event) for event in thread[1:]]
    assert sum(isinstance(event, DeviceSampled) for event in process) > 20


def run_until_finished(agents: Agents, how: str) -> list[Event]:
    """Run cases of a second each, and ask for a stop when the first is over."""
    plan = plan_of(64, 128, 256, simulation=ENDLESS, gaps=True, gap_every_s=0.0, window=1)
    session, events = Session(plan, agents), list[Event]()

    def deliver(event: Event) -> None:
        events.append(event)
        if isinstance(event, CaseFinished) and not session.stopping:
            getattr(session, how)()

    session.run(deliver)
    return events


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_what_is_finished_stays_when_a_run_is_stopped(agents: Agents, how: str) -> None:
    events = run_until_finished(agents, how)
    ended = [event for event in events if isinstance(event, CaseFinished | CaseFailed)]
    assert [type(event) for event in ended] == [CaseFinished, CaseFailed, CaseFailed]
    assert {event.kind for event in ended if isinstance(event, CaseFailed)} == {"skipped"}
    last = events[-1]
    assert isinstance(last, RunFinished)
    assert (last.status, last.exit_code) == ("stopped", EXIT_INTERRUPTED)


def test_a_failing_case_costs_itself_alone(agents: Agents) -> None:
    simulation = replace(QUICK, error_size=96, oom_size=128, mismatch_size=160)
    events: list[Event] = []
    finished = Session(plan_of(64, 96, 128, 160, 192, simulation=simulation), agents).run(events.append)
    kinds = [getattr(event, "kind", "ok") for event in events if isinstance(event, CaseFinished | CaseFailed)]
    assert sorted(kinds) == ["error", "mismatch", "ok", "ok", "oom"]
    assert (finished.status, finished.exit_code) == ("done", EXIT_CASES_FAILED)
