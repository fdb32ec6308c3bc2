"""The simulated machine: the protocol for real devices finds its constants again."""

from dataclasses import replace

import pytest
from tests.helpers.runs.read_back import naive_factor
from tests.helpers.runs.recorder import QUICK, plan_of, state_of, swept

from cpugpu_tui import model
from cpugpu_tui.decide.comparison import CPU_WINS, GPU_WINS
from cpugpu_tui.errors import UnfitError
from cpugpu_tui.render.answers import answers
from cpugpu_tui.simulation import simulated_events
from cpugpu_tui.simulation.simulated_machine import SimulatedMachine
from cpugpu_tui.workloads import find

SIZES = (64, 256, 1024, 2048)
PLANTED = model.Simulation(
    cpu_overhead_ns=200_000.0, cpu_ns_per_flop=0.004, launch_ns=100_000.0, sync_ns=50_000.0,
    kernel_overhead_ns=20_000.0, gpu_ns_per_flop=0.0001, first_call_ns=30e6, noise=0.01,
)  # fmt: skip
WITHIN = 0.01
"""A median of 40 samples with 1 % of noise is within 0.6 % (three standard deviations)."""


def flops(size):
    return find("matmul").flops(size)


def test_the_protocol_finds_the_planted_constants():
    plan = plan_of(*SIZES, simulation=PLANTED)
    state = state_of(plan, swept(plan)[1])
    for row in state.rows.values():
        kernel_ns = 20_000 + 0.0001 * flops(row.case.size)
        assert row.cpu.median_ns(model.LATENCY) == pytest.approx(200_000 + 0.004 * flops(row.case.size), rel=WITHIN)
        assert row.gpu.median_ns(model.LATENCY) == pytest.approx(100_000 + kernel_ns + 50_000, rel=WITHIN)
        assert row.gpu.median_ns(model.DEVICE) == pytest.approx(kernel_ns, rel=WITHIN)


def test_the_bytes_of_simulated_inputs_are_said_to_include_the_result():
    plan = plan_of(419, simulation=PLANTED)
    (row,) = state_of(plan, swept(plan)[1]).rows.values()
    assert row.cpu.placed.inputs == (f"{3 * 419**2 * 4:,} B on cpu, results included (simulated)",)


def test_the_publications_clock_is_off_by_the_planted_factor():
    plan = plan_of(*SIZES, simulation=replace(PLANTED, noise=0.0))
    state = state_of(plan, swept(plan)[1])
    for row in state.rows.values():
        waited_ns = 100_000 + 20_000 + 0.0001 * flops(row.case.size) + 50_000
        assert row.gpu.median_ns(model.AS_WRITTEN) == pytest.approx(100_000)
        assert row.gpu.median_ns(model.SYNCED) == pytest.approx(waited_ns)
        assert naive_factor(row) == pytest.approx(waited_ns / 100_000)
        assert row.cpu.median_ns(model.AS_WRITTEN) == row.cpu.median_ns(model.SYNCED)


def test_a_workload_of_no_publication_has_no_such_clock():
    plan = plan_of(cases=tuple(model.Case("softmax", size) for size in SIZES), simulation=PLANTED)
    for row in state_of(plan, swept(plan)[1]).rows.values():
        for times in (row.cpu, row.gpu):
            assert times.median_ns(model.LATENCY)
            assert times.median_ns(model.AS_WRITTEN) is None


def test_the_crossover_is_where_the_planted_laws_cross():
    machine = replace(PLANTED, cpu_overhead_ns=20_000.0)
    crossing = next(n for n in range(1, 5000) if 20_000 + 0.004 * flops(n) > 170_000 + 0.0001 * flops(n))
    sizes = (64, 128, crossing - 16, crossing + 16, 512)
    plan = plan_of(*sizes, simulation=machine)
    state = state_of(plan, swept(plan)[1])
    verdicts = [row.own_comparison.verdict for row in state.rows.values() if row.own_comparison]
    assert verdicts == [CPU_WINS] * 3 + [GPU_WINS] * 2
    (answer,) = answers(state)
    (found,) = answer.report.resident.changes
    assert (found.low, found.high) == (crossing - 16, crossing + 16)
    assert found.point == pytest.approx(crossing, rel=0.02)
    assert f" ({crossing - 16}–{crossing + 16}); " in answer.sentences[0]


def test_the_first_call_of_a_process_is_cold_and_only_that_one():
    recorder = swept(plan_of(64, 128, simulation=PLANTED))[1]
    cold = [(e.device, e.case) for e in recorder.of(model.DeviceSampled) if model.COLD_START in e.samples]
    assert cold == [("cpu", model.Case("matmul", 64).key), ("cuda:0", model.Case("matmul", 64).key)]
    assert all(model.COLD_START not in event.samples for event in recorder.rounds)


# ------------------------------------------------------------------ chance


def samples(recorder):
    return [(event.case, event.device, event.round_index, event.samples) for event in recorder.rounds]


def test_the_same_seed_gives_the_same_run():
    first, again = (swept(plan_of(64, 256))[1] for _ in range(2))
    assert samples(first) == samples(again)
    assert [type(event) for event in first.events] == [type(event) for event in again.events]


def test_another_seed_gives_another_run():
    assert samples(swept(plan_of(64))[1]) != samples(swept(plan_of(64, simulation=replace(QUICK, seed=1)))[1])


# ------------------------------------------------------------------ asynchronous, like a GPU


def machine_and_gpu(**changes):
    machine = SimulatedMachine(plan_of(64, simulation=replace(PLANTED, noise=0.0, **changes)))
    return machine, machine.timer("cuda:0")


def test_a_launch_returns_before_the_kernel_is_done():
    machine, gpu = machine_and_gpu(first_call_ns=0.0)
    op = gpu.load(model.Case("matmul", 1024), None)
    kernel_ns = 20_000 + 0.0001 * flops(1024)
    for _ in range(10):
        gpu._launch(op)
    assert machine.clock.now_ns == 10 * 100_000
    gpu._synchronize()
    queued_ns = max(100_000 + 10 * kernel_ns, 10 * 100_000 + kernel_ns)
    assert machine.clock.now_ns == pytest.approx(queued_ns + 50_000)


def test_waiting_for_an_idle_device_costs_the_wait_alone():
    machine, gpu = machine_and_gpu()
    gpu._synchronize()
    assert machine.clock.now_ns == 50_000


def test_pace_makes_virtual_time_real(monkeypatch):
    slept: list[float] = []
    monkeypatch.setattr(simulated_events.time, "sleep", slept.append)
    clock = simulated_events.VirtualClock(pace=0.5)
    for _ in range(1000):
        clock.advance(100_000)
    assert clock.now_ns == 1e8
    assert sum(slept) == pytest.approx(0.05, abs=0.001)
    assert min(slept) >= 0.001


def test_virtual_time_is_free(monkeypatch):
    monkeypatch.setattr(simulated_events.time, "sleep", lambda seconds: seconds and pytest.fail("slept"))
    assert swept(plan_of(2048))[0] == "done"


# ------------------------------------------------------------------ devices and planted faults


@pytest.mark.parametrize(
    ("gpus", "asked", "found"),
    [
        (1, ("auto",), ["cpu", "cuda:0"]),
        (2, ("auto",), ["cpu", "cuda:0"]),
        (2, ("all",), ["cpu", "cuda:0", "cuda:1"]),
        (2, ("cuda:1", "cpu"), ["cpu", "cuda:1"]),
        (2, ("cuda",), ["cuda:0", "cuda:1"]),
        (3, ("cuda", "cpu"), ["cpu", "cuda:0", "cuda:1", "cuda:2"]),
        (0, ("auto",), ["cpu"]),
    ],
)
def test_the_simulated_machine_has_the_devices_that_were_planted(gpus, asked, found):
    machine = SimulatedMachine(plan_of(16, simulation=replace(QUICK, gpus=gpus), devices=asked))
    assert [device.name for device in machine.devices] == found
    assert all(device.simulated for device in machine.devices)
    assert (machine.no_gpu is None) == (gpus > 0)


@pytest.mark.parametrize("device", ["cuda:7", "cuda:1"])
def test_a_gpu_that_is_not_there_is_named(device, words):
    with words.of(UnfitError):
        SimulatedMachine(plan_of(16, devices=("cpu", device)))


def test_a_size_that_fits_no_machine_is_out_of_memory():
    """Its time was called impossible, and the interpreter was to be checked."""
    (failure,) = swept(plan_of(10_000_000, simulation=QUICK))[1].of(model.CaseFailed)
    assert failure.kind == "oom"
    assert "1,200,000 GB" in failure.message


@pytest.mark.parametrize(
    ("fault", "kind", "device"),
    [("oom_size", "oom", "cuda:0"), ("mismatch_size", "mismatch", None), ("error_size", "error", "cpu")],
)
def test_a_planted_fault_is_one_row_and_the_rest_goes_on(fault, kind, device, words):
    plan = plan_of(32, 64, 128, simulation=replace(QUICK, **{fault: 64}))
    status, recorder = swept(plan)
    (failure,) = recorder.of(model.CaseFailed)
    assert status == "done"
    assert (failure.case, failure.kind, failure.device) == (model.Case("matmul", 64).key, kind, device)
    words(f"{failure.message} {failure.remedy}")
    assert [row.status for row in state_of(plan, recorder).rows.values()] == ["ok", kind, "ok"]
