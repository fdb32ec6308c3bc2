"""The state of a run, folded from events in any order, for any number of cases."""

import gc
import sys
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.runs.read_back import naive_factor
from tests.helpers.runs.recorder import QUICK, plan_of, state_of, swept

from cpugpu_tui import model
from cpugpu_tui.render.answers import answer_lines, answers
from cpugpu_tui.state.state import HISTORY, RunState, TelemetryState
from cpugpu_tui.state.value import Value
from cpugpu_tui.telemetry.sampler import aged

CASES = (model.Case("matmul", 16), model.Case("matmul", 32))
KEY = CASES[0].key
PLAN = model.Plan("test", CASES)
STARTED = model.RunStarted(run_id="r", series_id="s", plan=PLAN, environment={})
FOUND = model.DevicesFound(devices=(model.Device("cpu", "Xeon"), model.Device("cuda:0", "H200")))


def fold(*events, state=None):
    state = state or RunState()
    for event in events:
        state = state.apply(event)
    return state


def timed(device, round_index, *latency_ns, case=KEY, **more):
    samples = more.pop("samples", {model.LATENCY: latency_ns})
    return model.DeviceSampled(
        case=case, device=device, round_index=round_index, calls_per_block=1, samples=samples, **more
    )


# ------------------------------------------------------------------ a run's life


def test_a_run_goes_from_idle_over_running_to_its_end():
    assert RunState().status == "idle"
    state = fold(STARTED, FOUND)
    assert (state.status, state.settled, [row.status for row in state.rows.values()]) == ("running", 0, ["pending"] * 2)
    assert state.gpu == FOUND.devices[1]
    state = fold(model.CaseStarted(case=KEY), model.Progressed(case=KEY, device="cpu", phase="warm-up"), state=state)
    assert state.rows[KEY].status == "active"
    assert state.current is not None
    state = fold(model.CaseFinished(case=KEY), model.RunFinished(status="stopped"), state=state)
    assert (state.status, state.settled, state.current) == ("stopped", 1, None)


def test_times_speedup_and_answer_come_with_the_rounds():
    plan = plan_of(16, 256, 2048, simulation=replace(QUICK, cpu_overhead_ns=50_000.0))
    state = state_of(plan, swept(plan)[1])
    assert [row.status for row in state.rows.values()] == ["ok"] * 3
    assert state.threads == 2
    assert state.simulated
    assert "(256–2,048)" in answer_lines(state)[0]
    row = state.rows[plan.cases[2].key]
    assert row.check is not None
    assert row.own_comparison.speedup == pytest.approx(row.cpu.latency_ns / row.gpu.latency_ns, rel=0.02)


def test_what_a_dead_agent_had_said_of_a_case_is_void():
    """The next agent starts the cases again that were active when the agent died."""
    state = fold(
        STARTED,
        model.CaseStarted(case=KEY),
        timed("cpu", 1, 5.0, marks=("odd",)),
        model.CaseStarted(case=KEY),
        timed("cpu", 1, 7.0),
    )
    times = state.rows[KEY].cpu
    assert (times.latency_ns, times.marks) == (7.0, ())


def test_a_skipped_case_is_settled_but_has_not_failed():
    one, other = (case.key for case in CASES)
    skipped, failed = (
        model.CaseFailed(case=one, kind="skipped", message=""),
        model.CaseFailed(case=other, kind="oom", message=""),
    )
    state = fold(STARTED, skipped, failed)
    assert (state.settled, state.failed) == (2, 1)
    assert [row.status for row in state.rows.values()] == ["skipped", "oom"]


def test_a_mismatch_has_no_speedup():
    halves = [timed(device, r, 5.0) for r in range(1, 9) for device in ("cpu", "cuda:0")]
    state = fold(STARTED, FOUND, *halves)
    assert state.rows[KEY].own_comparison is not None
    assert (
        fold(model.CaseFailed(case=KEY, kind="mismatch", message="Wrong."), state=state).rows[KEY].own_comparison
        is None
    )


def test_a_rounds_time_is_the_median_of_its_blocks_and_round_0_is_no_round():
    before = timed("cpu", 0, samples={"as_written": (1.0,), model.LATENCY: (2.0,)})
    times = fold(STARTED, before, timed("cpu", 1, 9.0, 1.0, 5.0), timed("cpu", 2)).rows[KEY].cpu
    assert times.round_ns == {1: 5.0}
    assert times.samples == {"as_written": (1.0,), model.LATENCY: (2.0, 9.0, 1.0, 5.0)}
    assert not times.timed_once


def test_how_far_the_publications_clock_was_off():
    once = timed("cuda:0", 0, samples={"as_written": (10.0,), "as_written_synced": (530.0,)})
    assert naive_factor(fold(STARTED, once).rows[KEY]) == 53.0
    assert naive_factor(fold(STARTED, timed("cuda:0", 1, 5.0)).rows[KEY]) is None
    assert naive_factor(fold(STARTED, timed("cpu", 1, 5.0)).rows[KEY]) is None


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (model.DevicesFound(devices=FOUND.devices[:1], no_gpu="No driver. Install one."), "No driver. Install one."),
        (model.DevicesFound(devices=FOUND.devices[:1]), "CPU only: the run did not include a GPU."),
        (FOUND, ""),
    ],
)
def test_without_a_gpu_the_answer_says_why(found, says):
    assert "".join(answer_lines(fold(STARTED, found))) == says


def test_events_of_a_case_that_is_not_in_the_plan_change_nothing():
    state = fold(STARTED)
    for event in (model.CaseStarted(case="?"), model.CaseFinished(case="?"), timed("cpu", 1, 5.0, case="?")):
        assert state.apply(event) is state


# ------------------------------------------------------------------ any order

KEYS = st.sampled_from([*(case.key for case in CASES), "unknown", ""])
DEVICES = st.sampled_from(["cpu", "cuda:0", "cuda:1", "?"])
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
SAMPLES = st.dictionaries(
    st.sampled_from([model.LATENCY, "device", "as_written", "as_written_synced", "?"]),
    st.lists(NUMBERS, max_size=3).map(tuple),
)
EVENTS = st.one_of(
    st.just(STARTED), st.just(FOUND), st.just(model.DevicesFound(devices=(), no_gpu="None.")),
    st.just(model.Gap(duration_ms=1.0)),
    st.builds(model.CaseStarted, case=KEYS),
    st.builds(model.CaseFinished, case=KEYS, check=st.none() | st.just(model.Check("cpu", 0.0, 1.0))),
    st.builds(model.CaseFailed, case=KEYS, kind=st.sampled_from(model.FAILURES), message=st.text(),
        device=st.none() | DEVICES),
    st.builds(
        model.Calibrated, case=KEYS, device=DEVICES, estimate_ns=NUMBERS, calls_per_block=st.integers(),
        blocks=st.integers(),
        rounds=st.integers(), threads=st.integers(0, 99), stable=st.booleans(),
    ),
    st.builds(
        model.DeviceSampled, case=KEYS, device=DEVICES, round_index=st.integers(-1, 40), calls_per_block=st.integers(),
        samples=SAMPLES, marks=st.lists(st.text(max_size=3), max_size=3).map(tuple),
    ),
    st.builds(model.Progressed, case=KEYS, device=DEVICES, phase=st.text()),
    st.builds(model.RunFinished, status=st.sampled_from(["done", "stopped", "failed"])),
)  # fmt: skip


@given(st.lists(EVENTS, max_size=30))
def test_no_order_of_events_breaks_what_is_shown(events):
    state = fold(STARTED, *events)
    assert [row.case for row in state.rows.values()] == list(CASES)
    assert state.settled == sum(row.status not in ("pending", "active") for row in state.rows.values())
    assert 0 <= state.failed <= len(CASES)
    assert all(answer_lines(state))
    for row in state.rows.values():
        shown = (row.own_comparison, naive_factor(row), row.marks, row.cpu and row.cpu.latency_ns, row.gpu)
        assert len(shown) == 5


def test_applying_an_event_leaves_the_state_before_it_alone():
    before = fold(STARTED, FOUND)
    rows = dict(before.rows)
    fold(model.CaseStarted(case=KEY), timed("cpu", 1, 5.0), model.CaseFinished(case=KEY), state=before)
    assert dict(before.rows) == rows
    assert before.settled == 0


# ------------------------------------------------------------------ 10,000 cases


def calls_of(state, event):
    """Count the Python functions that one `apply` calls: a measure of work that does not depend on load."""
    calls: Counter[str] = Counter()

    def note(frame, what, _argument):
        if what == "call":
            calls[frame.f_code.co_qualname] += 1

    gc.disable()  # a collection calls what hypothesis hangs on it
    sys.setprofile(note)
    try:
        state.apply(event)
    finally:
        sys.setprofile(None)
        gc.enable()
    return calls


def large_state(count):
    plan = replace(PLAN, cases=tuple(model.Case("matmul", size) for size in range(1, count + 1)))
    state = fold(replace(STARTED, plan=plan), FOUND)
    return fold(*(timed(device, 1, 5.0, 6.0) for device in ("cpu", "cuda:0")), state=state)


@pytest.mark.parametrize(
    "event",
    [
        model.CaseStarted(case=KEY), timed("cpu", 2, 5.0, 6.0), model.CaseFinished(case=KEY),
        model.Gap(duration_ms=1.0),
        model.CaseFailed(case=KEY, kind="oom", message=""), model.Progressed(case=KEY, device="cpu", phase="round"),
        model.RunFinished(status="done"),
    ],
    ids=lambda event: type(event).__name__,
)  # fmt: skip
def test_10_000_cases_cost_an_event_no_more_work_than_two(event):
    large_state(20).apply(event)  # keys that rows share are made once
    assert calls_of(large_state(10_000), event) == calls_of(large_state(20), event)


def test_the_other_9_999_rows_keep_what_they_had_computed():
    before = large_state(10_000)
    after = before.apply(timed("cpu", 2, 5.0))
    assert [key for key, row in after.rows.items() if row is not before.rows[key]] == [KEY]


# ------------------------------------------------------------------ telemetry


def reading(value, second=1):
    gpu = model.GpuTelemetry(0, "GPU-1", "H200", None, {"power_mw": model.Reading(value, None if value else "timeout")})
    return model.TelemetryRead(gpus=(gpu,), host={"cpu_pct": model.Reading(50.0)}, mono_ns=second * 10**9)


def test_trends_are_bounded_and_a_missing_number_is_a_hole_not_a_zero():
    state = TelemetryState()
    for second, value in enumerate([*range(1, HISTORY + 10), None]):
        state = state.apply(reading(value, second))
    trend = state.history["gpu0/power_mw"]
    assert len(trend) == HISTORY
    assert trend[-1] is None
    assert trend[-2] == HISTORY + 9
    assert state.history["host/cpu_pct"] == (50.0,) * HISTORY


def test_while_the_driver_hangs_nothing_is_drawn_that_was_not_measured():
    """The last numbers stay and grow older. The history has a gap for each missing answer."""
    first = reading(5.0, 1)
    hung = [replace(reading(0.0, s), gpus=aged(first.gpus, s - 1.0), problem="no answer") for s in (2, 3, 4)]
    state = TelemetryState()
    for event in (first, *hung, reading(7.0, 5)):
        state = state.apply(event)
    assert state.history["gpu0/power_mw"] == (5.0, None, None, None, 7.0)
    assert state.history["host/cpu_pct"] == (50.0,) * 5, "the host was read"


def test_a_gpu_that_hangs_leaves_the_others_histories_whole():
    first = reading(5.0).gpus[0]
    state = TelemetryState().apply(model.TelemetryRead(gpus=(first, replace(first, index=1)), mono_ns=10**9))
    state = state.apply(model.TelemetryRead(gpus=(*aged((first,), 1.0), replace(first, index=1)), mono_ns=2 * 10**9))
    assert (state.history["gpu0/power_mw"], state.history["gpu1/power_mw"]) == ((5.0, None), (5.0, 5.0))


def test_what_is_read_every_five_seconds_fills_the_time_between_but_no_longer():
    """During a run slow values are not read for minutes. These are gaps, although the GPU answers."""
    gpu = reading(5.0).gpus[0]
    state = TelemetryState()
    for second in range(20):
        slow = {**gpu.readings, "fan_pct": model.Reading(30.0, None, float(second))}
        state = state.apply(model.TelemetryRead(gpus=(replace(gpu, readings=slow),), mono_ns=(second + 1) * 10**9))
    assert state.history["gpu0/fan_pct"] == (30.0,) * 13 + (None,) * 7
    assert None not in state.history["gpu0/power_mw"]


# ------------------------------------------------------------------ answers


def test_each_sweep_of_a_run_has_an_answer_of_its_own():
    """Sorting matmul and vector-dot together by size would suggest a crossover."""
    cases = (model.Case("matmul", 16), model.Case("vector-dot", 20, variant="dot"))
    state = fold(model.RunStarted(run_id="r", series_id="s", plan=model.Plan("p", cases), environment={}), FOUND)
    for case, cpu_ns in zip(cases, (1e6, 1e3), strict=True):
        for index in range(1, 6):
            wobble = 1 + index / 1000
            state = fold(
                timed("cpu", index, cpu_ns * wobble, case=case.key),
                timed("cuda:0", index, 1e5, case=case.key),
                state=state,
            )
        state = fold(model.CaseFinished(case=case.key), state=state)
    assert [answer.name for answer in answers(state)] == ["matmul", "vector-dot dot"]
    first, second = answer_lines(state)
    assert first.startswith("matmul: ")
    assert "10.0× faster" in first
    assert second.startswith("vector-dot dot: ")
    assert "99.5–99.9× slower" in second


def test_what_was_stopped_half_way_is_no_part_of_the_answer():
    state = fold(STARTED, FOUND)
    for index in range(1, 6):
        state = fold(timed("cpu", index, 1e6 + index), timed("cuda:0", index, 1e5), state=state)
    assert answers(fold(model.CaseFinished(case=KEY), state=state))
    assert not answers(fold(model.CaseFailed(case=KEY, kind="skipped", message="Stopped."), state=state))


class Point(Value):
    x: int
    y: int = 2


def test_a_value_is_a_frozen_set_of_fields():
    """As a named tuple or a frozen dataclass is, which Python makes more slowly."""
    point = Point(1)
    assert (point.x, point.y) == (1, 2)
    assert point == Point(1, 2) == Point(x=0)._replace(x=1) != Point(1, 3)
    assert len({point, Point(1, 2)}) == 1
    assert repr(point) == "Point(1, 2)"
    with pytest.raises(AttributeError, match="x"):
        point.x = 3
    for fields, named in (((), {}), ((1, 2, 3), {}), ((1,), {"z": 0})):
        with pytest.raises(TypeError, match="Point"):
            Point(*fields, **named)
