"""Everything that a person can do with `--worker process` and `--worker thread` alike.

Commands over both workers are in test_both_workers_commands.py, resuming is in test_resume.py, ctrl+c in
test_cli_signals.py. Tests of one worker only, because of its nature:

- process: crashes, last lines and exit codes, SIGSTOP, guardian, stdin, standby process (test_launch.py), zip and other
  interpreters (test_interpreters.py), limits of the stream (test_hostile.py), several GPUs at once (test_parallel.py)
- thread: events in gaps only, no process of its own, child processes of workloads (test_worker_thread.py)

A crash of native code ends a thread together with the app, and a thread cannot be killed.
"""

import math
import sys
from contextlib import closing
from dataclasses import replace

import pytest
from tests.helpers.runs.listening import ENDLESS, PATIENCE_S, heard, next_of, run_with
from tests.helpers.runs.recorder import QUICK, plan_of

from cpugpu_tui import model
from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_INTERRUPTED
from cpugpu_tui.session import session as session_module
from cpugpu_tui.session.session import Session
from cpugpu_tui.transport.agent_output import AgentExited
from cpugpu_tui.transport.agent_pool import Agents

WORKERS = ("process", "thread")


@pytest.fixture(params=WORKERS)
def agents(request):
    with closing(Agents(worker=request.param, simulated=True)) as agents:
        yield agents


@pytest.fixture
def agent(agents):
    return agents.take()


def test_an_agent_says_hello_runs_one_plan_and_is_gone(agent):
    inbox = heard(agent)
    hello = next_of(inbox, model.Hello)
    assert hello.environment["interpreter"] == sys.executable
    assert hello.environment["simulated"] is True
    assert "matmul" in {info.name for info in hello.catalogue}
    agent.send_plan(plan_of(64))
    assert next_of(inbox, model.CaseFinished).case == plan_of(64).cases[0].key
    assert next_of(inbox, model.RunFinished).status == "done"
    assert next_of(inbox, AgentExited) == AgentExited(0)


def test_a_second_plan_is_not_taken(agent):
    inbox = heard(agent)
    agent.send_plan(plan_of(64))
    agent.send_plan(plan_of(128))
    cases = set()
    while not isinstance(message := inbox.get(timeout=PATIENCE_S), AgentExited):
        cases |= {message.case} if isinstance(message, model.CaseStarted) else set()
    assert cases == {plan_of(64).cases[0].key}


def test_a_stop_is_obeyed_between_blocks(agent):
    inbox = heard(agent)
    agent.send_plan(plan_of(64, 128, simulation=ENDLESS, gaps=True, gap_every_s=0.0))
    next_of(inbox, model.DeviceSampled, lambda event: event.round_index == 1)
    agent.command("stop")
    assert next_of(inbox, model.RunFinished).status == "stopped"
    assert next_of(inbox, AgentExited).exit_code == 0


def test_a_pause_holds_the_rounds_and_a_stop_ends_it(agent):
    inbox = heard(agent)
    agent.send_plan(plan_of(64, simulation=ENDLESS, gaps=True, gap_every_s=0.0))
    agent.command("pause")
    # The pause is noticed after the warm-up; nothing is timed from then on.
    next_of(inbox, model.Progressed, lambda event: event.phase == "warm-up" and event.device == "cuda:0")
    agent.command("stop")
    rounds = 0
    while not isinstance(message := inbox.get(timeout=PATIENCE_S), model.RunFinished):
        rounds += isinstance(message, model.DeviceSampled) and message.round_index > 0
    assert rounds == 0


def test_devices_are_only_asked_for_once_a_plan_needs_them(agent):
    """An agent in waiting holds no context on a shared GPU: its hello names no device."""
    hello = next_of(heard(agent), model.Hello)
    assert not any(isinstance(value, model.Device) or "cuda:" in str(value) for value in hello.environment.values())


def test_what_is_paused_goes_on_when_it_is_resumed(agent):
    inbox = heard(agent)
    agent.send_plan(plan_of(64, simulation=ENDLESS, gaps=True, gap_every_s=0.0))
    agent.command("pause")
    next_of(inbox, model.Progressed, lambda event: event.phase == "warm-up" and event.device == "cuda:0")
    agent.command("resume")
    assert next_of(inbox, model.CaseFinished).case == plan_of(64).cases[0].key
    assert next_of(inbox, model.RunFinished).status == "done"
    assert next_of(inbox, AgentExited) == AgentExited(0)


# ------------------------------------------------------------------ through a session


def told(event):
    """Fields of an event that do not depend on clocks and processes."""
    names = ("case", "cases", "device", "devices", "phase", "round_index", "samples", "marks", "kind", "message",
             "status", "exit_code", "check", "count", "calls")  # fmt: skip
    return type(event), *(getattr(event, name, None) for name in names)


def with_simulation(**constants):
    return replace(QUICK, **constants)


PLANS = {
    "sizes": plan_of(64, 128, 4096),
    "one device": plan_of(64, devices=("cpu",)),
    "threads": replace(plan_of(), cases=(model.Case("matmul", 64, threads=1), model.Case("matmul", 64))),
    "several GPUs": plan_of(64, 128, devices=("all",), simulation=with_simulation(gpus=3, slow_gpu=1, slow_factor=1.3)),
    "search": plan_of(16, 256, 2048, search=model.Search(most_cases=6), window=6, rounds=5, max_rounds=8),
    "variants": replace(plan_of(), cases=(model.Case("vector-dot", 100, variant="dot"), model.Case("vector-dot", 100))),
    "profile and energy": plan_of(
        64, metrics=(*model.METRICS, model.ENERGY), simulation=with_simulation(gpu_busy_w=300.0)
    ),
    "warm caches": plan_of(64, cache="warm"),
    "marks": plan_of(64, simulation=with_simulation(throttle_share=0.5, sm_clock_mhz=1500.0, neighbour_pid=7)),
    "waits for a core": plan_of(64, simulation=with_simulation(starved_share=0.4)),
    "failures": plan_of(64, 96, 128, 160, simulation=with_simulation(error_size=96, oom_size=128, mismatch_size=160)),
    "no such GPU": plan_of(64, devices=("cuda:7",)),
    "no such workload": replace(plan_of(), cases=(model.Case("nothing", 64),)),
    "calibration": plan_of(calibrate=True),
    "seed": plan_of(64, simulation=with_simulation(seed=5)),
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_both_tell_the_same_events_with_the_same_numbers(plan):
    process, thread = (run_with(Agents(worker=worker, simulated=True), plan) for worker in WORKERS)
    assert [told(event) for event in process[1:]] == [told(event) for event in thread[1:]]
    assert isinstance(thread[-1], model.RunFinished)


def test_both_keep_the_gaps_of_the_interface():
    plan = plan_of(64, gaps=True, gap_every_s=0.0)
    process, thread = (run_with(Agents(worker=worker, simulated=True), plan) for worker in WORKERS)
    assert [told(event) for event in process[1:]] == [told(event) for event in thread[1:]]
    assert any(isinstance(event, model.Gap) for event in thread)


def run_until_finished(agents, how):
    """Run cases of a second each, and ask for a stop when the first is over."""
    plan = plan_of(64, 128, 256, simulation=ENDLESS, gaps=True, gap_every_s=0.0, window=1)
    session, events = Session(plan, agents), list[model.Event]()

    def deliver(event):
        events.append(event)
        if isinstance(event, model.CaseFinished) and not session.stopping:
            getattr(session, how)()

    session.run(deliver)
    return events


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_what_is_finished_stays_when_a_run_is_stopped(agents, how):
    events = run_until_finished(agents, how)
    ended = [event for event in events if isinstance(event, model.CaseFinished | model.CaseFailed)]
    assert [type(event) for event in ended] == [model.CaseFinished, model.CaseFailed, model.CaseFailed]
    assert {event.kind for event in ended if isinstance(event, model.CaseFailed)} == {"skipped"}
    last = events[-1]
    assert (last.status, last.exit_code) == ("stopped", EXIT_INTERRUPTED)


def kinds_of(events):
    """Return `ok` or the kind of failure of each case."""
    return [
        getattr(event, "kind", "ok") for event in events if isinstance(event, model.CaseFinished | model.CaseFailed)
    ]


def run_and(agents, plan, act, **more):
    """Run a plan, and call `act` with the session and each event."""
    session, events = Session(plan, agents, **more), list[model.Event]()

    def deliver(event):
        events.append(event)
        act(session, event)

    session.run(deliver)
    return events


def test_a_time_limit_skips_what_it_does_not_reach(agents):
    plan = plan_of(64, 128, 256, simulation=ENDLESS, window=1, max_seconds=0.001)
    events = run_and(agents, plan, lambda *_: None, began_s=math.inf)  # when the agent is ready
    assert kinds_of(events)[-1] == "skipped"
    last = events[-1]
    assert (last.status, last.exit_code) == ("done", EXIT_CASES_FAILED), "no size has an answer"


def test_a_case_that_hangs_costs_its_time_limit_and_the_rest_goes_on(agents):
    """A thread holds events back while it times, and hung for ever: nobody knew which case it was at."""
    plan = plan_of(64, 96, 128, simulation=with_simulation(hang_size=96), window=1)
    events = run_and(agents, plan, lambda *_: None, case_timeout_s=0.2)
    assert kinds_of(events) == ["ok", "timeout", "ok"]


def test_a_case_that_hangs_costs_no_more_than_the_time_limit_of_the_run(agents, monkeypatch):
    monkeypatch.setattr(session_module, "OVERRUN_S", 0.2)
    plan = plan_of(64, 96, 128, simulation=with_simulation(hang_size=96), window=1, max_seconds=0.2)
    assert kinds_of(run_and(agents, plan, lambda *_: None, began_s=math.inf)) == ["ok", "skipped", "skipped"]


def test_a_long_case_within_its_time_limit_is_no_timeout(agents):
    """A thread that holds its events back longer than the limit is not silent."""
    plan = plan_of(64, 128, simulation=replace(QUICK, pace=0.5), rounds=5, max_rounds=5)
    events = run_and(agents, plan, lambda *_: None, case_timeout_s=0.25)
    assert kinds_of(events) == ["ok", "ok"]


def test_a_case_that_hangs_can_be_left_behind(agents, monkeypatch):
    monkeypatch.setattr(session_module, "ABANDON_AFTER_S", 0.2)

    def act(session, event):
        if isinstance(event, model.DevicesFound):
            session.kill()

    plan = plan_of(64, simulation=with_simulation(hang_size=64), gaps=True, gap_every_s=0.0)
    events = run_and(agents, plan, act)
    assert kinds_of(events) == ["skipped"]
    assert getattr(events[-1], "exit_code", 0) == EXIT_INTERRUPTED


def test_whoever_waits_for_an_agent_gets_its_hello(agents):
    assert "matmul" in {info.name for info in agents.greet().catalogue}


def test_an_agent_that_was_only_prepared_ends_with_the_others(agents):
    agents.greet()
    (standby,) = agents._standby
    agents.close()
    assert standby.wait(PATIENCE_S)
