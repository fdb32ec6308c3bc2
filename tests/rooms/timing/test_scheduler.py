"""Scheduler: interleaved rounds, early first results, gaps, half-rounds without output, early ends."""

from dataclasses import replace
from itertools import groupby, pairwise
from typing import Any

import pytest
from tests.helpers.runs.fake_time import TimedMachine, TimingRecorder, faked
from tests.helpers.runs.recorder import QUICK, Call, Flush, Recorder, SpiedMachine, plan_of, state_of, swept

from cpugpu_tui import model
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.timing.case_run import CaseRun
from cpugpu_tui.timing.channel import Control
from cpugpu_tui.timing.scheduler import GAP_MS, Scheduler
from cpugpu_tui.timing.timers import CaseError

SIZES = (16, 32, 64, 128, 256, 512, 1024, 2048)


@pytest.fixture(scope="module")
def quick():
    """Eight cases of eight rounds, all well."""
    return swept(plan_of(*SIZES, max_rounds=8))[1]


# ------------------------------------------------------------------ interleaving


def test_every_case_has_its_rounds_on_both_devices(quick):
    for case in {event.case for event in quick.rounds}:
        for device in ("cpu", "cuda:0"):
            rounds = [e.round_index for e in quick.rounds if (e.case, e.device) == (case, device)]
            assert rounds == list(range(1, 9))


def test_the_halves_of_a_round_are_neighbours(quick):
    for one, other in zip(quick.rounds[::2], quick.rounds[1::2], strict=True):
        assert (one.case, one.round_index) == (other.case, other.round_index)
        assert {one.device, other.device} == {"cpu", "cuda:0"}


def test_the_order_of_the_devices_flips_every_round(quick):
    for first in quick.rounds[::2]:
        assert first.device == ("cpu" if first.round_index % 2 else "cuda:0")


def active_at_each_round(recorder):
    """Yield, for every half-round, the number of active cases."""
    active: set[str] = set()
    for event in recorder.events:
        if isinstance(event, model.CaseStarted):
            active.add(event.case)
        elif isinstance(event, model.CaseFinished):
            active.discard(event.case)
        elif isinstance(event, model.DeviceSampled) and event.round_index > 0:
            yield len(active)


def test_rounds_are_spread_over_a_window_of_four_cases(quick):
    active = list(active_at_each_round(quick))
    assert max(active) == 4
    # Between filling and emptying of the window, three or four cases are interleaved.
    middle = active[len(active) // 4 : -len(active) // 4]
    assert min(middle) >= 3
    spans = [
        [index for index, event in enumerate(quick.rounds) if event.case == case.key] for case in plan_of(*SIZES).cases
    ]
    assert all(last - first > 2 * 16 for first, *_, last in spans[2:-3])


def test_cases_finish_one_by_one_and_not_in_batches(quick):
    """A case ends every other pass over four cases: every 16 half-rounds."""
    order = [event for event in quick.events if event in quick.rounds or isinstance(event, model.CaseFinished)]
    ends = [index for index, event in enumerate(order) if isinstance(event, model.CaseFinished)]
    assert max(later - earlier for earlier, later in pairwise(ends)) <= 18
    assert min(later - earlier for earlier, later in pairwise(ends)) >= 4


@pytest.mark.parametrize(("call_ns", "least"), [(0.9e9, 5), (2.4e9, 3), (9e9, 1)])
def test_no_device_gets_rounds_for_which_the_slower_one_has_no_time(call_ns, least):
    """They have no partner. A call within the time limit gets the three rounds that a winner needs."""
    recorder = swept(plan_of(64, simulation=replace(QUICK, cpu_overhead_ns=call_ns)))[1]
    rounds = {device: len([e for e in recorder.rounds if e.device == device]) for device in ("cpu", "cuda:0")}
    assert rounds == {"cpu": least, "cuda:0": least}


# ------------------------------------------------------------------ quiet while timing


def test_nothing_is_written_between_the_start_and_the_end_of_a_half_round(quick):
    """Only timed work happens between the flushed announcement and the result."""
    for event in quick.rounds:
        end = quick.log.index(event)
        said = [i for i, e in enumerate(quick.log[:end]) if isinstance(e, model.Progressed) and e.phase == "round"]
        start = said[-1]
        assert quick.log[start + 1] == Flush()
        timed = quick.log[start + 2 : end]
        assert timed
        assert all(isinstance(entry, Call) and entry.device == event.device for entry in timed)


def test_every_result_is_written_before_the_next_half_round_begins(quick):
    """A killed agent loses one half-round, not a buffer of many."""
    for event in quick.rounds:
        after = quick.log[quick.log.index(event) + 1 :]
        kinds = [kind for kind, _ in groupby(after, key=type)]
        assert kinds.index(Flush) < kinds.index(Call) if Call in kinds else Flush in kinds


# ------------------------------------------------------------------ gaps


@pytest.fixture
def fake_time(monkeypatch):
    return faked(monkeypatch)


def swept_in(time, plan, half_round_s):
    recorder = TimingRecorder(time)
    Scheduler(plan, TimedMachine(plan, recorder, time, half_round_s), recorder, Control()).run()
    return recorder


def test_a_gap_comes_at_least_once_a_second(fake_time):
    recorder = swept_in(fake_time, plan_of(*SIZES, gaps=True), 0.1)
    at_s = [recorder.when_s[gap.seq] for gap in recorder.of(model.Gap)]
    assert at_s[0] == 0.0
    apart_s = [later - earlier for earlier, later in pairwise(at_s)]
    assert max(apart_s) <= 1.0 + GAP_MS / 1000
    assert min(apart_s) >= 0.9
    assert fake_time.now_s - at_s[-1] < 1.0


def test_a_gap_lies_between_half_rounds_and_is_written_out_before_it_begins(fake_time):
    log = swept_in(fake_time, plan_of(64, 128, gaps=True), 0.5).log
    gaps = [index for index, entry in enumerate(log) if isinstance(entry, model.Gap)]
    assert len(gaps) > 10
    for index in gaps:
        before = log[index - 1]
        assert before.phase == "gap"
        assert log[index + 1] == Flush()


# ------------------------------------------------------------------ early ends


class StoppingRecorder(Recorder):
    """Requests a stop after so many events of a kind."""

    def __init__(self, control, kind, times):
        super().__init__()
        self._control, self._kind, self._times = control, kind, times

    def __call__(self, event):
        super().__call__(event)
        self._times -= isinstance(event, self._kind)
        if self._times == 0:
            self._control.obey("stop")


def stopped_after(kind, times, plan):
    control = Control()
    recorder = StoppingRecorder(control, kind, times)
    return Scheduler(plan, SpiedMachine(plan, recorder), recorder, control).run(), recorder


def test_a_stop_keeps_what_is_finished_and_skips_the_rest(words):
    plan = plan_of(*SIZES)
    status, recorder = stopped_after(model.CaseFinished, 2, plan)
    assert status == "stopped"
    state = state_of(plan, recorder)
    statuses = [row.status for row in state.rows.values()]
    assert (state.settled, state.failed) == (len(SIZES), 0)
    assert (statuses[:2], set(statuses[-3:])) == (["ok", "ok"], {"skipped"})
    failures = recorder.of(model.CaseFailed)
    assert {event.kind for event in failures} == {"skipped"}
    words(list({event.message for event in failures}))


def test_a_stop_within_a_first_round_is_obeyed_after_the_half():
    status, recorder = stopped_after(model.DeviceSampled, 3, plan_of(64, 128))  # two are taken before the rounds
    assert status == "stopped"
    assert len(recorder.rounds) == 1
    assert [event.kind for event in recorder.of(model.CaseFailed)] == ["skipped", "skipped"]


def test_a_case_with_a_complete_round_keeps_its_times():
    plan = plan_of(64, 128)
    _, recorder = stopped_after(model.DeviceSampled, 5, plan)  # two once, two of round 1, one of round 2
    row = next(iter(state_of(plan, recorder).rows.values()))
    assert (row.status, row.own_comparison.rounds) == ("ok", 1)


def test_when_time_is_up_the_rest_is_skipped_and_the_run_is_done(fake_time, words):
    plan = plan_of(*SIZES, max_seconds=12.0)
    recorder = TimingRecorder(fake_time)
    status = Scheduler(plan, TimedMachine(plan, recorder, fake_time, 0.5), recorder, Control()).run()
    assert status == "done"
    assert 12.0 <= fake_time.now_s <= 13.0
    failures = recorder.of(model.CaseFailed)
    assert {event.kind for event in failures} == {"skipped"}
    words(list({event.message for event in failures}))
    assert 1 <= len(failures) < len(SIZES)
    assert state_of(plan, recorder).settled == len(SIZES)


def test_a_pause_stops_between_half_rounds_and_goes_on_where_it_was(monkeypatch):
    control, recorder = Control(), Recorder()
    plan = plan_of(64, max_rounds=8)
    waited_after: list[Any] = []

    def wait_while_paused():
        waited_after.append(recorder.log[-1])
        control.obey("resume")

    monkeypatch.setattr(control, "wait_while_paused", wait_while_paused)
    control.obey("pause")
    assert Scheduler(plan, SpiedMachine(plan, recorder), recorder, control).run() == "done"
    assert waited_after == [Flush()]
    assert len(recorder.rounds) == 16


# ------------------------------------------------------------------ failures


def test_a_fatal_failure_is_told_before_the_process_is_given_up():
    """After a sticky CUDA error the case is reported and flushed, and the process is not used any more."""
    plan, recorder = plan_of(64, 128), Recorder()
    machine = SpiedMachine(plan, recorder)

    def lost(*arguments):
        raise CaseError("error", "The GPU is lost.", fatal=True)

    machine.timer("cuda:0").device_samples = lost  # type: ignore[method-assign]
    with pytest.raises(CaseError, match="lost"):
        Scheduler(plan, machine, recorder, Control()).run()
    assert isinstance(recorder.log[-2], model.CaseFailed)
    assert recorder.log[-1] == Flush()
    assert not [event for event in recorder.events if getattr(event, "case", "") == plan.cases[1].key]


def test_any_exception_of_a_workload_is_its_own_rows_failure():
    plan, recorder = plan_of(32, 64, 128), Recorder()
    machine = SpiedMachine(plan, recorder)
    honest = machine.timer("cpu").latency_block

    def sometimes(op, calls):
        if op.case.size == 64 and recorder.rounds:
            raise ZeroDivisionError("no")
        return honest(op, calls)

    machine.timer("cpu").latency_block = sometimes  # type: ignore[method-assign]
    assert Scheduler(plan, machine, recorder, Control()).run() == "done"
    assert [row.status for row in state_of(plan, recorder).rows.values()] == ["ok", "error", "ok"]
    (failure,) = recorder.of(model.CaseFailed)
    assert "ZeroDivisionError: no" in failure.message


def test_a_failure_at_the_end_of_a_case_is_its_row(monkeypatch):
    """The driver stops answering in the last reading of the first case; the other case continues."""
    plan = plan_of(16, 32)
    honest = CaseRun.finish

    def finish(case_run):
        if case_run.case == plan.cases[0]:
            raise RuntimeError("no answer")
        honest(case_run)

    monkeypatch.setattr(CaseRun, "finish", finish)
    status, recorder = swept(plan)
    assert status == "done"
    (failed,) = recorder.of(model.CaseFailed)
    assert (failed.case, failed.kind) == (plan.cases[0].key, "error")
    assert "no answer" in failed.message
    assert [event.case for event in recorder.of(model.CaseFinished)] == [plan.cases[1].key]


def test_a_plan_without_cases_is_done():
    status, recorder = swept(plan_of())
    assert (status, recorder.events) == ("done", [])


def test_in_a_long_sweep_every_tenth_case_is_checked():
    """Results are compared only at some sizes, because a float64 product takes time (method.md, step 2)."""
    plan = plan_of(*range(1, 34), simulation=model.Simulation(cpu_overhead_ns=2e7, launch_ns=2e7, first_call_ns=0.0))
    checked = [event.check is not None for event in swept(plan)[1].of(model.CaseFinished)]
    assert [index for index, was in enumerate(checked) if was] == [0, 10, 20, 30, 32]
    assert all(event.check is not None for event in swept(plan_of(16, 32))[1].of(model.CaseFinished))


def test_sizes_that_a_long_search_adds_are_not_compared_with_a_reference():
    """All of them were if it began with a multiple of ten sizes, and none otherwise."""
    names = ("matmul", "attention", "solve", "cholesky")
    plan = build_plan(PlanRequest(("survey",), only=names, simulation=model.Simulation(noise=0.002)))
    assert len(plan.cases) == 30
    recorder = swept(plan)[1]
    chosen = {case.key for event in recorder.of(model.CasesChosen) for case in event.cases}
    checked = {event.case for event in recorder.of(model.CaseFinished) if event.check is not None}
    assert chosen
    assert checked
    assert not chosen & checked


def test_in_a_long_plan_the_first_case_of_each_workload_is_checked():
    names = ("conv2d", "softmax", "fft", "sort", "solve", "svd", "knn", "random", "cholesky", "embedding", "layernorm")
    plan = replace(plan_of(), cases=tuple(model.Case(name, size) for name in names for size in (16, 32)))
    checked = {event.case: event.check for event in swept(plan)[1].of(model.CaseFinished)}
    assert len(checked) == len(plan.cases) > 20
    assert all(checked[model.Case(name, 16).key] is not None for name in names)
