"""Agents as processes: start, standby, messages and end."""

import os
import queue
import signal
import subprocess
import sys
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from tests.helpers.command_line import ROOT, Witness
from tests.helpers.machine.fake_interpreters import interpreter
from tests.helpers.runs.listening import PATIENCE_S, heard, next_of
from tests.helpers.runs.recorder import QUICK, plan_of

from cpugpu_tui.agent.guardian import NAME
from cpugpu_tui.agent.main import EXIT_BROKEN, EXIT_CONTROLLER_GONE
from cpugpu_tui.config.hosts import Host
from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.model import CaseFinished, Hello, Progressed, RunFinished
from cpugpu_tui.transport import agent_output
from cpugpu_tui.transport.agent_command import host_start
from cpugpu_tui.transport.agent_output import AgentExited
from cpugpu_tui.transport.agent_pool import Agents
from cpugpu_tui.transport.agent_process import AgentProcess


@pytest.fixture
def agents():
    with closing(Agents(simulated=True)) as agents:
        yield agents


@pytest.fixture
def agent(agents):
    """A fresh agent process of this interpreter, simulated."""
    return agents.take()


# ------------------------------------------------------------------ a process and its one plan


def test_it_lives_in_a_session_of_its_own(agent):
    """ctrl+c in the terminal reaches only the app."""
    assert os.getsid(agent.pid) == agent.pid != os.getsid(0)


def test_when_the_controller_is_gone_it_goes_at_once_whatever_it_does(agent):
    inbox = heard(agent)
    agent.send_plan(plan_of(64, simulation=replace(QUICK, hang_size=64)))
    next_of(inbox, Progressed, lambda event: event.phase == "first call")
    agent._process.stdin.close()
    assert next_of(inbox, AgentExited).exit_code == EXIT_CONTROLLER_GONE


def test_a_crash_is_reported_with_its_last_lines(agent, words):
    inbox = heard(agent)
    agent.send_plan(plan_of(64, simulation=replace(QUICK, crash_size=64)))
    gone = next_of(inbox, AgentExited)
    assert (gone.exit_code, gone.error) == (134, None)
    words((gone.manner, gone.last_words))


def test_a_plan_that_is_none_ends_the_agent_and_says_why(agent):
    inbox = heard(agent)
    agent._write(b'{"name": "x", "dream": true}\n')
    gone = next_of(inbox, AgentExited)
    assert gone.exit_code == EXIT_BROKEN
    assert "Error" in gone.last_lines[-1]


@pytest.mark.parametrize(("at_once", "number"), [(False, signal.SIGTERM), (True, signal.SIGKILL)])
def test_it_can_be_ended_at_any_time(agent, at_once, number):
    inbox = heard(agent)
    agent.send_plan(plan_of(64, simulation=replace(QUICK, hang_size=64)))
    next_of(inbox, Progressed, lambda event: event.phase == "first call")
    agent.end(at_once=at_once)
    gone = next_of(inbox, AgentExited)
    assert (gone.exit_code, gone.manner) == (-number, f"was killed by {number.name}")
    agent.end(at_once=True)  # harmless when it is over
    agent.command("stop")


def test_an_exit_code_that_is_no_signal_is_a_number():
    assert AgentExited(-200).manner.endswith(" -200")


def test_a_shell_of_another_machine_reports_a_signal_as_128_and_its_number():
    there = host_start(Host("n1", "local"), (), {}, lambda: None, 20.0)
    assert [there.as_subprocess(code) for code in (0, 1, 128, 129, 137, 255)] == [0, 1, 128, -1, -9, 255]


def test_suspended_agents_stand_still_and_go_on(agents, agent):
    inbox = heard(agent)
    next_of(inbox, Hello)
    agents.suspend()
    os.waitid(os.P_PID, agent.pid, os.WSTOPPED | os.WNOWAIT)
    agents.resume()
    os.waitid(os.P_PID, agent.pid, os.WCONTINUED | os.WNOWAIT)
    agent.send_plan(plan_of(64))
    assert next_of(inbox, RunFinished).status == "done"


def test_an_agent_that_is_still_starting_is_not_stopped(agents, agent):
    """It has no guardian yet, and would outlive a killed app if it were suspended."""
    agents.suspend()
    next_of(heard(agent), Hello)


def test_a_suspended_agent_can_be_ended(agents, agent):
    inbox = heard(agent)
    next_of(inbox, Hello)
    agents.suspend()
    os.waitid(os.P_PID, agent.pid, os.WSTOPPED | os.WNOWAIT)
    agent.end(at_once=False)
    assert next_of(inbox, AgentExited).exit_code == -signal.SIGTERM


# ------------------------------------------------------------------ what it forks, and what is left of it

FORKING_AGENT = """
import os, sys, time
from cpugpu_tui.agent.guardian import guard
guard()
from cpugpu_tui.agent import main
from cpugpu_tui.simulation.simulated_machine import SimulatedTimer
def forks(self, op):
    child = os.fork()
    if not child:
        time.sleep(600)
    print("child", child, "agent", os.getpid(), file=sys.stderr, flush=True)
    {then}
SimulatedTimer.first_call = forks
main.main()
"""


def forking(agents, folder, then):
    """Give a plan to an agent that forks a child, which sleeps with the agent's pipes open, and then does `then`."""
    return written(agents, folder, FORKING_AGENT.format(then=then))


def written(agents, folder, text):
    """Give a plan to an agent with this text; return it and what it says."""
    (folder / "agent.py").write_text(text)
    agents.python = interpreter(folder / "python", f'exec {sys.executable} {folder}/agent.py "$@"')
    agent = agents.take()
    inbox = heard(agent)
    agent.send_plan(plan_of(64))
    return agent, inbox


@pytest.mark.parametrize("then", ["os._exit(1)", "os.kill(os.getpid(), 9)"])
def test_an_agent_that_dies_before_its_child_is_gone_with_its_child(agents, tmp_path, then):
    """The run waited for the end of the child's output, and no signal ended it."""
    agent, inbox = forking(agents, tmp_path, then)
    gone = next_of(inbox, AgentExited)
    assert gone.exit_code in (1, -signal.SIGKILL)
    child = int(gone.last_lines[-1].split()[1])
    assert Witness(child, may_be_gone=True).sees_the_end(PATIENCE_S)
    assert not agent.alive


def test_an_agent_that_closes_its_output_and_stays_is_ended(agents, tmp_path, monkeypatch):
    monkeypatch.setattr(agent_output, "CLOSED_LIMIT_S", 0.1)
    _, inbox = forking(agents, tmp_path, "os.kill(child, 9); os.closerange(3, 256); time.sleep(600)")
    assert next_of(inbox, AgentExited).exit_code == -signal.SIGKILL


CONTROLLER = """
import signal
import sys
from tests.helpers.runs.listening import heard, next_of
from tests.helpers.runs.recorder import plan_of
from cpugpu_tui.model import Progressed
from cpugpu_tui.transport.agent_pool import Agents
from cpugpu_tui.transport.signal_watch import watch_signals
agents = Agents(sys.argv[1], simulated=True)
agent = agents.take()
inbox = heard(agent)
agent.send_plan(plan_of(64))
next_of(inbox, Progressed, lambda event: event.phase == "first call")
while not (lines := agent._last_lines()):
    pass
with watch_signals(lambda number: None, terminal=0):
    print(agent.pid, lines[-1].split()[1], flush=True)
    signal.pause()
"""


@pytest.mark.parametrize("how", ["killed", "killed while the agent is suspended", "its terminal was closed"])
def test_an_agent_and_its_child_go_with_their_controller(agents, tmp_path, how):
    """Even an agent that cannot exit by itself, and where nothing obeys the end of the terminal."""
    agent, inbox = forking(agents, tmp_path, "time.sleep(600)")
    agent.end(at_once=True)  # only the interpreter that it was is wanted
    next_of(inbox, AgentExited)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}/tui:{ROOT}"}
    terminal, its_end = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, tmp_path / "python"], stdin=its_end, stdout=subprocess.PIPE, env=environment
    ) as controller:
        pids = [int(word) for word in controller.stdout.readline().split()]
        guardians = [each.pid for each in psutil.Process(pids[0]).children() if each.name() == NAME]
        assert len(guardians) == 1
        witnesses = [Witness(pid) for pid in (*pids, *guardians)]
        if "suspended" in how:
            os.killpg(pids[0], signal.SIGSTOP)
        if "killed" in how:
            controller.kill()
        os.close(terminal)
        with suppress(subprocess.TimeoutExpired):
            controller.wait(PATIENCE_S)
        controller.kill()
    os.close(its_end)
    assert controller.returncode == (-signal.SIGKILL if "killed" in how else 128 + signal.SIGHUP)
    assert all(witness.sees_the_end(PATIENCE_S) for witness in witnesses)


def test_without_a_guardian_an_agent_works_and_says_so(agents, tmp_path, monkeypatch, words):
    """A limit on processes prevents it."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os\ndef fork():\n    raise BlockingIOError(11, 'Resource temporarily unavailable')\nos.fork = fork\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    agent = agents.take()
    inbox = heard(agent)
    agent.send_plan(plan_of(64))
    next_of(inbox, CaseFinished)
    gone = next_of(inbox, AgentExited)
    assert (gone.exit_code, gone.error) == (0, None)
    words(gone.last_words)


def test_a_workload_that_reads_or_closes_stdin_takes_no_command(agents, tmp_path):
    agent, inbox = forking(agents, tmp_path, "assert sys.stdin.read() == ''; os.close(0); time.sleep(600)")
    next_of(inbox, Progressed, lambda event: event.phase == "first call")
    agent._process.stdin.close()
    assert next_of(inbox, AgentExited).exit_code == EXIT_CONTROLLER_GONE


# ------------------------------------------------------------------ the next one, kept started


def test_the_next_agent_is_kept_started(agents):
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


def test_several_agents_start_at_once_and_whether_all_have_is_told(agents):
    agents.prepare(2)
    assert agents.is_starting
    assert len(agents.pids()) == 2
    first, second = agents.take(), agents.take()
    assert len(agents.pids()) == 2, "no further one was started"
    next_of(heard(first), Hello)
    next_of(heard(second), Hello)
    assert not agents.is_starting


def test_a_standby_agent_that_died_is_not_handed_out(agents):
    agents.prepare()
    (pid,) = agents.pids()
    os.kill(pid, signal.SIGKILL)
    (standby,) = agents._standby
    assert standby.wait(PATIENCE_S)
    assert agents.take().pid != pid


def test_a_standby_agent_that_cannot_start_is_reported(agents, words):
    ready: queue.SimpleQueue[Hello | CpuGpuError] = queue.SimpleQueue()
    agents.python, agents.on_ready = "/bin/true", ready.put
    agents.prepare()
    problem = ready.get(timeout=PATIENCE_S)
    assert isinstance(problem, CpuGpuError)
    words(str(problem))


def test_an_agent_that_is_ended_before_it_is_ready_is_not_called_unfit(agents, tmp_path):
    """`x` right after the first `r` made the app call the interpreter unfit."""
    ready: queue.SimpleQueue[Hello | CpuGpuError] = queue.SimpleQueue()
    agents.python, agents.on_ready = interpreter(tmp_path / "python", "exec sleep 60"), ready.put
    agent = agents.take()
    inbox = heard(agent)
    agent.end(at_once=False)
    assert next_of(inbox, AgentExited).exit_code == -signal.SIGTERM
    assert ready.empty()


def test_closing_ends_every_agent_and_starts_no_more(agents, monkeypatch):
    taken = agents.take()
    agents.prepare()
    pids = agents.pids()
    assert len(pids) == 2
    end, ended = AgentProcess.end, []
    monkeypatch.setattr(AgentProcess, "end", lambda agent, **how: (ended.append(how), end(agent, **how)))
    agents.close()
    assert ended[:2] == [{"at_once": False}] * 2
    assert agents.pids() == set()
    assert not taken.alive  # type: ignore[union-attr]
    assert all(not Path(f"/proc/{pid}").exists() for pid in pids)
    agents.prepare()
    assert agents.pids() == set()


# ------------------------------------------------------------------ what runs inside

SPY_AGENT = """
import threading
from cpugpu_tui.agent import main
from cpugpu_tui.simulation.simulated_machine import SimulatedTimer
honest = SimulatedTimer.first_call
def noisy(self, op):
    print("a library prints to stdout; ", end="", flush=True)
    print("kernels run on", threading.current_thread().name, file=__import__("sys").stderr, flush=True)
    return honest(self, op)
SimulatedTimer.first_call = noisy
main.main()
"""


def test_kernels_run_on_torch_worker_and_prints_are_no_events(tmp_path, agents):
    """Output of libraries and events do not mix."""
    _, inbox = written(agents, tmp_path, SPY_AGENT)
    events = []
    while not isinstance(message := inbox.get(timeout=PATIENCE_S), AgentExited):
        events.append(message)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert isinstance(events[-1], RunFinished)
    assert set(message.last_lines) == {"a library prints to stdout; kernels run on torch-worker"}
