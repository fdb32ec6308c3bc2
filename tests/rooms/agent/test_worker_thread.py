"""`--worker thread`: the same torch-worker inside this process."""

import os
import signal
import subprocess
import threading
from dataclasses import replace

from tests.helpers.runs.listening import environment_of, heard, next_of, run_with
from tests.helpers.runs.recorder import plan_of

from cpugpu_tui.agent import main as worker_module
from cpugpu_tui.model import CaseFailed, CaseFinished, Hello, Plan, RunFinished
from cpugpu_tui.simulation.simulated_machine import SimulatedTimer
from cpugpu_tui.timing.timers import CaseError
from cpugpu_tui.transport.agent_output import AgentExited
from cpugpu_tui.transport.agent_pool import Agents, AgentThread
from cpugpu_tui.workloads import Workload, contract


def test_a_thread_runs_the_same_plan_and_is_named_in_the_run():
    agents = Agents(worker="thread", simulated=True)
    events = run_with(agents, plan_of(64, 128))
    environment = environment_of(events)
    assert environment["worker"] == "thread"
    assert [type(e) for e in events if isinstance(e, CaseFinished | RunFinished)] == [CaseFinished] * 2 + [RunFinished]
    assert agents.pids() == set()
    assert AgentThread(simulated=True, on_ready=None).pid == os.getpid()


def test_in_a_thread_events_are_handed_over_in_gaps_only(monkeypatch):
    """A thread that wakes up for events would take the GIL from a timed block."""
    agent = AgentThread(simulated=True, on_ready=None)
    inbox = heard(agent)
    next_of(inbox, Hello)
    monkeypatch.setattr(AgentThread, "hand_over", lambda self: None)
    agent.send_plan(plan_of(64))
    assert next_of(inbox, AgentExited).exit_code == 0
    assert len(agent._held) > 20


def test_kernels_run_on_torch_worker_in_this_process_too(monkeypatch):
    names: set[str] = set()

    class Spy(Workload):
        """Notes the calling threads."""

        name = "spy"

        def inputs(self, n, dtype, generator):
            import torch

            return (torch.rand(n, dtype=dtype, generator=generator),)

        def step(self, tensor):
            names.add(threading.current_thread().name)
            return tensor + 1

        def flops(self, n):
            return float(n)

        def bytes_moved(self, n, itemsize_bytes):
            return 2.0 * n * itemsize_bytes

    monkeypatch.setitem(contract.REGISTRY, "spy", Spy())
    cases = tuple(replace(case, workload="spy") for case in plan_of(16).cases)
    plan = Plan("spy", cases, devices=("cpu",), metrics=("latency",), rounds=1, budget_s=0.05)
    events = run_with(Agents(worker="thread"), plan)
    assert [type(event) for event in events[-2:]] == [CaseFinished, RunFinished]
    assert names == {"torch-worker"}


def failing(*arguments, **more):
    raise CaseError("error", "CUDA error: sticky", fatal=True)


def test_a_fatal_failure_in_a_thread_is_its_row_and_the_rest_goes_on(monkeypatch):
    honest = SimulatedTimer.device_samples

    def sticky_once(self, op, count):
        monkeypatch.setattr(SimulatedTimer, "device_samples", honest)
        return failing()

    monkeypatch.setattr(SimulatedTimer, "device_samples", sticky_once)
    events = run_with(Agents(worker="thread", simulated=True), plan_of(64, 128))
    ended = [event for event in events if isinstance(event, CaseFailed | CaseFinished | RunFinished)]
    assert [type(event) for event in ended] == [CaseFailed, CaseFinished, RunFinished]
    assert getattr(ended[0], "message", "") == "CUDA error: sticky"


def test_a_machine_that_cannot_be_made_ends_a_threads_run_with_a_sentence(monkeypatch, words):
    """A process exits; a thread must report its end, or the session waits for ever."""

    def broken(*arguments):
        raise RuntimeError("CUDA driver initialization failed")

    monkeypatch.setattr(worker_module, "make_machine", broken)
    events = run_with(Agents(worker="thread", simulated=True), plan_of(64))
    finished = events[-1]
    assert finished.status == "failed"
    words(finished.message)


def test_what_a_workload_started_in_this_process_ends_with_the_agents(monkeypatch):
    """It is no child of an agent's process, so nothing else would end it."""
    honest = SimulatedTimer.first_call
    started: list[subprocess.Popen[bytes]] = []

    def starts(self, op):
        started.append(subprocess.Popen(["sleep", "600"]))
        return honest(self, op)

    other = subprocess.Popen(["sleep", "600"])
    monkeypatch.setattr(SimulatedTimer, "first_call", starts)
    run_with(Agents(worker="thread", simulated=True), plan_of(64))
    assert {child.wait(60) for child in started} == {-signal.SIGKILL}
    assert other.poll() is None
    other.kill()
    other.wait()
