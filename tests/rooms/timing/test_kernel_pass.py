"""One profiled call of each case, after all rounds: the profiler slows every launch that follows."""

from __future__ import annotations

from tests.helpers.runs.recorder import Call, Recorder, SpiedMachine, plan_of, swept

from cpugpu_tui.model import DEVICE, LATENCY, METRICS, CaseFinished, DeviceSampled, KernelsProfiled, Simulation
from cpugpu_tui.timing.last_passes import profile_cases


def test_profiling_comes_when_every_case_has_its_times() -> None:
    recorder = swept(plan_of(64, 128, max_rounds=8, metrics=METRICS))[1]
    last_time = max(recorder.events.index(event) for event in recorder.of(DeviceSampled, CaseFinished))
    profiled = recorder.of(KernelsProfiled)
    assert [(event.case, event.device, event.count) for event in profiled] == [
        ("matmul/default/64/float32/tall", "cuda:0", 1),
        ("matmul/default/128/float32/tall", "cuda:0", 1),
    ]
    assert all(recorder.events.index(event) > last_time for event in profiled)


def test_what_is_not_asked_for_or_has_no_gpu_is_not_profiled() -> None:
    assert not swept(plan_of(64, metrics=(LATENCY, DEVICE)))[1].of(KernelsProfiled)
    assert not swept(plan_of(64, metrics=METRICS, simulation=Simulation(gpus=0)))[1].of(KernelsProfiled)


def test_a_case_that_cannot_be_profiled_keeps_its_times_and_the_next_one_is_profiled() -> None:
    plan, recorder = plan_of(64, 128), Recorder()
    machine = SpiedMachine(plan, recorder)
    machine.fail_first_inputs()
    profile_cases(plan.cases, machine, recorder, lambda: False)
    assert [event.case for event in recorder.of(KernelsProfiled)] == [plan.cases[1].key]


def test_a_stop_ends_it() -> None:
    plan, recorder = plan_of(64, 128), Recorder()
    profile_cases(plan.cases, SpiedMachine(plan, recorder), recorder, lambda: True)
    assert not [entry for entry in recorder.log if isinstance(entry, Call)]
    assert not recorder.events
