"""Crossover search: chosen sizes find the planted crossover, and failing cases do not stop it."""

from dataclasses import replace

import pytest
from tests.helpers.runs import planted_crossover
from tests.helpers.runs.recorder import QUICK, Recorder, state_events, state_of

from cpugpu_tui import model
from cpugpu_tui.decide.comparison import CPU_WINS, GPU_WINS
from cpugpu_tui.render.answers import answers
from cpugpu_tui.report.segments import FROM
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.simulation.simulated_machine import SimulatedMachine, SimulatedTimer
from cpugpu_tui.state.folding import Remaining
from cpugpu_tui.timing.channel import Control
from cpugpu_tui.timing.scheduler import Scheduler
from cpugpu_tui.timing.size_search import END_ROUNDS
from cpugpu_tui.timing.timers import CaseError

CALM = model.Simulation(noise=0.002)


@pytest.fixture(scope="module")
def calm():
    """State and events of a search on a machine with little noise; read-only."""
    return planted_crossover.searched(planted_crossover.search_plan(CALM))


@pytest.mark.parametrize(
    "rho", [pytest.param(0.0, marks=pytest.mark.slow), 0.3, pytest.param(0.8, marks=pytest.mark.slow)]
)
def test_the_bracket_holds_the_planted_crossover_and_is_narrow(rho):
    # 100 seeds of each in `make bench ONLY=trust`.
    found = planted_crossover.record(rho, range(30))
    assert found.covered >= 0.95
    assert found.median_ratio <= 1.15
    assert found.error_p95 <= 0.03
    assert found.most_cases <= 20


def test_it_does_so_with_rounds_as_noisy_as_real_ones():
    found = planted_crossover.record(planted_crossover.REAL_RHO, range(30), planted_crossover.REAL_DRIFTS)
    assert found.covered >= 0.95
    assert found.median_ratio <= 1.25


def test_a_search_narrows_the_end_to_end_crossover_too(calm):
    state, _ = calm
    (answer,) = answers(state)
    assert answer.report.resident.kind == answer.report.with_copies.kind == FROM
    (resident,), (moved,) = answer.report.resident.changes, answer.report.with_copies.changes
    assert resident.ratio <= 1.1
    assert moved.ratio <= 1.1
    assert f"({moved.low}–{moved.high})" in " ".join(answer.sentences)


def test_further_sizes_are_announced_before_they_start_and_stand_in_order(calm):
    plan = planted_crossover.search_plan(CALM)
    state, recorder = calm
    chosen = [case.key for event in recorder.of(model.CasesChosen) for case in event.cases]
    started = [event.case for event in recorder.of(model.CaseStarted)]
    assert chosen
    assert started == [case.key for case in plan.cases] + chosen
    sizes = [row.case.size for row in state.rows.values()]
    assert sizes == sorted(sizes)
    assert len(sizes) == len(plan.cases) + len(chosen) <= 20
    assert {row.status for row in state.rows.values()} == {"ok"}


def test_the_ends_of_the_bracket_get_more_rounds_than_what_lies_far_from_it(calm):
    state, _ = calm
    (found,) = answers(state)[0].report.resident.changes
    rounds = {row.case.size: len(row.cpu.round_ns) for row in state.rows.values() if row.cpu is not None}
    assert rounds[found.low] >= END_ROUNDS
    assert rounds[found.high] >= END_ROUNDS
    assert rounds[16] < END_ROUNDS


def test_the_cpu_is_left_out_where_it_is_hopelessly_behind_unless_everything_is_asked_for(calm):
    state, _ = calm
    left_out = [row.case.size for row in state.rows.values() if row.cpu is None]
    assert left_out == [5_000, 10_000]
    assert all(state.rows[model.Case("matmul", size).key].gpu is not None for size in left_out)
    full, _ = planted_crossover.searched(planted_crossover.search_plan(CALM, full=True))
    assert all(row.cpu is not None for row in full.rows.values())


def test_what_does_not_fit_beside_others_is_tried_again_when_they_are_through(monkeypatch):
    plan = planted_crossover.search_plan(CALM)
    recorder = Recorder()
    sweep = Scheduler(plan, SimulatedMachine(plan), recorder, Control())
    load = SimulatedTimer.load
    refused = []

    def crowded(timer, case, inputs):
        over = {event.case for event in recorder.of(model.CaseFinished, model.CaseFailed)}
        others = {event.case for event in recorder.of(model.CaseStarted)} - over - {case.key}
        if case.size == 500 and others:
            refused.append(others)
            raise CaseError("oom", "Needs 18 GB on cuda:0, 12 GB free.", "Choose smaller sizes.")
        return load(timer, case, inputs)

    monkeypatch.setattr(SimulatedTimer, "load", crowded)
    sweep.run()
    assert refused
    assert not recorder.of(model.CaseFailed)
    assert state_of(plan, recorder).rows[model.Case("matmul", 500).key].status == "ok"


# ------------------------------------------------------------------ a dead agent


def test_the_next_agent_is_told_what_was_found_out(calm):
    plan = planted_crossover.search_plan(CALM)
    remaining = Remaining(plan)
    state, recorder = calm
    chosen = recorder.of(model.CasesChosen)[0].cases[0]
    remaining.note(state.run)
    for event in recorder.events:
        if getattr(event, "case", "") != chosen.key:  # the agent died at this one
            remaining.note(event)
    again = remaining.plan(0.0)
    assert again.cases == (chosen,)
    told = {found.case.size: found for found in again.search.found if not found.moved}
    assert told[16].speedup == pytest.approx(state.rows[model.Case("matmul", 16).key].own_comparison.speedup)  # type: ignore[union-attr]
    assert told[10_000].speedup is None
    verdicts = {found.case.size: (found.low or 0) > 1 for found in told.values() if found.low}
    assert not verdicts[100]
    assert verdicts[500]


def test_a_search_goes_on_from_what_a_dead_agent_found():
    plan = planted_crossover.search_plan(CALM)
    lost, won = (0.5, 0.49, 0.51, 8, "cuda:0", CPU_WINS), (2.0, 1.9, 2.1, 8, "cuda:0", GPU_WINS)
    found = [
        model.Found(model.Case("matmul", size), *facts) for size, facts in {100: lost, 200: won, 500: (None,)}.items()
    ]
    again = replace(plan, cases=(), search=replace(plan.search, found=tuple(found)))
    _, recorder = planted_crossover.searched(again)
    sizes = [case.size for event in recorder.of(model.CasesChosen) for case in event.cases]
    assert sizes
    assert all(100 < size < 200 for size in sizes)


def test_the_next_agent_of_a_survey_has_the_time_that_is_left():
    plan = build_plan(PlanRequest(("survey",), max_seconds=500.0, simulation=CALM))
    remaining = Remaining(plan)
    assert remaining.plan(30.0).search == plan.search, "no agent has begun"
    for event in state_events(plan, Recorder()):
        remaining.note(event)
    for elapsed_s, limit_s in ((30.0, plan.search.limit_s - 30.0), (1000.0, 0.001)):
        again = remaining.plan(elapsed_s)
        assert (again.search.limit_s, again.max_seconds) == (limit_s, max(500.0 - elapsed_s, 0.001))


class Stopping(Recorder):
    """Requests a stop after so many half-rounds."""

    def __init__(self, half_rounds):
        super().__init__()
        self.control, self._left = Control(), half_rounds

    def __call__(self, event):
        super().__call__(event)
        self._left -= isinstance(event, model.DeviceSampled)
        if not self._left:
            self.control.obey("stop")


@pytest.mark.parametrize("half_rounds", [25, 60, 120, 200, 260])
def test_a_stopped_search_that_goes_on_ends_with_narrow_brackets_too(half_rounds):
    plan, stopped = planted_crossover.search_plan(CALM), Stopping(half_rounds)
    assert Scheduler(plan, SimulatedMachine(plan), stopped, stopped.control).run() == "stopped"
    remaining, again = Remaining(plan), Recorder()
    for event in state_events(plan, stopped):
        if not isinstance(event, model.CaseFailed):  # those that it did not reach
            remaining.note(event)
            again.log.append(event)
    rest = remaining.plan(0.0)
    Scheduler(rest, SimulatedMachine(rest), again, Control()).run()
    state = state_of(plan, again)
    short = [row.own_comparison for row in state.rows.values() if row.case.size <= 1000]
    assert all(comparison is not None and comparison.low is not None for comparison in short)
    (answer,) = answers(state)
    for found in (answer.report.resident, answer.report.with_copies):
        assert found.kind == FROM
        assert [change.ratio <= 1.11 for change in found.changes] == [True]
    finished = [event.case for event in again.of(model.CaseFinished)]
    assert len(finished) == len(set(finished)) <= 20


def test_sizes_whose_winner_needs_more_rounds_to_be_sure_get_them():
    """The CPU wins at 16 and 50, by less than three times and after six rounds; the GPU wins above without doubt."""
    laws = replace(QUICK, noise=0.01, cpu_ns_per_flop=0.4, gpu_ns_per_flop=0.001, launch_ns=200_000.0)
    plan = planted_crossover.search_plan(replace(laws, sync_ns=160_000.0, kernel_overhead_ns=40_000.0), max_size="2000")
    state, _ = planted_crossover.searched(replace(plan, cases=tuple(case for case in plan.cases if case.size != 200)))
    (answer,) = answers(state)
    assert answer.report.resident.kind == FROM
    assert [change.ratio <= 1.1 for change in answer.report.resident.changes] == [True]


# ------------------------------------------------------------------ what a person asks for


@pytest.mark.parametrize(
    ("names", "sizes", "ends"),
    [
        (("matmul",), None, (16, 2_048)),
        (("matmul",), "32,700", (32, 700)),
        (("elementwise",), None, (10**2, 10**8)),
        (("transfer",), None, (4, 2**30)),
        (("mnist-batch",), None, (32, 4_096)),
        (("mnist-mlp-width",), None, (32, 4_096)),
        (("jacobian",), None, (1, 1_000)),
        (("vector-dot",), None, (10**2, 10**8)),
    ],
)
def test_every_workload_can_be_searched_on_its_own_axis(names, sizes, ends):
    plan = build_plan(PlanRequest(names, sizes=sizes, find_crossover=True))
    mine = [case.size for case in plan.cases if case.sweep == plan.cases[0].sweep]
    assert (mine[0], mine[-1]) == ends
    assert mine == sorted(set(mine))
    assert len(mine) <= 13


def test_without_a_gpu_a_search_times_its_grid():
    plan = planted_crossover.search_plan(replace(QUICK, gpus=0))
    state, recorder = planted_crossover.searched(plan)
    assert not recorder.of(model.CasesChosen)
    assert {row.status for row in state.rows.values()} == {"ok"}
    assert answers(state) == ()
