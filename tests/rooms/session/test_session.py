"""One run from plan to end: saving before showing, agents that die, ends of a run."""

from dataclasses import replace
from typing import Any

import pytest
from tests.helpers.runs.recorder import plan_of
from tests.helpers.runs.scripted import (
    HELLO,
    KILLED,
    ListStore,
    ScriptedAgent,
    dead,
    dies_at,
    failures,
    session_of,
    statuses,
    three_cases,
    well,
)

from cpugpu_tui.errors import EXIT_CASES_FAILED, EXIT_OK, EXIT_UNFIT, EXIT_USAGE, ProtocolError, UsageError
from cpugpu_tui.model import (
    CaseFailed,
    CaseFinished,
    CaseStarted,
    DeviceSampled,
    DevicesFound,
    Event,
    Reading,
    RunStarted,
    TelemetryRead,
    TensorsPlaced,
)
from cpugpu_tui.session.event_stream import new_id
from cpugpu_tui.store.outbox import Outbox
from cpugpu_tui.transport.agent_output import AgentExited


def run(*arguments, **more):
    """Run a session to its end; return the end and everything that was delivered."""
    session, _ = session_of(*arguments, **more)
    delivered: list[Event] = []
    return session.run(delivered.append), delivered


# ------------------------------------------------------------------ a good run


def test_a_run_begins_with_who_runs_what_and_ends_with_how():
    plan = three_cases()
    finished, events = run(plan, well, facts={"argv": ["run"]}, series_id="series")
    started = events[0]
    assert (started.plan, started.series_id, started.number) == (plan, "series", None)
    assert started.environment == {**HELLO.environment, "worker": "process", "python_option": None, "argv": ["run"]}
    assert events[-1] == finished
    assert (finished.status, finished.exit_code) == ("done", EXIT_OK)
    assert statuses(events) == ["ok"] * 3


def test_the_stream_is_numbered_without_a_hole():
    _, events = run(three_cases(), dies_at(64), well)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))


def test_the_devices_are_told_once():
    _, events = run(three_cases(), dies_at(64), well)
    assert len([event for event in events if isinstance(event, DevicesFound)]) == 1


def test_ids_sort_by_time():
    ids = [new_id() for _ in range(50)]
    assert (sorted(ids, key=lambda one: one[:11]), len(set(ids))) == (ids, 50)


# ------------------------------------------------------------------ saved before shown


def logged_run(plan, *scripts):
    """Run, and return saved and shown events in order."""
    log: list[Any] = []
    session, _ = session_of(plan, *scripts, store=ListStore(log))
    session.run(lambda event: log.append(("shown", event)))
    return log


def test_a_case_is_saved_whole_before_it_is_shown():
    log = logged_run(three_cases(), well)
    for index, entry in enumerate(log):
        if entry[0] == "shown" and isinstance(entry[1], CaseFinished | CaseFailed):
            what, name, events, _ = log[index - 1]
            assert (what, name) == ("saved", "case")
            assert events[-1] == entry[1]
            shown = [e[1] for e in log if e[0] == "shown" and getattr(e[1], "case", None) == entry[1].case]
            elsewhere = ("Progressed", "Gap", "TensorsPlaced", "MachineRead")
            assert events == [e for e in shown if type(e).__name__ not in elsewhere]


def test_the_run_itself_is_saved_first_and_its_number_shown():
    log = logged_run(three_cases(), well)
    assert [entry[:2] for entry in log[:1]] == [("saved", "run")]
    assert (log[1][1].number, log[-2][:2], log[-1][1]) == (7, ("saved", "end"), log[-2][2])


def test_a_crashed_case_is_saved_with_what_was_known_of_it():
    log = logged_run(three_cases(), dies_at(64), well)
    (crashed,) = [e for e in log if e[:2] == ("saved", "case") and isinstance(e[2][-1], CaseFailed)]
    assert isinstance(crashed[2][0], CaseStarted)
    assert crashed[2][-1].kind == "crashed"


@pytest.mark.parametrize("fails_from", [0, 1, 2, 3, 5])
def test_a_store_that_fails_costs_nothing_once_it_works_again(fails_from):
    whole = [entry[:2] for entry in logged_run(three_cases(), well) if entry[0] == "saved"]
    log: list[Any] = []
    store = ListStore(log, fails_from)
    outbox = Outbox(lambda _wait_s: store, store)  # type: ignore[arg-type, return-value]
    session, _ = session_of(three_cases(), well, outbox=outbox)
    events: list[Event] = []
    assert session.run(events.append).exit_code == EXIT_OK
    assert statuses(events) == ["ok"] * 3
    unsaved = session.saver.unsaved
    assert "is full" in str(unsaved.cause)
    assert [entry[:2] for entry in log] == whole[:fails_from]
    store.works_again()
    outbox.flush(60)
    assert not session.saver.unsaved
    assert [entry[:2] for entry in log] == whole
    assert session.saver.number == 7


def test_a_run_that_never_began_is_not_saved_and_says_nothing_of_the_history():
    log: list[Any] = []
    agents = (ScriptedAgent(well, [KILLED]), ScriptedAgent(well, [KILLED]))
    session, _ = session_of(three_cases(), *agents, store=ListStore(log))
    assert session.run(lambda event: None).status == "failed"
    assert not log
    assert not session.saver.unsaved


# ------------------------------------------------------------------ telemetry


def reading(value):
    return TelemetryRead(host={"cpu_pct": Reading(value)}, seq=99)


def test_telemetry_becomes_part_of_the_stream_and_is_saved_with_the_next_case():
    log: list[Any] = []

    def script(plan):
        messages = well(plan)
        first_round = next(i for i, m in enumerate(messages) if isinstance(m, DeviceSampled) and m.round_index)
        return [*messages[:first_round], reading(1.0), *messages[first_round:-1], reading(2.0), messages[-1]]

    session, _ = session_of(plan_of(64), script, store=ListStore(log))
    session.add_telemetry(reading(0.0))  # before the run: nobody has begun to listen
    session.run(lambda event: log.append(("shown", event)))
    shown = [entry[1] for entry in log if entry[0] == "shown"]
    assert [event.seq for event in shown] == list(range(1, len(shown) + 1))
    values = [event.host["cpu_pct"].value for event in shown if isinstance(event, TelemetryRead)]
    assert values == [0.0, 1.0, 2.0]
    assert isinstance(shown[0], RunStarted)
    case, end = (next(e for e in log if e[:2] == ("saved", what)) for what in ("case", "end"))
    with_case, with_end = ([e for e in saved[-1] if isinstance(e, TelemetryRead)] for saved in (case, end))
    assert [event.host["cpu_pct"].value for event in with_case] == [0.0, 1.0]
    assert [event.host["cpu_pct"].value for event in with_end] == [2.0]
    assert [event.device for event in case[-1] if isinstance(event, TensorsPlaced)] == ["cpu", "cuda:0"]


# ------------------------------------------------------------------ agents that die


@pytest.mark.parametrize("phase", ["inputs", "first call", "warm-up", "round"])
def test_a_dead_agent_costs_one_case_and_is_replaced(phase, words):
    plan = three_cases()
    session, agents = session_of(plan, dies_at(64, phase=phase), well)
    events: list[Event] = []
    finished = session.run(events.append)
    assert statuses(events) == ["ok", "crashed", "ok"]
    assert (finished.status, finished.exit_code) == ("done", EXIT_CASES_FAILED)
    assert agents.taken == 2
    crash = failures(events)[64]
    words(f"{crash.message} {crash.remedy}")
    remaining = agents.agents[1].plan
    assert [case.size for case in remaining.cases] in ([32, 128], [128])


def test_every_death_costs_its_own_case_only():
    _, events = run(plan_of(16, 32, 64, 128), dies_at(16), dies_at(64), dies_at(128), well)
    assert statuses(events) == ["crashed", "ok", "crashed", "crashed"]


def test_when_the_last_case_kills_the_run_is_done():
    finished, events = run(plan_of(64), dies_at(64))
    assert (finished.status, finished.exit_code) == ("done", EXIT_CASES_FAILED)
    assert statuses(events) == ["crashed"]


def test_an_agent_that_exits_is_reported_with_its_exit_code(words):
    _, events = run(plan_of(64), dies_at(64, AgentExited(134)))
    words(failures(events)[64].message)


def test_an_agent_that_dies_between_cases_costs_none():
    """Its case has failed already; a new agent gets the others."""

    def sticky(plan):
        messages = well(plan)[:3]
        told = CaseFailed(case=plan.cases[0].key, kind="error", message="CUDA error: sticky")
        return [*messages, told, AgentExited(70)]

    finished, events = run(three_cases(), sticky, well)
    assert statuses(events) == ["error", "ok", "ok"]
    assert finished.exit_code == EXIT_CASES_FAILED


@pytest.mark.parametrize("first", [dead, ScriptedAgent(well, [KILLED])], ids=["after its hello", "before its hello"])
def test_one_agent_may_die_before_it_gets_anywhere(first):
    """Another program may kill it at any time."""
    finished, events = run(three_cases(), first, well)
    assert statuses(events) == ["ok"] * 3
    assert finished.exit_code == EXIT_OK


@pytest.mark.parametrize("first", [dead, ScriptedAgent(well, [KILLED])], ids=["after its hello", "before its hello"])
def test_also_in_the_middle_of_a_run(first):
    finished, events = run(three_cases(), dies_at(64), first, well)
    assert statuses(events) == ["ok", "crashed", "ok"]
    assert finished.exit_code == EXIT_CASES_FAILED


def test_agents_that_only_die_are_not_started_for_ever(words):
    finished, events = run(three_cases(), dead, dead)
    assert finished.status == "failed"
    words(f"{finished.message} {finished.remedy}")
    assert set(statuses(events)) == {"skipped"}


def test_an_interpreter_that_never_says_hello_is_an_error(words):
    silent = [ScriptedAgent(well, [AgentExited(127, ("sh: not found",))]) for _ in range(2)]
    finished, events = run(three_cases(), *silent)
    assert finished.exit_code == EXIT_UNFIT
    words(f"{finished.message} {finished.remedy}")
    assert events == [finished]


def test_another_protocol_is_not_tried_twice():
    problem = ProtocolError("The agent speaks protocol 2, this app speaks 1.", "Use the same version.")
    finished, _ = run(three_cases(), ScriptedAgent(well, [AgentExited(-9, error=problem)]))
    assert (finished.message, finished.remedy, finished.exit_code) == (problem.message, problem.remedy, EXIT_UNFIT)


def test_an_interpreter_that_does_not_exist_is_a_failed_run():
    session, agents = session_of(three_cases())
    problem = UsageError("Interpreter 'x' not found.", "Use another one.")

    def take():
        raise problem

    agents.take = take  # type: ignore[method-assign]
    finished = session.run(lambda event: None)
    assert (finished.status, finished.message, finished.exit_code) == ("failed", problem.message, EXIT_USAGE)


def test_without_torch_only_a_simulated_machine_runs(words):
    plan = replace(three_cases(), simulation=None)
    hello = replace(HELLO, environment={**HELLO.environment, "torch_error": "No module named 'torch'"})
    finished, events = run(plan, ScriptedAgent(well, [hello]))
    assert finished.exit_code == EXIT_UNFIT
    words(f"{finished.message} {finished.remedy}")
    assert events == [finished]
