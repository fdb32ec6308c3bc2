"""After all rounds: energy of a call, from a counter that steps every 100 ms, and one profiled call of each case."""

from dataclasses import replace

import pytest
from tests.helpers.runs.recorder import Call, Recorder, SpiedMachine, plan_of, state_of, swept

from cpugpu_tui import model
from cpugpu_tui.analysis.costs import energy
from cpugpu_tui.state.condition import condition
from cpugpu_tui.timing.channel import Control
from cpugpu_tui.timing.last_passes import WINDOW_NS, EnergyPass

LAWS = model.Simulation(
    first_call_ns=0.0, noise=0.0, gpu_idle_w=120.0, gpu_busy_w=620.0, cpu_busy_w=200.0, launch_ns=10_000.0,
    sync_ns=10_000.0, kernel_overhead_ns=180_000.0, gpu_ns_per_flop=0.0, gpu_bytes_per_ns=0.0,
    cpu_overhead_ns=400_000.0, cpu_ns_per_flop=0.0, cpu_bytes_per_ns=0.0,
)  # fmt: skip
"""A call takes 200 µs on the GPU, of which its kernel takes 180, and 400 µs on the CPU."""
GPU_J = (120.0 * 200e-6) + (620.0 - 120.0) * 180e-6
CPU_J = 200.0 * 400e-6


def asked(*sizes, simulation=LAWS, **more):
    return plan_of(*sizes, simulation=simulation, metrics=(model.LATENCY, model.ENERGY), **more)


def of_cases(recorder):
    return {event.device: event for event in recorder.of(model.EnergyMeasured) if event.case}


def test_the_planted_joules_of_a_call_are_recovered_within_a_step_of_the_counter():
    found = of_cases(swept(asked(64))[1])
    for device, joules in (("cuda:0", GPU_J), ("cpu", CPU_J)):
        said = energy(found[device])
        assert said.joules_per_call.value == pytest.approx(joules, rel=said.plus_minus)
        assert said.plus_minus < 0.07
        assert found[device].elapsed_ns >= WINDOW_NS


def test_counter_and_power_agree_and_a_power_that_does_not_is_told():
    window = of_cases(swept(asked(64))[1])["cuda:0"]
    assert 10 <= len(window.power_mw) <= 20  # 10 Hz at most
    assert not energy(window).is_disputed
    assert energy(replace(window, power_mw=(300_000.0,))).is_disputed


def test_both_sides_of_a_window_are_steps_of_the_counter():
    # The counter is exact at its steps; a window that began between two steps would be wrong by one step.
    window = of_cases(swept(asked(64))[1])["cuda:0"]
    joules, exact = energy(window).joules_per_call.value, GPU_J
    assert joules == pytest.approx(exact, rel=0.04)


def test_idleness_is_measured_once_and_is_a_number_of_its_own():
    plan = asked(64, 128)
    recorder = swept(plan)[1]
    idle = {event.device: event for event in recorder.of(model.EnergyMeasured) if not event.case}
    assert len([event for event in recorder.of(model.EnergyMeasured) if not event.case]) == 2
    assert energy(idle["cuda:0"]).watts.value == pytest.approx(120.0, rel=0.01)
    run = state_of(plan, recorder)
    row = run.rows[plan.cases[0].key]
    said = condition(run, row, row.gpu)
    # Power above idle × length of the call.
    assert said.above_idle.value == pytest.approx(500.0 * 180e-6, rel=0.1)
    assert said.energy.joules_per_call.value == pytest.approx(GPU_J, rel=0.04)


def test_it_comes_after_all_times_and_before_the_profiler_that_slows_launches():
    recorder = swept(replace(asked(64, 128), metrics=(model.LATENCY, model.ENERGY, model.KERNELS)))[1]
    events = recorder.events
    last_case = max(i for i, e in enumerate(events) if isinstance(e, model.CaseFinished))
    windows = [i for i, e in enumerate(events) if isinstance(e, model.EnergyMeasured)]
    first_profile = min(i for i, e in enumerate(events) if isinstance(e, model.KernelsProfiled))
    assert last_case < windows[0]
    assert windows[-1] < first_profile


def test_where_energy_cannot_be_read_nothing_is_run_for_it():
    plan = asked(64, simulation=replace(LAWS, gpu_busy_w=0.0, cpu_busy_w=0.0))
    recorder = swept(plan)[1]
    announced = next(i for i, e in enumerate(recorder.log) if isinstance(e, model.Progressed) and e.phase == "energy")
    assert not [entry for entry in recorder.log[announced:] if isinstance(entry, Call)]
    assert {event.reason for event in recorder.of(model.EnergyMeasured)} == {"not-supported"}


def test_a_counter_that_stands_still_ends_with_a_reason(monkeypatch):
    plan, recorder = asked(64), Recorder()
    machine = SpiedMachine(plan, recorder)
    sensors = machine.watcher("cuda:0")
    sensors.tick_ns = 1e15
    EnergyPass(machine, recorder, lambda: False, Control()).run(plan.cases)
    assert energy(of_cases(recorder)["cuda:0"]).joules_per_call.reason == "window-too-short"
    assert energy(of_cases(recorder)["cpu"]).joules_per_call.value is not None


def test_a_case_that_fails_here_keeps_its_times_and_the_next_one_has_its_energy():
    plan, recorder = asked(64, 128), Recorder()
    machine = SpiedMachine(plan, recorder)
    machine.fail_first_inputs()
    EnergyPass(machine, recorder, lambda: False, Control()).run(plan.cases)
    assert {event.case for event in recorder.of(model.EnergyMeasured) if event.case} == {plan.cases[1].key}


def test_a_stop_ends_it_between_two_blocks():
    plan, recorder = asked(64, 128), Recorder()
    looks = iter(range(10_000))
    EnergyPass(SpiedMachine(plan, recorder), recorder, lambda: next(looks) > 60, Control()).run(plan.cases)
    assert len([entry for entry in recorder.log if isinstance(entry, Call)]) < 100
    assert not of_cases(recorder)


def test_a_window_in_which_the_process_stood_still_is_measured_again():
    plan, recorder, control = asked(64), Recorder(), Control()
    machine = SpiedMachine(plan, recorder)
    sensors, honest, polls = machine.watcher("cuda:0"), machine.watcher("cuda:0").power_mw, iter(range(10_000))

    def stands_still():
        if next(polls) == 20:  # in the second window, after idleness
            control.was_suspended = True
            sensors.rest(60e9)
        return honest()

    sensors.power_mw = stands_still  # type: ignore[method-assign]
    EnergyPass(machine, recorder, lambda: False, control).run(plan.cases)
    assert energy(of_cases(recorder)["cuda:0"]).joules_per_call.value == pytest.approx(GPU_J, rel=0.04)


# ------------------------------------------------------------------ kernels


def test_profiling_comes_when_every_case_has_its_times():
    recorder = swept(plan_of(64, 128, max_rounds=8, metrics=model.METRICS))[1]
    last_time = max(recorder.events.index(event) for event in recorder.of(model.DeviceSampled, model.CaseFinished))
    profiled = recorder.of(model.KernelsProfiled)
    assert [(event.case, event.device, event.count) for event in profiled] == [
        ("matmul/default/64/float32/tall", "cuda:0", 1),
        ("matmul/default/128/float32/tall", "cuda:0", 1),
    ]
    assert all(recorder.events.index(event) > last_time for event in profiled)
