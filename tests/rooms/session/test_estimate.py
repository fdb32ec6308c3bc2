"""Estimates of a plan's time and memory before it starts, and their sources."""

import json
from dataclasses import replace

import pytest
from tests.helpers.app.saved_runs import stream

from cpugpu_tui.model import Case, Ceilings, Device, Plan, Simulation
from cpugpu_tui.model.event import to_plain
from cpugpu_tui.session import estimate as estimate_module
from cpugpu_tui.session import planning
from cpugpu_tui.session.estimate import (
    LEAST_CASE,
    MOST_PLAN,
    NOTHING_EARLIER,
    devices_of,
    earlier_of,
    estimate,
    likeness,
)
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.store import reading as timed_module
from cpugpu_tui.store.reading import TimedRun
from cpugpu_tui.timing.warm_up import least_device_ns
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.panes.workload import estimate_of, plan_of
from cpugpu_tui.ui.screens.workload_form import request_from, texts_of

CPU = Device("cpu", "Xeon 8480", memory_bytes=256 << 30)
GPU = Device("cuda:0", "NVIDIA H200", "GPU-1", 140 << 30)
PLAN = build_plan(PlanRequest(("matmul",), sizes="64,256,1024"))


def card(device, label, flops, **changes):
    card = Ceilings(
        device, label, None, "box", "2.11", 0, 16, {"float32": flops}, {"float32": 4096}, 200e9, 1 << 28, 2_000.0
    )  # fmt: skip
    return replace(card, **changes)  # type: ignore[arg-type]


CARDS = (card("cpu", "Xeon 8480", 1e12), card("cuda:0", "NVIDIA H200", 50e12, launch_ns=5_000.0))


def timed(number, plan=PLAN, seconds=42.0, call_ns=1e6):
    calls = {(case.key, device.name): (device.label, call_ns) for case in plan.cases for device in (CPU, GPU)}
    duration_ns = None if seconds is None else int(seconds * 1e9)
    return TimedRun(number, 0, duration_ns, json.dumps(to_plain(plan)), calls)


def test_an_earlier_run_of_the_same_plan_tells_the_time_as_it_was(words):
    found = estimate(replace(PLAN, gaps=True), 1, (CPU, GPU), earlier_of([timed(12), timed(9, seconds=40)]), ())
    assert found.seconds == 40, "a pause is part of the longer one"
    assert not found.is_least
    words(found.source)


def test_several_runs_take_several_times_as_long():
    assert estimate(PLAN, 5, (CPU, GPU), earlier_of([timed(12)]), ()).seconds == 210


@pytest.mark.parametrize(
    "change",
    [{"rounds": 30}, {"scale": "small"}, {"devices": ("cpu",)}, {"budget_s": 1.0}, {"simulation": Simulation()}],
    ids=str,
)
def test_a_run_of_another_plan_is_not_taken_for_this_one(change):
    other = replace(PLAN, **change)  # type: ignore[arg-type]
    assert likeness(to_plain(other)) != likeness(to_plain(PLAN))
    assert estimate(PLAN, 1, (CPU, GPU), earlier_of([timed(12, other)]), ()).is_least


def test_calls_of_other_runs_tell_the_least_time(words):
    """A stopped run has no time for the whole plan, but times of calls."""
    found = estimate(
        PLAN, 1, (CPU, GPU), earlier_of([timed(12, seconds=None), timed(9, seconds=None, call_ns=9e9)]), ()
    )
    assert found.is_least
    assert found.seconds == pytest.approx(6 * least_device_ns(1e6, PLAN) / 1e9)
    assert found.most_seconds == pytest.approx(6 * (0.001 + 3.0 + 5.0)), "call, longest warm-up, budget of 5 s"
    words(found.source)


def test_without_any_run_the_machine_card_tells_it_from_flops_and_bytes(words):
    found = estimate(PLAN, 1, (CPU, GPU), NOTHING_EARLIER, CARDS)
    assert found.is_least
    words(found.source)
    large = estimate(build_plan(PlanRequest(("matmul",), sizes="30000")), 1, (CPU,), NOTHING_EARLIER, CARDS)
    assert large.seconds > 2 * 30_000**3 / 1e12, "54 TFLOP at 1 TFLOP/s"
    assert (found.most_seconds is None, large.most_seconds) == (False, None), "a peak rate bounds no long call"


def test_launches_count_where_they_take_most_of_a_call():
    """A Jacobian row by row launches 4.4 million kernels at batch 1,000; FLOPs told 3 minutes of 15."""
    plan = build_plan(PlanRequest(("jacobian",), sizes="1000", variant="loop"))
    found = estimate(plan, 1, (CPU, GPU), NOTHING_EARLIER, CARDS)
    assert found.seconds > 2 * 11 * 400_000 * (2e-6 + 5e-6), "of CPU and GPU, at least two calls of each"
    assert found.most_seconds is None


def test_a_time_from_both_sources_names_both(words):
    one = build_plan(PlanRequest(("matmul",), sizes="64"))
    found = estimate(PLAN, 1, (CPU, GPU), earlier_of([timed(3, one)]), CARDS)
    words(found.source)


def test_an_unknown_time_says_why(words):
    nothing = estimate(PLAN, 1, (CPU, GPU), NOTHING_EARLIER, CARDS[:1])
    assert nothing.seconds is None
    words(nothing.source)
    unasked = estimate(PLAN, 1, (), NOTHING_EARLIER, CARDS)
    assert unasked.seconds is None
    words(unasked.source)


def test_a_search_has_no_upper_bound(words):
    plan = build_plan(PlanRequest(("quick",)))
    found = estimate(plan, 1, (CPU, GPU), earlier_of([timed(12, plan, seconds=None)]), ())
    assert found.seconds is not None
    assert found.most_seconds is None
    words(found.source)


def test_another_device_of_the_same_number_is_another_device():
    other = Device("cuda:0", "NVIDIA A100", "GPU-2")
    assert estimate(PLAN, 1, (CPU, other), earlier_of([timed(12, seconds=None)]), CARDS).seconds is None


def test_made_up_times_are_not_estimated_from_what_they_pretend():
    plan = replace(PLAN, simulation=Simulation())
    assert estimate(plan, 1, (CPU, GPU), earlier_of([timed(12, seconds=None)]), CARDS).seconds is None


def test_a_limit_that_was_asked_for_is_the_most():
    plan = replace(PLAN, max_seconds=0.5)
    assert estimate(plan, 1, (CPU, GPU), earlier_of([timed(12, seconds=None)]), ()).seconds == 0.5


def test_a_survey_takes_at_most_its_time():
    plan = build_plan(PlanRequest(("survey",), only=("matmul",)))
    assert plan.search.limit_s is not None
    found = estimate(plan, 1, (CPU, GPU), NOTHING_EARLIER, CARDS)
    assert found.most_seconds == plan.search.limit_s
    assert found.seconds < found.most_seconds


def test_threads_of_another_number_have_no_rate_on_the_card():
    plan = build_plan(PlanRequest(("matmul",), sizes="64", threads="1"))
    assert estimate(plan, 1, (CPU,), NOTHING_EARLIER, CARDS).seconds is None


def test_the_memory_is_that_of_the_largest_case():
    found = estimate(PLAN, 1, (), NOTHING_EARLIER, ())
    assert (found.memory_bytes, found.memory_case) == (3 * 1024**2 * 4, Case("matmul", 1024))


def test_only_the_agent_knows_a_workload_of_ones_own(words):
    plan = Plan("gelu", (Case("gelu", 10),))
    found = estimate(plan, 1, (CPU,), NOTHING_EARLIER, CARDS)
    assert (found.memory_bytes, found.memory_case, found.seconds) == (None, None, None)
    words(found.source)


def test_auto_is_the_cpu_and_the_first_gpu_of_those_reported():
    second = Device("cuda:1", "NVIDIA H200", "GPU-2")
    assert devices_of(replace(PLAN, devices=("auto",)), (CPU, GPU, second)) == (CPU, GPU)
    assert devices_of(replace(PLAN, devices=("auto",)), (CPU,)) == (CPU,)
    assert devices_of(replace(PLAN, devices=("cuda:1",)), (CPU, GPU, second)) == (second,)
    assert devices_of(replace(PLAN, devices=("cuda:7",)), (CPU, GPU)) is None


def test_the_history_tells_it(store):
    store.import_run(stream("whole", PLAN))
    (run,) = store.timed_runs("box", simulated=False, limit=10)
    assert run.duration_ns == 42 * 10**9
    assert run.call_ns[PLAN.cases[0].key, "cuda:0"] == ("NVIDIA H200", 20_026.2144)
    assert estimate(PLAN, 1, (), earlier_of([run]), ()).seconds == 42
    assert store.timed_runs("another", simulated=False, limit=10) == []
    assert store.timed_runs("box", simulated=True, limit=10) == []


def test_of_a_run_that_was_stopped_only_its_calls_count(store):
    store.import_run(stream("half", PLAN, status="stopped"))
    store.import_run(stream("broken", PLAN, status="failed"))
    (run,) = store.timed_runs("box", simulated=False, limit=10)
    assert run.duration_ns is None
    assert len(run.call_ns) == 6


def test_a_history_of_large_sweeps_is_not_read_to_its_end(store, monkeypatch):
    monkeypatch.setattr(timed_module, "MOST_CALLS", 6)
    for number in range(4):
        store.import_run(stream(f"r{number}", PLAN))
    assert [run.number for run in store.timed_runs("box", simulated=False, limit=10)] == [4, 3]


def test_of_many_cases_a_key_plans_once_and_is_not_compared_with_what_is_never_kept(monkeypatch):
    """A key of the form took 141 ms with 9,000 cases."""
    built, alike = [], []
    base = PlanRequest(("matmul",))
    texts = texts_of(base)
    monkeypatch.setattr(planning, "build_plan", lambda request: built.append(request) or build_plan(request))
    monkeypatch.setattr(estimate_module, "_likeness_of", lambda plan: alike.append(plan) or "")
    for sizes, compared in (("1:9000:1", 0), ("1:3000:1", 1)):
        request = request_from({**texts, "sizes": sizes}, base)
        estimate_of(AppState(request=base), plan_of(request), request.repeat)
        assert len(alike) == compared
    assert [request.sizes for request in built] == ["1:9000:1", "1:3000:1"]


def test_a_plan_that_is_not_compared_is_never_kept():
    count = MOST_PLAN // LEAST_CASE + 1
    plan = build_plan(PlanRequest(("matmul",), sizes=f"1:{count + 1}:1"))
    assert not earlier_of([timed(12, plan)]).runs
