"""Agents as processes: how they are started, kept ready, spoken to and ended."""

from __future__ import annotations

import os
import queue
import signal
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from listening import ENDLESS, PATIENCE_S, heard, next_of
from recorder import QUICK, plan_of

from cpugpu_tui.bench.agent import EXIT_BROKEN, EXIT_CONTROLLER_GONE
from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.model import (
    CaseFinished,
    CaseStarted,
    Device,
    HalfRoundTimed,
    Hello,
    Progressed,
    RunFinished,
)
from cpugpu_tui.runs.launch import AgentProcess, Agents, Gone, Inbox, Message


@pytest.fixture
def agents() -> Iterator[Agents]:
    with closing(Agents(simulated=True)) as agents:
        yield agents


@pytest.fixture
def agent(agents: Agents) -> AgentProcess:
    """A fresh agent process of this interpreter, simulated."""
    agent = agents.take()
    assert isinstance(agent, AgentProcess)
    return agent


# ------------------------------------------------------------------ a process and its one plan


def test_an_agent_says_hello_runs_one_plan_and_is_gone(agent: AgentProcess) -> None:
    inbox = heard(agent)
    hello = next_of(inbox, Hello)
    assert hello.environment["interpreter"] == sys.executable
    assert hello.environment["simulated"] is True
    assert "matmul" in {info.name for info in hello.catalogue}
    agent.send_plan(plan_of(64))
    assert next_of(inbox, CaseFinished).case == plan_of(64).cases[0].key
    assert next_of(inbox, RunFinished).status == "done"
    assert next_of(inbox, Gone) == Gone(0)
    assert not agent.alive


def test_a_second_plan_is_not_taken(agent: AgentProcess) -> None:
    inbox = heard(agent)
    agent.send_plan(plan_of(64))
    agent.send_plan(plan_of(128))
    cases = set()
    while not isinstance(message := inbox.get(timeout=PATIENCE_S), Gone):
        cases |= {message.case} if isinstance(message, CaseStarted) else set()
    assert cases == {plan_of(64).cases[0].key}


def test_it_lives_in_a_session_of_its_own(agent: AgentProcess) -> None:
    """ctrl+c in the terminal goes to the app alone."""
    assert os.getsid(agent.pid) == agent.pid != os.getsid(0)


def test_when_the_controller_is_gone_it_goes_at_once_whatever_it_does(agent: AgentProcess) -> None:
    inbox = heard(agent)
    agent.send_plan(plan_of(64, simulation=replace(QUICK, hang_size=64)))
    next_of(inbox, Progressed, lambda event: event.phase == "first call")
    assert agent._process.stdin is not None
    agent._process.stdin.close()
    assert next_of(inbox, Gone).exit_code == EXIT_CONTROLLER_GONE


def test_a_crash_is_told_with_its_last_lines(agent: AgentProcess) -> None:
    inbox = heard(agent)
    agent.send_plan(plan_of(64, simulation=replace(QUICK, crash_size=64)))
    gone = next_of(inbox, Gone)
    assert gone == Gone(134, ("simulated crash: illegal memory access",))
    assert gone.manner == "ended with exit code 134"


def test_a_plan_that_is_none_ends_the_agent_and_says_why(agent: AgentProcess) -> None:
    inbox = heard(agent)
    agent._write(b'{"name": "x", "dream": true}\n')
    gone = next_of(inbox, Gone)
    assert gone.exit_code == EXIT_BROKEN
    assert "Error" in gone.last_lines[-1]


@pytest.mark.parametrize(("at_once", "number"), [(False, signal.SIGTERM), (True, signal.SIGKILL)])
def test_it_can_be_ended_at_any_time(agent: AgentProcess, at_once: bool, number: signal.Signals) -> None:
    inbox = heard(agent)
    agent.send_plan(plan_of(64, simulation=replace(QUICK, hang_size=64)))
    next_of(inbox, Progressed, lambda event: event.phase == "first call")
    agent.end(at_once=at_once)
    gone = next_of(inbox, Gone)
    assert gone.exit_code == -number
    assert gone.manner == f"was killed by {number.name}"
    agent.end(at_once=True)  # harmless when it is over
    agent.command("stop")


def test_an_exit_code_that_is_no_signal_is_a_number() -> None:
    assert Gone(-200).manner == "ended with exit code -200"


def test_a_stop_is_obeyed_between_blocks(agent: AgentProcess) -> None:
    inbox = heard(agent)
    agent.send_plan(plan_of(64, 128, simulation=ENDLESS))
    next_of(inbox, HalfRoundTimed, lambda event: event.round_index == 1)
    agent.command("stop")
    assert next_of(inbox, RunFinished).status == "stopped"
    assert next_of(inbox, Gone).exit_code == 0


def test_a_pause_holds_the_rounds_and_a_stop_ends_it(agent: AgentProcess) -> None:
    inbox = heard(agent)
    agent.send_plan(plan_of(64, simulation=ENDLESS))
    agent.command("pause")
    # The pause is noticed after the warm-up; nothing is timed from then on.
    next_of(inbox, Progressed, lambda event: event.phase == "warm-up" and event.device == "cuda:0")
    agent.command("stop")
    rounds = 0
    while not isinstance(message := inbox.get(timeout=PATIENCE_S), RunFinished):
        rounds += isinstance(message, HalfRoundTimed) and message.round_index > 0
    assert rounds == 0


def test_suspended_agents_stand_still_and_go_on(agents: Agents, agent: AgentProcess) -> None:
    inbox = heard(agent)
    next_of(inbox, Hello)
    agents.suspend()
    os.waitid(os.P_PID, agent.pid, os.WSTOPPED | os.WNOWAIT)
    agents.resume()
    os.waitid(os.P_PID, agent.pid, os.WCONTINUED | os.WNOWAIT)
    agent.send_plan(plan_of(64))
    assert next_of(inbox, RunFinished).status == "done"


def test_a_suspended_agent_can_be_ended(agents: Agents, agent: AgentProcess) -> None:
    inbox = heard(agent)
    agents.suspend()
    os.waitid(os.P_PID, agent.pid, os.WSTOPPED | os.WNOWAIT)
    agent.end(at_once=False)
    assert next_of(inbox, Gone).exit_code == -signal.SIGTERM


# ------------------------------------------------------------------ the next one, kept started


def test_the_next_agent_is_kept_started(agents: Agents) -> None:
    ready: queue.SimpleQueue[Hello | CpuGpuError] = queue.SimpleQueue()
    agents.on_ready = ready.put
    agents.prepare()
    agents.prepare()
    assert isinstance(ready.get(timeout=PATIENCE_S), Hello)
    (pid,) = agents.pids()
    agent = agents.take()
    assert agent.pid == pid
    next_of(heard(agent), Hello)  # said before anybody listened
    agents.prepare()
    assert len(agents.pids()) == 2
    assert agents.take().pid != pid


def test_a_standby_agent_that_died_is_not_handed_out(agents: Agents) -> None:
    agents.prepare()
    (pid,) = agents.pids()
    os.kill(pid, signal.SIGKILL)
    assert isinstance(agents._standby, AgentProcess)
    assert agents._standby.wait(PATIENCE_S)
    assert agents.take().pid != pid


def test_a_standby_agent_that_cannot_be_is_reported_to_whoever_waits(agents: Agents) -> None:
    ready: queue.SimpleQueue[Hello | CpuGpuError] = queue.SimpleQueue()
    agents.python, agents.on_ready = "/bin/true", ready.put
    agents.prepare()
    problem = ready.get(timeout=PATIENCE_S)
    assert isinstance(problem, CpuGpuError)
    assert problem.message.endswith("true did not become an agent: it ended with exit code 0.")


def test_an_agent_that_is_ended_before_it_is_ready_is_not_called_unfit(agents: Agents, tmp_path: Path) -> None:
    """`x` right after the first `r`: the app said that the interpreter is none, and which one to name."""
    slow = tmp_path / "python"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    ready: queue.SimpleQueue[Hello | CpuGpuError] = queue.SimpleQueue()
    agents.python, agents.on_ready = str(slow), ready.put
    agent = agents.take()
    inbox = heard(agent)
    agent.end(at_once=False)
    assert next_of(inbox, Gone).exit_code == -signal.SIGTERM
    assert ready.empty()


def test_closing_ends_every_agent_and_starts_no_more(agents: Agents) -> None:
    taken = agents.take()
    agents.prepare()
    pids = agents.pids()
    assert len(pids) == 2
    agents.close()
    assert agents.pids() == set()
    assert not taken.alive  # type: ignore[union-attr]
    assert all(not Path(f"/proc/{pid}").exists() for pid in pids)
    agents.prepare()
    assert agents.pids() == set()


def test_what_is_said_early_is_delivered_first() -> None:
    inbox, target = Inbox(), queue.SimpleQueue[Message]()
    inbox.put(CaseStarted(case="a"))
    inbox.listen(target)
    inbox.put(CaseStarted(case="b"))
    assert [target.get_nowait(), target.get_nowait()] == [CaseStarted(case="a"), CaseStarted(case="b")]


# ------------------------------------------------------------------ what runs inside

SPY_AGENT = """
import threading
from cpugpu_tui.bench import agent
from cpugpu_tui.bench.timers.simulated import SimulatedTimer
honest = SimulatedTimer.first_call
def noisy(self, op):
    print("a library prints to stdout; ", end="", flush=True)
    print("kernels run on", threading.current_thread().name, file=__import__("sys").stderr, flush=True)
    return honest(self, op)
SimulatedTimer.first_call = noisy
agent.main()
"""


def test_kernels_run_on_torch_worker_and_prints_are_no_events(tmp_path: Path, agents: Agents) -> None:
    """Neither our events among a library's words, nor its words among our events."""
    (tmp_path / "spy.py").write_text(SPY_AGENT)
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nexec {sys.executable} {tmp_path}/spy.py "$@"\n')
    wrapper.chmod(0o755)
    agents.python = str(wrapper)
    agent = agents.take()
    inbox = heard(agent)
    agent.send_plan(plan_of(64))
    events = []
    while not isinstance(message := inbox.get(timeout=PATIENCE_S), Gone):
        events.append(message)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert isinstance(events[-1], RunFinished)
    assert set(message.last_lines) == {"a library prints to stdout; kernels run on torch-worker"}


def test_devices_are_only_asked_for_once_a_plan_needs_them(agent: AgentProcess) -> None:
    """An agent in waiting holds no context on a shared GPU: its hello names no device."""
    hello = next_of(heard(agent), Hello)
    assert not any(isinstance(value, Device) or "cuda:" in str(value) for value in hello.environment.values())
