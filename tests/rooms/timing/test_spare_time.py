"""`quick` gives its spare seconds to the case with the widest interval first. A survey shares its time."""

from dataclasses import dataclass, field, replace
from itertools import groupby

import pytest
from tests.helpers.runs.fake_time import TimedMachine, TimingRecorder, faked
from tests.helpers.runs.recorder import QUICK, Recorder, state_events

from cpugpu_tui.model import CaseFailed, CaseFinished, CaseStarted, Plan, RunFinished, Simulation
from cpugpu_tui.render.answers import answers
from cpugpu_tui.render.sentences import cut_short
from cpugpu_tui.report.segments import FROM
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.simulation.simulated_machine import SimulatedMachine
from cpugpu_tui.state.folding import folded
from cpugpu_tui.timing import scheduler
from cpugpu_tui.timing.case_run import CaseRun
from cpugpu_tui.timing.channel import Control
from cpugpu_tui.timing.scheduler import Scheduler
from cpugpu_tui.timing.size_search import SPARE_NS, WIDE, plus_minus
from cpugpu_tui.timing.timers import CaseError

NOISY = Simulation(noise=0.02, cpu_drift=0.06)
"""A CPU whose rounds differ by 6 %, as on a server with 16 threads."""


@dataclass
class Ran:
    """What a search did: half-width, rounds and time of each case at its end."""

    plan: Plan
    recorder: Recorder
    widths: dict[int, float] = field(default_factory=dict)
    rounds: dict[int, int] = field(default_factory=dict)
    spent_s: float = 0.0

    @property
    def widest(self):
        return max(self.widths.values())

    @property
    def budget_s(self):
        return 2 * self.plan.budget_s * len(self.recorder.of(CaseStarted))


def quick(monkeypatch, seed=1, spare_ns=SPARE_NS):
    """Run `quick` on the noisy machine with so much spare time."""
    plan = build_plan(PlanRequest(("quick",), simulation=Simulation(seed=seed, noise=0.02, cpu_drift=0.06)))
    ran = Ran(plan, Recorder())
    honest = CaseRun.finish

    def finish(case_run):
        ran.widths[case_run.case.size] = plus_minus(case_run)
        ran.rounds[case_run.case.size] = case_run.rounds_complete
        ran.spent_s += sum(run.spent_ns for run in case_run.runs) / 1e9
        honest(case_run)

    with monkeypatch.context() as patched:
        patched.setattr(CaseRun, "finish", finish)
        patched.setattr(scheduler, "SPARE_NS", spare_ns)
        assert Scheduler(plan, SimulatedMachine(plan), ran.recorder, Control()).run() == "done"
    return ran


@pytest.mark.parametrize("seed", [1, 3])
def test_the_widest_interval_becomes_narrower_within_the_same_budget(monkeypatch, seed):
    without, ran = quick(monkeypatch, seed, spare_ns=0.0), quick(monkeypatch, seed)
    assert without.widest > 2 * WIDE
    # Half, or what 12 to 24 rounds with this noise can reach: at most 0.116 for 12 seeds, from 0.15 to 0.64 before.
    assert ran.widest < max(without.widest / 2, 0.12)
    assert ran.spent_s < ran.budget_s
    # Rounds are granted by their expected time, and may take a little more.
    assert ran.spent_s < without.spent_s + 1.1 * SPARE_NS / 1e9
    assert quick(monkeypatch, seed).rounds == ran.rounds


def test_narrow_cases_get_nothing(monkeypatch):
    without, ran = quick(monkeypatch, spare_ns=0.0), quick(monkeypatch)
    assert any(width <= WIDE for width in without.widths.values())
    for size, width in without.widths.items():
        assert width > WIDE or ran.rounds[size] == without.rounds[size], size


def test_the_widest_comes_first(monkeypatch):
    """A little time goes to one case alone."""
    without, ran = quick(monkeypatch, spare_ns=0.0), quick(monkeypatch, spare_ns=0.3e9)
    more = {size for size in ran.rounds if ran.rounds[size] > without.rounds[size]}
    assert max(without.widths, key=lambda size: without.widths[size]) in more
    assert len(more) < sum(width > WIDE for width in without.widths.values())


def test_every_case_ends_once_and_after_a_failure_in_spare_time_the_others_too(monkeypatch):
    broken: list[str] = []
    honest = scheduler.grant_rounds

    def breaks(case_run, spare_ns):
        def half_rounds():
            raise CaseError("error", "planted")

        if not broken:
            broken.append(case_run.case.key)
            monkeypatch.setattr(case_run, "half_rounds", half_rounds)
        return honest(case_run, spare_ns)

    monkeypatch.setattr(scheduler, "grant_rounds", breaks)
    recorder = quick(monkeypatch).recorder
    assert [event.case for event in recorder.of(CaseFailed)] == broken != []
    ended = [event.case for event in recorder.of(CaseFinished, CaseFailed)]
    assert sorted(ended) == sorted(event.case for event in recorder.of(CaseStarted))


def test_what_waits_is_finished_where_a_later_size_needs_its_memory(monkeypatch):
    """The first try of the last size fails while another case waits for spare seconds."""
    refused: list[int] = []
    honest = SimulatedMachine.make_inputs

    def short(self, case):
        if case.size == 2048 and not refused:
            refused.append(case.size)
            raise CaseError("oom", "Needs 18 GB, 12 GB free.")
        return honest(self, case)

    monkeypatch.setattr(SimulatedMachine, "make_inputs", short)
    ran = quick(monkeypatch)
    assert refused == [2048]
    assert not ran.recorder.of(CaseFailed)
    assert 2048 in ran.rounds


def test_a_stop_in_spare_time_keeps_all_cases(monkeypatch):
    control = Control()
    plan = build_plan(PlanRequest(("quick",), simulation=NOISY))
    honest = scheduler.grant_rounds

    def stops(case_run, spare_ns):
        control.obey("stop")
        return honest(case_run, spare_ns)

    monkeypatch.setattr(scheduler, "grant_rounds", stops)
    recorder = Recorder()
    assert Scheduler(plan, SimulatedMachine(plan), recorder, control).run() == "stopped"
    assert len(recorder.of(CaseFinished)) == len(recorder.of(CaseStarted))


# ------------------------------------------------------------------ a survey


@pytest.fixture
def fake_time(monkeypatch):
    return faked(monkeypatch)


def surveyed_in(fake_time, limit_s, *names, slow=None, **more):
    """Run a survey of some workloads on a machine whose half-rounds, or those of a `slow` one, advance the clock."""
    only = names or ("matmul", "fft", "sort")
    plan = build_plan(PlanRequest(("survey",), only=only, simulation=replace(QUICK, launch_ns=400_000.0), **more))
    plan = replace(plan, search=replace(plan.search, limit_s=limit_s))
    recorder = TimingRecorder(fake_time)
    timed = TimedMachine(plan, recorder, fake_time, 0.1, slow)
    assert Scheduler(plan, timed, recorder, Control()).run() == "done"
    ended = RunFinished(status="done", wall_ns=int(fake_time.now_s * 1e9))
    return folded([*state_events(plan, recorder), ended]), recorder


def test_the_workloads_of_a_survey_share_its_time_and_each_has_an_answer(fake_time):
    state, recorder = surveyed_in(fake_time, limit_s=12)
    assert fake_time.now_s == pytest.approx(12, abs=0.2)  # without a limit it takes 33
    found = {answer.rows[0].case.workload: answer.report.resident for answer in answers(state)}
    assert set(found) == {"matmul", "fft", "sort"}
    assert {each.kind for each in found.values()} == {FROM}
    assert cut_short(state)
    first = [event.case for event in recorder.of(CaseStarted) if event.case.startswith("matmul")][:2]
    assert [case.split("/")[2] for case in first] == ["16", "2048"]


def test_time_that_others_left_goes_to_the_workload_that_was_cut_short(fake_time):
    state, recorder = surveyed_in(fake_time, limit_s=32)
    started = [event.case.split("/")[0] for event in recorder.of(CaseStarted)]
    assert [name for name, _ in groupby(started)][:3] == ["matmul", "fft", "sort"]
    assert started[::-1].index("matmul") < started[::-1].index("fft"), "its bracket was the widest"
    assert not recorder.of(CaseFailed)
    assert all(change.ratio <= 1.1 for answer in answers(state) for change in answer.report.resident.changes)


def test_first_sizes_that_a_share_was_too_short_for_come_last(fake_time):
    """A seventh of 13 s is too short for the seven first sizes of `matmul`, and the others need none of theirs."""
    names = ("matmul", "fft", "sort", "svd", "random", "knn", "solve")
    state, recorder = surveyed_in(fake_time, 13.0, *names, slow="matmul")
    started = [event.case.split("/")[0] for event in recorder.of(CaseStarted)]
    groups = [(name, len(list(cases))) for name, cases in groupby(started)]
    assert groups[0][0] == groups[-1][0] == "matmul"
    assert groups[0][1] < 7
    assert not recorder.of(CaseFailed)
    assert {row.status for row in state.rows.values()} == {"ok"}


def test_a_time_limit_of_the_run_is_shared_too(fake_time):
    state, _ = surveyed_in(fake_time, limit_s=1e6, max_seconds=12.0)
    assert fake_time.now_s == pytest.approx(12, abs=0.2)
    assert len(answers(state)) == 3
