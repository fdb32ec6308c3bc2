"""Which agents may run typed code: those that were started for a plan with code, and no other."""

import queue
import signal
from contextlib import closing, nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from cpugpu_tui.errors import UnfitError
from cpugpu_tui.model import Simulation, WorkloadsLoading
from cpugpu_tui.model.names import CODE
from cpugpu_tui.session.own_workloads import OwnWorkloads
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.transport.agent_pool import Agents
from cpugpu_tui.transport.agent_process import AgentProcess
from cpugpu_tui.ui.app_state import AppOptions
from cpugpu_tui.ui.live.backend import Backend
from cpugpu_tui.workloads.own_code import own_code

PATIENCE_S = 60.0


def words_of(agent):
    return Path(f"/proc/{agent.pid}/cmdline").read_text().split("\0")


def test_a_standby_agent_that_may_not_run_code_is_replaced_and_one_that_may_is_kept():
    with closing(Agents(simulated=True)) as agents:
        agents.greet()
        (plain,) = agents._live
        agents.use([CODE])
        assert plain.wait(PATIENCE_S)
        agents.greet()
        agents.use([CODE])  # the same again ends nothing
        fit = agents.take()
        assert fit is agents._live[-1]
        assert CODE in words_of(fit)
        agents.use([])
        agents.greet()
        assert CODE not in words_of(agents.take())


def test_of_threads_that_have_ended_the_first_is_kept():
    """It knows which child processes are not a workload's."""
    with closing(Agents(simulated=True, worker="thread")) as agents:
        taken = [agents.take() for _ in range(2)]
        for thread in taken:
            thread.end(at_once=False)
            assert thread.wait(PATIENCE_S)
        taken += [agents.take() for _ in range(2)]
        assert agents._threads == [taken[0], *taken[2:]]
        agents.resume()
        assert taken[-1]._control.was_suspended, "the half-round in flight does not count"


def test_the_app_lets_only_agents_of_plans_with_code_run_code():
    backend = Backend(AppOptions(request=PlanRequest(simulation=Simulation())))
    backend._agents = agents = backend._new_agents(None)
    code = own_code("n + 1")
    plain = PlanRequest(("matmul",), "64")
    typed = PlanRequest((code.name,), "64", own=OwnWorkloads(codes=(code,)))
    found = []
    for request in (plain, typed, plain):
        backend.session(build_plan(request), None, None)
        found.append(agents._own)
    assert found == [(), (CODE,), ()]


def test_a_start_beyond_its_limit_ends_as_an_error_with_a_remedy(silent_python, words):
    with closing(Agents(str(silent_python), hello_limit_s=0.2)) as agents:
        with pytest.raises(UnfitError) as raised:
            agents.greet()
        assert not agents.pids()
    words(str(raised.value).replace(str(silent_python), "silent.sh"))


def test_a_start_that_takes_long_is_told_once_and_ended_at_its_limit():
    told, waits, ended = [], [], []
    agent = SimpleNamespace(
        _start=SimpleNamespace(hello_limit_s=30.0, name="python", on_wait=told.append), _is_reached=False,
        _is_started=SimpleNamespace(wait=waits.append), _terminate=lambda **_: ended.append(len(waits)),
    )  # fmt: skip
    AgentProcess._watch_start(agent)
    assert told == ["Waiting for python to answer, at most 30 s."]
    assert ended == [30]


def test_a_suspension_or_an_import_restarts_the_limit_of_an_answer():
    restarted, messages = [], queue.SimpleQueue()
    for interrupt in (lambda agent: AgentProcess.signal(agent, signal.SIGSTOP),
                      lambda agent: AgentProcess._deliver(agent, WorkloadsLoading(source="/a.py"))):  # fmt: skip
        agent = SimpleNamespace(
            _await_answer=restarted.append, _is_awaited=True, _restarts_limit=False, alive=True, is_ready=True,
            messages=messages, _signalling=nullcontext(), _ended=SimpleNamespace(is_set=lambda: True),
        )  # fmt: skip
        interrupt(agent)
        AgentProcess._on_answer_limit(agent, 60.0)
    assert restarted == [60.0, 60.0]


def test_an_agent_tells_that_its_interpreter_works_before_it_imports_torch():
    """A start is called silent only until then."""
    with closing(Agents(simulated=True)) as agents:
        agents.greet()
        (agent,) = agents._live
        assert agent._is_reached
