"""Every result carries the machine it was made on: each value, or its reason (issue 5, point 2)."""

import re
from dataclasses import replace

import pytest
from tests.helpers.command_line import FAST
from tests.helpers.runs.recorder import QUICK, plan_of, state_of, swept

from cpugpu_tui import model
from cpugpu_tui.machine.device_state import BY_CASE, BY_COUNTER, BY_MASK, Throttle
from cpugpu_tui.state.condition import condition
from cpugpu_tui.state.folding import folded
from cpugpu_tui.state.state import RunState

PLAN = plan_of(64)
CASE = PLAN.cases[0]
PLANTED = replace(
    QUICK, noise=0.0, sm_clock_mhz=1980.0, temperature_c=41.0, gpu_busy_w=620.0, gpu_idle_w=120.0, neighbour_pid=99999
)


def half(index, *marks, **more):
    return model.DeviceSampled(
        case=CASE.key, device="cuda:0", round_index=index, calls_per_block=1, samples={model.LATENCY: (1e6 + index,)},
        marks=marks, **more,
    )  # fmt: skip


def edge(name, elapsed_ns=0.0, processes=(), **values):
    readings = {key: model.Reading(value) for key, value in values.items()}
    return model.MachineRead(
        case=CASE.key, device="cuda:0", edge=name, readings=readings, processes=processes, elapsed_ns=elapsed_ns
    )


def run_of(*events):
    started = model.RunStarted(run_id="r", series_id="s", plan=PLAN, environment={})
    return folded([started, model.CaseStarted(case=CASE.key, flops=2e9), *events])


def condition_of(*events):
    run = run_of(*events)
    row = run.rows[CASE.key]
    return condition(run, row, row.gpu)


# ------------------------------------------------------------------ clock and throttling


def test_the_clock_is_the_median_of_both_edges_of_all_half_rounds():
    found = condition_of(*(half(k, sm_clock_mhz=1980.0, sm_clock_end_mhz=1575.0 if k > 1 else 1980.0) for k in (1, 2)))
    assert found.sm_clock_mhz == model.Reading(1980.0)


def test_shares_of_time_by_reason_are_exact_over_half_rounds_of_different_lengths():
    found = condition_of(
        half(1, watched_ns=1e9, throttled_ns={"power-capped": 1e9, "thermal": 0.0}),
        half(2, watched_ns=3e9, throttled_ns={"power-capped": 0.0, "thermal": 0.2e9}),
    )
    assert found.throttles == (Throttle("power-capped", 0.25, BY_COUNTER), Throttle("thermal", 0.05, BY_COUNTER))
    assert found.unthrottled_reason is None


def test_within_less_than_ten_steps_of_the_counters_they_say_nothing_and_the_mask_does():
    """An H200's counters advance in steps of 100 ms. One step in a half-round of 10 ms would read as 1000 %."""
    found = condition_of(
        half(1, "power-capped", watched_ns=10e6, throttled_ns={"power-capped": 100e6, "thermal": 100e6}),
        half(2, watched_ns=10e6, throttled_ns={"power-capped": 0.0, "thermal": 0.0}),
    )
    assert found.throttles == (Throttle("power-capped", 0.5, BY_MASK),)


def test_what_is_counted_dearly_is_counted_over_the_case_and_says_so():
    found = condition_of(
        edge("begin", throttled_hw_thermal_ns=15_814e9, throttled_power_brake_ns=3.0, throttled_power_cap_ns=1.0),
        half(1, watched_ns=10e6, throttled_ns={"power-capped": 0.0}),
        edge("end", 2e9, throttled_hw_thermal_ns=15_814e9 + 0.5e9, throttled_power_brake_ns=3.0,
             throttled_power_cap_ns=1e9),
    )  # fmt: skip
    assert found.throttles == (Throttle("hw-thermal", 0.25, BY_CASE),)
    assert found.throttles[0].severity == "alarming"


def test_where_nothing_is_counted_the_mask_stands_in_and_is_called_so():
    found = condition_of(*(half(k, *(["power-capped"] if k == 1 else []), sm_clock_mhz=1980.0) for k in (1, 2, 3, 4)))
    assert found.throttles == (Throttle("power-capped", 0.25, BY_MASK),)


# ------------------------------------------------------------------ power, energy, company


def test_half_rounds_shorter_than_the_sensor_give_a_reason_instead_of_a_power():
    known = edge("begin", energy_mj=5e9)
    assert condition_of(known, half(1)).watts == model.Reading(None, "window-too-short")
    assert condition_of(known, half(1, power_mw=6e5), half(2, power_mw=7e5)).watts == model.Reading(650.0)


def test_somebody_who_came_in_the_middle_marks_the_result_and_stays_in_the_statistics():
    guest = model.GpuProcess(99999, None, None, None, own=False)
    times = run_of(edge("begin"), half(1), half(2, "throttled"), edge("end", 1e9, (guest,))).rows[CASE.key].gpu
    assert times.marks == ("throttled", "shared-gpu")
    # With and without marked half-rounds: both are there (R6).
    assert (times.samples[model.LATENCY], times.clean_ns) == ((1e6 + 1, 1e6 + 2), (1e6 + 1,))


def test_a_case_that_starts_again_forgets_the_edges_of_its_first_attempt():
    found = condition_of(edge("begin", temperature_c=90.0), model.CaseStarted(case=CASE.key), half(1))
    assert found.temperature_begin_c == model.Reading(None, "not-asked")


def test_all_of_it_comes_out_of_a_run_on_a_planted_machine():
    plan = plan_of(64, simulation=PLANTED, metrics=(model.LATENCY, model.ENERGY))
    run = state_of(plan, swept(plan)[1])
    row = run.rows[plan.cases[0].key]
    found = condition(run, row, row.gpu)
    assert found.sm_clock_mhz == model.Reading(1980.0)
    assert (found.temperature_begin_c, found.temperature_end_c) == (model.Reading(41.0), model.Reading(41.0))
    assert 120.0 < found.watts.value < 620.0
    assert found.gflop_per_j.value == pytest.approx(2 * 64**3 / (found.energy.joules_per_call.value or 0) / 1e9)
    assert found.company.is_shared
    assert "shared-gpu" in row.marks


# ------------------------------------------------------------------ saved, and as JSON


def test_a_saved_run_says_the_same_of_its_machine(store):
    plan = plan_of(64, simulation=replace(PLANTED, throttle_share=0.5), metrics=(model.LATENCY, model.ENERGY))
    events = swept(plan)[1].events
    started = model.RunStarted(run_id="r", series_id="s", plan=plan, environment={"hostname": "h"})
    store.begin_run(started)
    case = [e for e in events if isinstance(e, (model.CaseStarted, model.DeviceSampled, model.CaseFinished))]
    beside = [e for e in events if type(e).__name__ in ("MachineRead", "EnergyMeasured")]
    store.commit_cases("r", [case], beside)
    live, kept = RunState().apply(started), RunState()
    for event in sorted((*case, *beside), key=lambda e: e.seq):
        live = live.apply(event)
    for event in store.load("r"):
        kept = kept.apply(event)
    key = plan.cases[0].key
    assert (kept.rows[key].gpu, kept.idle) == (live.rows[key].gpu, live.idle)
    assert condition(kept, kept.rows[key], kept.rows[key].gpu).throttles  # type: ignore[arg-type]


def test_json_has_the_condition_of_each_result_live_and_saved(cpugpu):
    planted = f"{FAST},noise=0,sm_clock_mhz=1980,gpu_busy_w=620,gpu_idle_w=120,neighbour_pid=99999"
    live = cpugpu("run", "matmul", "--size", "64", "--energy", "--json", "--simulate", planted)
    saved = cpugpu.here("show", "latest", "--json")
    said, kept = (next(line for line in done.objects if line["event"] == "Answer") for done in (live, saved))
    assert said["machine"] == kept["machine"]
    cpu, gpu = said["machine"]
    assert (cpu["device"], gpu["device"]) == ("cpu", "cuda:0")
    assert cpu["joules_per_call"] == {"value": None, "reason": "not-supported"}
    assert gpu["sm_clock_mhz"] == {"value": 1980.0, "reason": None}
    assert gpu["joules_per_call"]["value"] > 0
    assert (gpu["throttled"], len(gpu["others"])) == ([], 1)
    assert "99999" in gpu["others"][0]
    assert gpu["shared"] is True


def test_the_table_has_energies_with_their_uncertainty_or_the_reason(cpugpu):
    with_power = cpugpu(
        "run", "matmul", "--size", "64", "--energy", "--simulate", f"{FAST},gpu_busy_w=620,gpu_idle_w=120"
    )
    assert "GPU energy" in with_power.out
    assert re.search(r"± 6\.\d %", with_power.out)
    assert "CPU energy" in with_power.out
    assert "--energy" in with_power.out.splitlines()[-1]
    without = cpugpu("run", "matmul", "--size", "64", "--simulate", f"{FAST},gpu_busy_w=620")
    assert "energy" not in without.out
