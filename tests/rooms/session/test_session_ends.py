"""Runs that end early: time limits, pauses, stops."""

import math
import time
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from tests.helpers.runs import scripted
from tests.helpers.runs.recorder import plan_of

from cpugpu_tui import model
from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_INTERRUPTED, EXIT_OK
from cpugpu_tui.session import session as session_module
from cpugpu_tui.transport.agent_output import AgentExited


def gives_up(session, most=100):
    """Fail after so many looks at a silent agent, in place of waiting for ever."""
    honest, looks = session._next, iter(range(most))

    def next_in_time(timeout_s):
        message = honest(timeout_s)
        assert message is not None or next(looks, None) is not None, "it waits for ever"
        return message

    session._next = next_in_time


# ------------------------------------------------------------------ time limits


def test_a_case_without_an_answer_times_out_and_the_rest_goes_on(words):
    session, agents = scripted.session_of(
        scripted.three_cases(), scripted.silent_at(64), scripted.well, case_timeout_s=0.05
    )
    events: list[model.Event] = []
    finished = session.run(events.append)
    assert scripted.statuses(events) == ["ok", "timeout", "ok"]
    assert finished.exit_code == EXIT_CASES_FAILED
    words(f"{scripted.failures(events)[64].message} {scripted.failures(events)[64].remedy}")
    assert agents.agents[0].ended == [True]


@pytest.mark.parametrize("phase", [model.COMPILER_START, model.COMPILING])
def test_a_compiler_that_never_ends_costs_its_row_alone(phase, monkeypatch):
    monkeypatch.setattr(session_module, "COMPILE_LIMIT_S", 0.05)
    session, _ = scripted.session_of(scripted.three_cases(), compiling_at(64, phase), scripted.well)
    gives_up(session)
    events: list[model.Event] = []
    assert session.run(events.append).exit_code == EXIT_CASES_FAILED
    assert scripted.statuses(events) == ["ok", "timeout", "ok"]
    assert f"{phase} on cpu" in scripted.failures(events)[64].message


def compiling_at(size, phase):
    """Well until the case of this size is compiled; then nothing more."""

    def script(plan):
        messages = scripted.silent_at(size)(plan)
        last = next(each for each in reversed(messages) if isinstance(each, model.Progressed))
        return [*messages, replace(last, phase=phase, device="cpu")]

    return script


def test_a_paused_case_does_not_time_out():
    session, agents = scripted.session_of(scripted.three_cases(), scripted.silent_at(64), case_timeout_s=0.05)
    ticks: list[float] = []
    honest = session._next

    def ticking(timeout_s):
        message = honest(min(timeout_s, 0.06))
        ticks.append(timeout_s)
        if message is None and len([t for t in ticks if t]) > 3:
            agents.agents[0].say(model.RunFinished(status="stopped"))
        return message

    session._next = ticking  # type: ignore[method-assign]
    session.pause()
    events: list[model.Event] = []
    assert session.run(events.append).status == "stopped"
    assert "timeout" not in scripted.statuses(events)
    session.resume()
    assert agents.agents[0].commands == ["pause", "resume"]


def test_an_import_that_never_ends_fails_the_run_with_its_line(words):
    script = [model.WorkloadsLoading(source="/a.py"), model.WorkloadsLoading(source="/a.py, line 3")]
    session, agents = scripted.session_of(scripted.three_cases(), lambda plan: script, case_timeout_s=0.05)
    gives_up(session)
    events: list[model.Event] = []
    finished = session.run(events.append)
    assert (finished.status, finished.exit_code) == ("failed", EXIT_CASES_FAILED)
    assert scripted.statuses(events) == ["skipped"] * 3
    words(f"{finished.message} {finished.remedy}")
    assert (agents.taken, agents.agents[0].ended) == (1, [False])


def test_an_import_that_has_ended_is_not_blamed_for_a_case():
    def script(plan):
        return [model.WorkloadsLoading(source="/a.py"), *scripted.silent_at(64)(plan)]

    session, _ = scripted.session_of(scripted.three_cases(), script, scripted.well, case_timeout_s=0.05)
    gives_up(session)
    events: list[model.Event] = []
    session.run(events.append)
    assert scripted.statuses(events) == ["ok", "timeout", "ok"]


def test_a_fresh_agent_gets_the_time_that_is_left(monkeypatch):
    now_s = iter(float(s) for s in range(0, 10_000))
    monkeypatch.setattr(session_module.time, "monotonic", lambda: next(now_s))
    session, agents = scripted.session_of(plan_of(64, 128, max_seconds=9_000.0), scripted.dies_at(64), scripted.well)
    session.run(lambda event: None)
    limits = [agent.plan.max_seconds for agent in agents.agents if agent.plan and agent.plan.max_seconds]
    assert 9_000 > limits[0] > limits[1] > 0


def test_the_time_before_a_run_counts_towards_its_limit():
    """A run with --max-seconds 4 took up to 8.8 s: the limit began when the agent had its plan."""
    session, agents = scripted.session_of(plan_of(64, max_seconds=60.0), scripted.well, began_s=time.monotonic() - 50)
    session.run(lambda event: None)
    plan = agents.agents[0].plan
    assert 0 < plan.max_seconds <= 10


@pytest.mark.parametrize("simulation", [None, model.Simulation()], ids=["real", "simulated"])
def test_a_process_that_starts_for_longer_than_the_limit_is_not_waited_for(simulation, words):
    """A simulated run blamed torch, which it does not import; "several times as long" could be too little again."""
    session, agents = scripted.session_of(
        replace(plan_of(64, max_seconds=0.01), simulation=simulation),
        scripted.ScriptedAgent(scripted.well, greeting=()),
    )
    finished = session.run(lambda event: None)
    assert (finished.status, finished.exit_code) == ("failed", EXIT_CASES_FAILED)
    assert agents.agents[0].ended == [False]
    words(f"{finished.message} {finished.remedy}")


def test_after_the_limit_no_other_process_is_waited_for():
    def dying(plan):
        return scripted.dies_at(64)(replace(plan, max_seconds=None))

    plan = replace(scripted.three_cases(), max_seconds=0.1)
    session, _ = scripted.session_of(plan, dying, scripted.ScriptedAgent(scripted.well, greeting=()), began_s=math.inf)
    events: list[model.Event] = []
    finished = session.run(events.append)
    assert (finished.status, finished.exit_code) == ("done", EXIT_CASES_FAILED)
    assert scripted.statuses(events) == ["skipped", "crashed", "skipped"]
    assert "time limit of 0.1 s" in scripted.failures(events)[128].message


def test_a_step_that_goes_on_after_the_limit_is_ended_and_what_was_timed_is_kept(monkeypatch, words):
    """A call took over five minutes: `--max-seconds 555` ran into the limit of whoever had started it."""
    monkeypatch.setattr(session_module, "OVERRUN_S", 0.05)

    def endless(plan):
        return scripted.silent_at(256)(replace(plan, max_seconds=None, window=2))

    plan = plan_of(64, 128, 256, 512, max_seconds=0.1)
    session, agents = scripted.session_of(plan, endless, scripted.ScriptedAgent(scripted.well, greeting=()))
    events: list[model.Event] = []
    finished = session.run(events.append)
    assert scripted.statuses(events) == ["ok", "ok", "skipped", "skipped"]
    assert agents.agents[0].ended[0] is True, "only a kill ends a call"
    assert (finished.status, finished.exit_code) == ("done", EXIT_OK)
    late = scripted.failures(events)[256]
    words(f"{late.message} {late.remedy}")


# ------------------------------------------------------------------ stops


def stop_after_first(session, agents, how, then):
    """Run, and ask for a stop when the first case is over; the agent then says `then`."""
    events: list[model.Event] = []

    def deliver(event):
        events.append(event)
        if isinstance(event, model.CaseFinished) and not session.stopping:
            getattr(session, how)()
            agents.agents[0].say(*then)

    session.run(deliver)
    return events


def stopped_after_first(events):
    """Assert that one case of three has a result and that the run was stopped; return its end."""
    last = events[-1]
    assert scripted.statuses(events) == ["ok", "skipped", "skipped"]
    assert (last.status, last.exit_code) == ("stopped", EXIT_INTERRUPTED)
    return last


def until_first_finished(plan):
    messages = scripted.well(plan)
    over = next(i for i, m in enumerate(messages) if isinstance(m, model.CaseFinished))
    return messages[: over + 1]


def test_a_stop_keeps_what_is_finished_and_skips_the_rest():
    session, agents = scripted.session_of(scripted.three_cases(), until_first_finished)
    events = stop_after_first(
        session, agents, "stop", [model.RunFinished(status="stopped", exit_code=EXIT_INTERRUPTED)]
    )
    assert agents.agents[0].commands == ["stop"]
    stopped_after_first(events)
    assert session.stopping


def test_skipped_cases_are_saved_together_before_they_are_shown():
    log: list[Any] = []
    session, agents = scripted.session_of(scripted.three_cases(), until_first_finished, store=scripted.ListStore(log))

    def deliver(event):
        log.append(("shown", event))
        if isinstance(event, model.CaseFinished):
            session.stop()
            agents.agents[0].say(model.RunFinished(status="stopped"))

    session.run(deliver)
    (saved,) = [index for index, entry in enumerate(log) if entry[:2] == ("saved", "cases")]
    shown = [entry[1] for entry in log[saved + 1 :] if isinstance(entry[1], model.CaseFailed)]
    assert [events[-1] for events in log[saved][2]] == shown
    assert len(shown) == 2


def test_a_stop_at_once_ends_the_agent_and_keeps_what_is_finished(words):
    session, agents = scripted.session_of(scripted.three_cases(), until_first_finished)
    events = stop_after_first(session, agents, "kill", [AgentExited(-15)])
    assert agents.agents[0].ended[0] is False
    words(stopped_after_first(events).message)


def test_one_stop_ends_a_persons_code_that_never_returns(monkeypatch, words):
    monkeypatch.setattr(session_module, "STOP_LIMIT_S", 0.05)
    monkeypatch.setattr(session_module, "ABANDON_AFTER_S", 0.05)
    own = replace(scripted.three_cases(), own_files=(model.OwnFile("/a.py", "0" * 64),))
    session, agents = scripted.session_of(own, until_first_finished)
    gives_up(session)
    events = stop_after_first(session, agents, "stop", [])
    assert agents.agents[0].ended[0] is False
    words(stopped_after_first(events).message)


def test_a_stop_while_torch_is_imported_does_not_blame_the_code(monkeypatch):
    """`x = torch.rand(n)` "did not return for 3 s", while the process had not begun with it."""
    monkeypatch.setattr(session_module, "STOP_LIMIT_S", 0.05)
    monkeypatch.setattr(session_module, "ABANDON_AFTER_S", 0.05)
    own = replace(scripted.three_cases(), own_files=(model.OwnFile("/a.py", "0" * 64),))
    session, _ = scripted.session_of(own, lambda plan: session.stop() or [])
    gives_up(session)
    assert "process did not answer" in session.run(lambda event: None).message


def test_a_stop_ends_a_compiler_at_once(monkeypatch):
    """It asks nobody whether the run is to end, and takes a minute on its first start."""
    monkeypatch.setattr(session_module, "ABANDON_AFTER_S", 0.05)
    monkeypatch.setattr(session_module, "STOP_LIMIT_S", 1e9)
    session, agents = scripted.session_of(scripted.three_cases(), until_first_finished)
    gives_up(session)
    compiling = model.Progressed(
        case=scripted.three_cases().cases[1].key, device="cpu", phase=model.COMPILER_START, estimate_s=60.0
    )
    events = stop_after_first(session, agents, "stop", [compiling])
    assert agents.agents[0].ended[0] is False
    assert stopped_after_first(events).exit_code == EXIT_INTERRUPTED


def test_a_stop_waits_for_a_block_of_ours_however_long_it_takes(monkeypatch):
    monkeypatch.setattr(session_module, "STOP_LIMIT_S", 0.0)
    session, agents = scripted.session_of(scripted.three_cases(), until_first_finished)
    honest, waits = session._next, []

    def next_soon(timeout_s):
        message = honest(min(timeout_s, 0.01))
        waits.extend([timeout_s] * (message is None))
        if len(waits) == 5:
            agents.agents[0].say(model.RunFinished(status="stopped"))
        return message

    session._next = next_soon  # type: ignore[method-assign]
    stop_after_first(session, agents, "stop", [])
    assert (agents.agents[0].ended, agents.agents[0].commands) == ([False], ["stop"])


def test_an_agent_that_ignores_a_termination_is_killed(monkeypatch):
    timers: list[Any] = []

    class Timer:
        daemon = False

        def __init__(self, after_s, call, kwargs):
            timers.append((after_s, call, kwargs))

        def start(self):
            _, call, kwargs = timers[-1]
            call(**kwargs)

    monkeypatch.setattr(session_module.threading, "Timer", Timer)
    session, agents = scripted.session_of(scripted.three_cases(), until_first_finished)
    stop_after_first(session, agents, "kill", [AgentExited(-9)])
    assert agents.agents[0].ended[:2] == [False, True]
    assert timers[0][0] <= 1.0


def test_a_stop_before_the_agent_is_ready_ends_the_run_before_it_began():
    session, _ = scripted.session_of(scripted.three_cases(), scripted.ScriptedAgent(scripted.well, []))
    session.stop()
    events: list[model.Event] = []
    finished = session.run(events.append)
    assert (finished.status, finished.exit_code) == ("stopped", EXIT_INTERRUPTED)
    assert events == [finished]


def test_a_crash_during_a_stop_starts_no_other_agent():
    session, agents = scripted.session_of(scripted.three_cases(), until_first_finished)
    events = stop_after_first(session, agents, "stop", [scripted.KILLED])
    assert agents.taken == 1
    assert events[-1].status == "stopped"


def test_the_agent_is_ended_after_every_run():
    session, agents = scripted.session_of(scripted.three_cases(), scripted.well)
    live: list[bool] = []
    session.on_live = live.append
    session.run(lambda event: None)
    assert (agents.agents[0].ended, agents.agents[0].commands, live) == ([False], [], [True, False])


def test_an_exception_of_whoever_watches_ends_the_agent_too():
    """As with `run --json | head`, when the reader exits."""
    session, agents = scripted.session_of(scripted.three_cases(), scripted.well)

    def deliver(event):
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        session.run(deliver)
    assert agents.agents[0].ended == [False]


def test_a_pause_before_the_plan_waits_for_it():
    """An agent takes its first line for the plan."""
    agent = scripted.ScriptedAgent(scripted.well)
    commands_at_plan: list[list[str]] = []
    honest = agent.send_plan
    agent.send_plan = lambda plan: (commands_at_plan.append(list(agent.commands)), honest(plan))[1]  # type: ignore[method-assign]
    session, _ = scripted.session_of(scripted.three_cases(), agent)

    def pause_at_the_start(event):
        if isinstance(event, model.RunStarted):
            session.pause()

    session.run(pause_at_the_start)
    assert commands_at_plan == [[]]
    assert agent.commands == ["pause"]


def test_a_controller_that_stood_still_blames_nobody(monkeypatch):
    """An hour in ctrl+z is not an hour of silence of the agent."""
    session, agents = scripted.session_of(scripted.three_cases(), scripted.silent_at(64), case_timeout_s=30.0)
    clock = (3600.0 * n for n in count())
    monkeypatch.setattr(session_module.time, "monotonic", lambda: next(clock))
    honest = session._next

    def next_soon(timeout_s):
        message = honest(0.01)
        if message is None:
            agents.agents[0].say(model.RunFinished(status="stopped"))
        return message

    session._next = next_soon  # type: ignore[method-assign]
    events: list[model.Event] = []
    assert session.run(events.append).status == "stopped"
    assert "timeout" not in scripted.statuses(events)
