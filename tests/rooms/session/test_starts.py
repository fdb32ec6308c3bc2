"""Runs of several starts of the process: what each times, what is saved, and what happens if one fails."""

import math
from collections import Counter
from contextlib import closing
from dataclasses import replace
from functools import partial

import pytest
from tests.helpers.runs.recorder import QUICK, plan_of
from tests.helpers.runs.scripted import (
    KILLED,
    ListStore,
    ScriptedAgent,
    dead,
    dies_at,
    session_of,
    silent_at,
    three_cases,
    well,
)

from cpugpu_tui import model, time_on
from cpugpu_tui.compare.in_turn import Side, duet_plan
from cpugpu_tui.decide.comparison import UNDECIDED
from cpugpu_tui.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, UsageError
from cpugpu_tui.export.stream import case_results, kept
from cpugpu_tui.machine import procfs
from cpugpu_tui.model import DeviceSampled, Event
from cpugpu_tui.render.columns import COLUMNS, Key
from cpugpu_tui.render.sentences import starts_sentence, starts_text
from cpugpu_tui.render.verdicts import row_marks
from cpugpu_tui.report.report import report
from cpugpu_tui.session.further_starts import START_BYTES, Visits
from cpugpu_tui.session.own_workloads import OwnWorkloads
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.state.folding import folded
from cpugpu_tui.store import Store
from cpugpu_tui.timing.timers import event_clock
from cpugpu_tui.workloads.own_code import own_command

VARIED = replace(QUICK, cpu_start=0.14, gpu_start=0.10, drift_seed=5)


def starting(plan, starts):
    return replace(plan, starts=starts)


def run(plan, *agents, store=None):
    session, _ = session_of(plan, *agents, store=store)
    delivered: list[Event] = []
    return session.run(delivered.append), delivered


def starts_of(events):
    """Start → sizes that it timed."""
    found: dict[int, set[int]] = {}
    for event in events:
        if isinstance(event, DeviceSampled):
            found.setdefault(event.start, set()).add(int(event.case.split("/")[2]))
    return found


def test_each_start_times_the_cases_in_a_process_of_its_own():
    plan = starting(plan_of(32, 64, simulation=VARIED), 4)
    finished, events = run(plan, well, well, well, well)
    assert finished.status == "done"
    assert starts_of(events) == {start: {32, 64} for start in range(4)}
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    state = folded(events)
    assert (state.starts, state.settled) == (4, 2)
    for row in state.rows.values():
        assert (row.own_comparison.starts, row.own_comparison.degrees) == (4, 3)
        assert row.own_comparison.speedup == pytest.approx(row.cpu.latency_ns / row.gpu.latency_ns)
        medians = [sorted(row.cpu.later[start]["latency"].values())[1] for start in (1, 2, 3)]
        assert max(medians) / min(medians) > 1.02  # starts differ


def test_one_start_is_what_it_was():
    plan = plan_of(32, simulation=VARIED)
    _, events = run(plan, well)
    assert starts_of(events) == {0: {32}}
    row = folded(events).rows[plan.cases[0].key]
    assert (row.own_comparison.starts, row.own_comparison.covers_starts) == (1, False)


def test_a_folded_run_and_a_kept_one_are_the_same():
    _, events = run(starting(plan_of(32, 64, simulation=VARIED), 3), well, well, well)
    for copy in (folded(events), folded(kept(events))):
        for key, row in folded(events).rows.items():
            assert copy.rows[key].own_comparison == row.own_comparison


def test_a_search_repeats_the_sizes_that_decide(cpugpu):
    outcome = cpugpu("run", "matmul", "--size", "16:2048", "--simulate", "cpu_start=0.14,gpu_start=0.1,drift_seed=5",
                     "--starts", 3, "--json", code=EXIT_OK)  # fmt: skip
    sizes = starts_of(outcome.events)
    assert sizes[1] == sizes[2]
    assert 4 <= len(sizes[1]) <= 6
    assert sizes[1] < sizes[0]
    assert max(sizes[0]) in sizes[1]
    state = folded(outcome.events)
    # The history returns the same run, and so does what is imported from an export.
    with closing(Store.open(cpugpu.database)) as store:
        saved = store.load(store.find("latest"))
        rows = store._connection.execute("SELECT start, count(*) FROM measurement GROUP BY start").fetchall()
    assert {start for start, _ in rows} == {0, 1, 2}
    with closing(Store.in_memory()) as other:
        other.import_run(saved)
        again = other.load(other.find("latest"))
    for events in (saved, again):
        copy = folded(events)
        assert {key: row.own_comparison for key, row in copy.rows.items()} == {
            key: row.own_comparison for key, row in state.rows.items()
        }


def test_a_further_start_repeats_no_check_and_takes_only_what_is_compared(monkeypatch):
    monkeypatch.setattr(event_clock, "boot_id", lambda: "this boot")
    checked: list[tuple[bool, bool]] = []
    plan = starting(replace(plan_of(32, 64, simulation=VARIED), metrics=model.METRICS), 3)

    def noting(plan):
        messages = well(plan)
        clocks = [each.clock.elapsed_ns for each in messages if isinstance(each, model.ClockChecked)]
        results = [each.check for each in messages if isinstance(each, model.CaseFinished)]
        checked.append((clocks == [known.elapsed_ns for known in plan.clocks], any(results)))
        return messages

    _, events = run(plan, noting, noting, noting)
    assert checked == [(False, True), (True, False), (True, False)]
    sampled = [event for event in events if isinstance(event, DeviceSampled) and event.round_index]
    kinds = {bool(event.start): set[str]() for event in sampled}
    for event in sampled:
        kinds[bool(event.start)] |= event.samples.keys()
    assert kinds[True] == {model.LATENCY, model.DEVICE, model.PAGEABLE, model.PINNED, model.H2D_PAGEABLE}
    assert kinds[False] > kinds[True]


def test_starts_are_visited_in_turn(cpugpu):
    """A machine that slows down for a minute must not look like a slow start."""
    outcome = cpugpu("run", "matmul", "--size", "16,32", "--simulate", "default", "--starts", 4, "--json", code=EXIT_OK)
    visits = [
        (int(event.case.split("/")[2]), event.round_index, event.start)
        for event in outcome.events
        if isinstance(event, DeviceSampled) and event.start and event.device == "cpu"
    ]
    order = {1: (1, 2, 3), 0: (3, 2, 1)}
    assert visits == [(size, index, start) for size in (16, 32) for index in range(1, 5) for start in order[index % 2]]


@pytest.mark.parametrize(("has_standby", "cores", "early"), [(False, 8, 4), (False, 2, 1), (True, 8, 1)])
def test_with_a_core_for_each_all_starts_begin_before_timing(has_standby, cores, early, monkeypatch):
    monkeypatch.setattr(procfs, "affinity_cores", lambda: range(cores))
    taken: list[int] = []

    def first(plan):
        taken.append(agents.taken)
        return well(plan)

    session, agents = session_of(starting(three_cases(), 4), *[first] * 4)
    agents.is_standby_ready = has_standby
    delivered: list[Event] = []
    assert session.run(delivered.append).status == "done"
    assert taken[0] == early
    assert starts_of(delivered).keys() == {0, 1, 2, 3}


def test_a_start_that_never_answers_is_ended_alone():
    class Stubborn(ScriptedAgent):
        def end(self, *, at_once):
            super().end(at_once=at_once)
            if at_once:
                self.say(KILLED)

    session, _ = session_of(starting(three_cases(), 4), well, Stubborn(silent_at(64)), well, well, case_timeout_s=0.5)
    delivered: list[Event] = []
    finished = session.run(delivered.append)
    assert (finished.status, finished.exit_code) == ("done", EXIT_OK)
    assert "No answer for 0.5 s" in finished.message
    assert starts_of(delivered)[2] == starts_of(delivered)[3] == {32, 64, 128}


def test_memory_without_room_for_all_starts_times_fewer_and_says_so(monkeypatch):
    monkeypatch.setattr(procfs, "available_memory_bytes", lambda: 2 * START_BYTES)
    finished, events = run(starting(three_cases(), 5), *[well] * 5)
    assert starts_of(events).keys() == {0, 1, 2}
    assert "room for 2 of 4 processes" in finished.message


@pytest.mark.parametrize(
    ("cores", "first_s", "import_s", "left_s", "count", "is_limited"),
    [
        (16, 12.0, 4.0, math.inf, 4, False),  # 30 s on a server
        (16, 29.0, 4.0, math.inf, 4, False),  # half as long again
        (2, 14.0, 3.0, math.inf, 2, False),  # 1.5 times as long on two cores, at least three starts
        (2, 14.0, 3.0, 90.0, 2, False),  # of which no limit is the cause
        (2, 60.0, 3.0, math.inf, 4, False),
        (2, 60.0, 3.0, 8.0, 2, True),
        (2, 60.0, 3.0, 2.0, 0, True),  # --max-seconds is over before torch is imported
    ],
)
def test_time_decides_how_many_further_starts_there_are(
    cores, first_s, import_s, left_s, count, is_limited, monkeypatch
):
    monkeypatch.setattr(procfs, "affinity_cores", lambda: range(cores))
    _, events = run(plan_of(16, 32, 64, 128, 256, 512), well)
    state = folded(events)
    state = replace(state, run=replace(state.run, environment={"torch_import_s": import_s}))
    plan = replace(plan_of(16, 32, 64, 128, 256, 512), starts=5, simulation=None)
    visits = Visits(plan, state, first_s, left_s)
    assert (visits.count(4 if cores > 5 else 0), visits.is_short_of_time) == (count, is_limited)


def test_a_start_that_dies_takes_only_its_own_times_along():
    plan = starting(three_cases(), 4)
    finished, events = run(plan, well, well, dies_at(64), well)
    assert (finished.status, finished.exit_code) == ("done", EXIT_OK)
    assert "not timed completely" in finished.message
    state = folded(events)
    assert all(row.status == "ok" for row in state.rows.values())
    assert {0, 1, 3} <= starts_of(events).keys()


def test_starts_that_cannot_begin_leave_the_first_one():
    agents = [ScriptedAgent(well), *(ScriptedAgent(dead, ()) for _ in range(2))]
    for agent in agents[1:]:
        agent.say(*dead(three_cases()))
    finished, events = run(starting(three_cases(), 3), *agents)
    assert finished.status == "done"
    assert finished.message
    assert starts_of(events).keys() == {0}


def test_a_case_that_fails_in_a_later_start_keeps_its_result():
    """As code whose side effect allows only one call, such as creating a folder."""

    def fails(plan):
        return list(well(replace(plan, simulation=replace(plan.simulation, error_size=64))))  # type: ignore[arg-type]

    finished, events = run(starting(three_cases(), 3), well, fails, well)
    state = folded(events)
    assert (finished.status, finished.exit_code, state.failed) == ("done", EXIT_OK, 0)
    assert Counter(row.starts for row in state.rows.values()) == {3: 2, 2: 1}
    assert finished.message


def test_a_stop_in_a_later_start_keeps_what_is_complete():
    log: list[object] = []
    session, _ = session_of(starting(three_cases(), 3), well, well, well, store=ListStore(log))
    delivered: list[Event] = []

    def deliver(event):
        delivered.append(event)
        if isinstance(event, DeviceSampled) and event.start == 1:
            session.stop()

    finished = session.run(deliver)
    assert (finished.status, finished.exit_code) == ("stopped", EXIT_INTERRUPTED)
    assert starts_of(delivered).keys() >= {0, 1}
    assert [entry[1] for entry in log if isinstance(entry, tuple)][-2:] == ["later", "end"]
    assert all(row.status == "ok" for row in folded(delivered).rows.values())


@pytest.mark.usefixtures("agents_here")
def test_own_code_has_further_starts_and_compiles_only_in_the_first(cpugpu):
    """Only the agents know a workload of a person: every run of one ended as failed when its first start was done."""
    outcome = cpugpu("time", "x.cosh()", "--setup", "x = torch.rand(n)", "--n", "32,64", "--simulate", "default",
                     "--starts", 2, "--variant", "default,compiled", "--json", code=EXIT_OK)  # fmt: skip
    variants = {(event.start, event.case.split("/")[1]) for event in outcome.events if isinstance(event, DeviceSampled)}
    assert variants == {(0, "default"), (0, "compiled"), (1, "default")}


def test_a_side_of_a_duet_has_one_start():
    asked = PlanRequest(("matmul",), sizes="16,32", starts=5)
    sides = [Side("old", "old"), Side("new", "new")]
    assert duet_plan(asked, sides, "process").starts == 1


def test_what_has_one_start():
    asked = PlanRequest(("matmul",), sizes="16,32", starts=5)
    assert build_plan(asked).starts == 5
    assert build_plan(asked._replace(repeat=2)).starts == 1
    assert build_plan(PlanRequest(("survey",), starts=5)).starts == 1
    command = own_command(("true",), ())
    assert build_plan(PlanRequest((command.name,), own=OwnWorkloads(codes=(command,)), starts=5)).starts == 1
    assert build_plan(PlanRequest(("matmul",))).starts == 1  # fleets, gates and thresholds do not ask


@pytest.mark.parametrize("words", [("--repeat", 2), ("--worker", "thread"), ("--python", "a", "--python", "b")])
def test_starts_are_refused_beside_what_has_one(words, cpugpu):
    outcome = cpugpu("run", "matmul", "--size", 16, "--simulate", "default", "--starts", 2, *words, code=EXIT_USAGE)
    assert "--starts" in outcome.err


@pytest.mark.parametrize("count", [0, 21])
def test_a_number_out_of_range_is_refused(count, cpugpu):
    outcome = cpugpu("run", "matmul", "--size", 16, "--simulate", "default", "--starts", count, code=EXIT_USAGE)
    assert str(count) in outcome.err


@pytest.mark.parametrize("value", ["0", "21", "five", "1.5"])
def test_a_wrong_number_in_the_environment_is_refused_alike_by_command_app_and_api(value, cpugpu, monkeypatch):
    monkeypatch.setattr(cpugpu, "environment", partial(cpugpu.environment, CPUGPU_STARTS=value))
    command = cpugpu.here("run", "matmul", "--size", 16, "--simulate", "default")
    app = cpugpu.here("--simulate", "default")
    monkeypatch.setenv("CPUGPU_STARTS", value)
    with pytest.raises(UsageError) as error:
        time_on("x", simulate="default")
    assert (command.code, command.err) == (app.code, app.err) == (EXIT_USAGE, f"cpugpu-tui: {error.value}\n")
    assert f"CPUGPU_STARTS {value!r}" in error.value.message


def test_a_thread_has_one_start(cpugpu):
    outcome = cpugpu("run", "matmul", "--size", 16, "--simulate", "default", "--worker", "thread", "--json",
                     CPUGPU_STARTS="3", code=EXIT_OK)  # fmt: skip
    assert starts_of(outcome.events).keys() == {0}


def test_within_one_start_a_difference_is_judged_that_other_starts_refute():
    """The devices are equal; the first start says otherwise."""
    equal = replace(QUICK, cpu_overhead_ns=1e6, launch_ns=0.5e6, sync_ns=0.5e6, cpu_start=0.14, gpu_start=0.1)
    words = Counter[str]()
    for seed in range(1, 9):
        plan = plan_of(16, simulation=replace(equal, drift_seed=seed))
        for starts in (1, 5):
            _, events = run(starting(plan, starts), *[well] * starts)
            found = folded(events).rows[plan.cases[0].key].own_comparison
            words[f"{starts} {'undecided' if found.verdict == UNDECIDED else 'winner'}"] += 1
    assert words["1 winner"] >= 6
    assert words["5 undecided"] >= 7


@pytest.mark.usefixtures("agents_here")
def test_no_row_names_a_winner_that_the_report_does_not(cpugpu):
    # Runs of one seed differ by `drift`: of four with seed 3, three lost none.
    lost = [lost_winners(cpugpu, seed) for seed in (1, 2)]
    assert any(lost) or any(lost_winners(cpugpu, seed) for seed in range(3, 9)), "no row of one start lost its winner"


def lost_winners(cpugpu, seed):
    """Check every row of a run against its report; return the marks of rows that lost the winner of one start."""
    simulation = f"cpu_start=0.14,gpu_start=0.1,seed={seed}"
    outcome = cpugpu("run", "matmul", "--size", "16:2048", "--simulate", simulation, "--starts", 3, "--json")
    assert outcome.code == EXIT_OK, outcome.err
    state = folded(outcome.events)
    (found,) = report(state).sweeps
    exported = {case.size: case.lead.verdict for case in case_results(state) if case.lead is not None}
    marks = set[str]()
    for row in state.rows.values():
        size = found.resident.at(row)
        word = COLUMNS[Key.VERDICT].text(state, row)
        assert (word if word in ("CPU", "GPU") else None) == size.winner, row.case
        told = exported.get(row.case.size)  # None where a size was timed on one device
        assert (told if told in ("CPU", "GPU") else None) == size.winner
        for change in found.resident.changes:
            assert size.winner is None or not change.low < row.case.size < change.high
        if row.own_comparison is not None and row.own_comparison.winner != size.winner:
            marks |= {"one-start", "unsure"} & {*row_marks(state, row)}
            assert {"one-start", "unsure"} & {*row_marks(state, row)}
    return marks


def test_a_run_of_fewer_starts_than_asked_says_so():
    _, events = run(starting(plan_of(32, simulation=VARIED), 3), well, well, well)
    whole = folded(events)
    short = replace(whole, run=replace(whole.run, plan=replace(whole.plan, starts=5)))
    limited = replace(short, finished=replace(short.finished, is_short_of_time=True))
    assert starts_sentence(whole).startswith("Timed in 3 starts of the process: ")
    assert " 3 of 5 starts of the process (all 5 would take over half as long again): " in starts_sentence(short)
    assert starts_sentence(limited).startswith("Timed in 3 of 5 starts of the process (time for more ran out)")
    _, events = run(starting(three_cases(), 4), well, well, dies_at(32), well)
    assert "(" not in starts_sentence(folded(events))


def test_starts_left_out_because_no_row_had_a_core_are_said():
    starved = plan_of(32, simulation=replace(QUICK, starved_share=0.4))
    for starts in (1, 3):
        state = folded(run(starting(starved, starts), well)[1])
        assert starts_text(state) == ("1 of 3 starts" if starts > 1 else "1 start")
        assert ("waited for a core" in starts_sentence(state)) == (starts > 1)
