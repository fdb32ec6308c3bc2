"""The simulated machine's laws: drift, throttling and other effects, which are off by default except run drift."""

import math
from dataclasses import replace
from itertools import pairwise
from statistics import correlation, fmean, pstdev

import pytest
from tests.helpers.runs.recorder import QUICK, plan_of, state_of, swept

from cpugpu_tui import model
from cpugpu_tui.simulation.laws import Drift, cpu_work_ns, gpu_work_ns, run_factor, tiled
from cpugpu_tui.simulation.simulated_machine import SimulatedMachine
from cpugpu_tui.timing.timers import DeviceSamples
from cpugpu_tui.workloads import Costs

QUIET = model.Simulation(
    cpu_overhead_ns=1_000.0, cpu_ns_per_flop=0.01, cpu_bytes_per_ns=10.0, launch_ns=5_000.0, sync_ns=3_000.0,
    kernel_overhead_ns=2_000.0, gpu_ns_per_flop=0.001, gpu_bytes_per_ns=1_000.0, first_call_ns=0.0, noise=0.0,
)  # fmt: skip
CASE = model.Case("matmul", 64)


def costs(flops=0.0, bytes_moved=0.0):
    return Costs(flops, bytes_moved, bytes_moved)


def timers(**changes):
    """The CPU and the GPU of a quiet machine with these changes."""
    machine = SimulatedMachine(plan_of(64, simulation=replace(QUIET, **changes)))
    return machine.timer("cpu"), machine.timer("cuda:0")


# ------------------------------------------------------------------ work


@pytest.mark.parametrize(
    ("law", "overhead_ns", "ns_per_flop", "bytes_per_ns"),
    [(cpu_work_ns, 1_000.0, 0.01, 10.0), (gpu_work_ns, 2_000.0, 0.001, 1_000.0)],
)
def test_work_takes_what_computing_or_moving_takes_whichever_is_longer(law, overhead_ns, ns_per_flop, bytes_per_ns):
    assert law(QUIET, CASE, costs()) == overhead_ns
    assert law(QUIET, CASE, costs(flops=1e9)) == pytest.approx(overhead_ns + 1e9 * ns_per_flop)
    assert law(QUIET, CASE, costs(bytes_moved=1e9)) == pytest.approx(overhead_ns + 1e9 / bytes_per_ns)
    assert law(QUIET, CASE, costs(1e9, 1.0)) == law(QUIET, CASE, costs(1e9))
    no_limit = replace(QUIET, cpu_bytes_per_ns=0.0, gpu_bytes_per_ns=0.0)
    assert law(no_limit, CASE, costs(bytes_moved=1e9)) == overhead_ns


def test_a_gpu_with_tiles_has_times_like_a_staircase():
    def kernel_ns(size, tile):
        gpu = timers(gpu_tile=tile)[1]
        return gpu.load(model.Case("matmul", size), None).work_ns

    assert [kernel_ns(n, 128) for n in (1, 100, 128)] == [kernel_ns(128, 0)] * 3
    assert [kernel_ns(n, 128) for n in (129, 200, 256)] == [kernel_ns(256, 0)] * 3
    assert kernel_ns(128, 0) < kernel_ns(129, 0) < kernel_ns(256, 0)
    assert tiled(QUIET, model.Case("matmul", 129)).size == 129


def test_a_cpu_with_a_ripple_is_slower_by_what_is_left_over():
    rippled = replace(QUIET, cpu_ripple=0.16, ripple_period=16)
    plain_ns = cpu_work_ns(QUIET, CASE, costs(1e6)) - 1_000
    slower = [(cpu_work_ns(rippled, replace(CASE, size=n), costs(1e6)) - 1_000) / plain_ns for n in (64, 65, 72, 79)]
    assert slower == pytest.approx([1.0, 1.01, 1.08, 1.15])


@pytest.mark.parametrize(("variant", "bytes_per_ns"), [("h2d-pageable", 8.0), ("d2h-pinned", 50.0), ("d2d", 2_000.0)])
def test_a_copy_over_the_cable_takes_what_the_cable_takes(variant, bytes_per_ns):
    fixed_ns = 2_000.0 if variant == "d2d" else 8_000.0
    elapsed_ns = gpu_work_ns(model.Simulation(), model.Case("transfer", 10**9, variant=variant), costs(bytes_moved=1e9))
    assert elapsed_ns == pytest.approx(fixed_ns + 1e9 / bytes_per_ns)


def test_end_to_end_is_copy_call_and_copy_back_on_the_gpu_alone():
    cpu, gpu = timers(transfer_alpha_ns=7_000.0, pageable_bytes_per_ns=4.0, pinned_bytes_per_ns=40.0)
    op, size_bytes = gpu.load(CASE, None), 3 * 64 * 64 * 4
    call_ns = 5_000 + op.work_ns + 3_000
    pageable = gpu.end_to_end(op, 2, pinned=False)
    assert pageable[model.PAGEABLE] == pytest.approx((2 * 7_000 + size_bytes / 4 + call_ns,) * 2)
    assert pageable[model.H2D_PAGEABLE] == pytest.approx((7_000 + size_bytes * 2 / 3 / 4,) * 2)
    assert gpu.end_to_end(op, 1, pinned=True) == {model.PINNED: pytest.approx((2 * 7_000 + size_bytes / 40 + call_ns,))}
    assert cpu.end_to_end(cpu.load(CASE, None), 1, pinned=False) == {}
    moving = gpu.load(model.Case("transfer", 4096, variant="h2d-pinned"), None)
    assert gpu.end_to_end(moving, 1, pinned=True) == {}


def test_the_parts_of_a_call_add_up_to_it():
    cpu, gpu = timers(noise=0.0)
    op = gpu.load(CASE, None)
    parts = gpu.overheads(op)
    whole = gpu.end_to_end(op, 1, pinned=False)
    (single,), (launch,) = (gpu.singles(op, 1)[name] for name in (model.SINGLE, model.ENQUEUE))
    assert single == pytest.approx(launch + parts[model.DEVICE_WARM][0] + parts[model.SYNCHRONISE][0])
    assert whole[model.PAGEABLE][0] == pytest.approx(
        whole[model.H2D_PAGEABLE][0] + launch + parts[model.DEVICE_WARM][0] + parts[model.D2H_PAGEABLE][0]
    )
    assert cpu.overheads(cpu.load(CASE, None)) == {}


# ------------------------------------------------------------------ speeds that wander


def test_a_drift_has_its_deviation_and_its_memory():
    """20 000 steps: the deviation within 3 %, the correlation within 0.03 (three standard errors at 0.8)."""
    for rho in (0.0, 0.8):
        drift = Drift(0.02, rho, "seed")
        logs = []
        for _ in range(20_000):
            drift.step()
            logs.append(math.log(drift.slowdown))
        mean, spread = fmean(logs), pstdev(logs)
        neighbours = fmean((a - mean) * (b - mean) for a, b in pairwise(logs)) / spread**2
        assert spread == pytest.approx(0.02, rel=0.03)
        assert neighbours == pytest.approx(rho, abs=0.03)


def half_rounds_ns(cpu, gpu, count):
    """The CPU's and the GPU's latency in rounds of flipped order, relative to the planted one."""
    ops = {cpu: cpu.load(CASE, None), gpu: gpu.load(CASE, None)}
    usual = {cpu: ops[cpu].work_ns, gpu: ops[gpu].work_ns}
    rounds = []
    for k in range(count):
        found = {}
        for timer in (cpu, gpu) if k % 2 == 0 else (gpu, cpu):
            timer.ready(ops[timer], 1)
            found[timer] = timer.device_samples(ops[timer], 1).elapsed_ns[0] / usual[timer]
        rounds.append((found[cpu], found[gpu]))
    return rounds


def test_nothing_wanders_by_default():
    assert half_rounds_ns(*timers(), 5) == [(1.0, 1.0)] * 5
    cpu, gpu = timers()
    for timer in (cpu, gpu):
        readiness = timer.ready(timer.load(CASE, None), 1)
        assert (readiness.sm_clock_mhz, readiness.marks) == (None, ())


# ------------------------------------------------------------------ drift between runs


def test_runs_drift_apart_by_the_planted_deviation():
    """1000 runs: the deviation within 7 %; two cases of a run share half of the variance, two devices nothing."""
    laws = [replace(QUIET, drift=0.02, drift_seed=seed) for seed in range(1, 1001)]
    other = replace(CASE, size=128)
    cpu, cpu_other, gpu = (
        [math.log(run_factor(each, device, case)) for each in laws]
        for device, case in (("cpu", CASE), ("cpu", other), ("cuda:0", CASE))
    )
    assert pstdev(cpu) == pytest.approx(0.02, rel=0.07)
    assert correlation(cpu, cpu_other) == pytest.approx(0.5, abs=0.1)
    assert correlation(cpu, gpu) == pytest.approx(0.0, abs=0.1)


def test_a_run_without_a_drift_seed_or_drift_does_not_drift():
    assert run_factor(model.Simulation(), "cpu", CASE) == 1.0
    assert run_factor(model.Simulation(drift=0.0, drift_seed=3), "cpu", CASE) == 1.0
    same = [run_factor(model.Simulation(drift_seed=3), "cpu", CASE) for _ in range(2)]
    assert same[0] == same[1] != 1.0


def test_the_drift_of_a_run_scales_every_time_of_a_case():
    op_factors = []
    for drift_seed in (0, 7):
        _, gpu = timers(drift=0.05, drift_seed=drift_seed)
        op = gpu.load(CASE, None)
        op_factors.append(
            (op.run_factor, gpu.latency_block(op, 1), gpu.end_to_end(op, 1, pinned=False)[model.PAGEABLE][0])
        )
    (_, usual_ns, usual_pageable_ns), (factor, latency_ns, pageable_ns) = op_factors
    assert factor != 1.0
    assert latency_ns == pytest.approx(factor * usual_ns)
    assert pageable_ns == pytest.approx(factor * usual_pageable_ns)


# ------------------------------------------------------------------ throttling, transients, backlogs


def test_throttled_half_rounds_are_slow_marked_and_seen_in_the_clock():
    _, gpu = timers(throttle_share=0.3, throttle_factor=2.0, sm_clock_mhz=1_980.0)
    op = gpu.load(CASE, None)
    seen: dict[tuple[str, ...], set[tuple[float | None, float]]] = {}
    throttled = 0
    for _ in range(200):
        readiness = gpu.ready(op, 1)
        throttled += bool(readiness.marks)
        relative = gpu.device_samples(op, 1).elapsed_ns[0] / op.work_ns
        seen.setdefault(readiness.marks, set()).add((readiness.sm_clock_mhz, relative))
    assert seen == {(): {(1_980.0, 1.0)}, ("throttled",): {(990.0, 2.0)}}
    assert 40 <= throttled <= 80, "30 % of 200"


def test_the_first_calls_after_another_operation_are_slow():
    for timer, fixed_ns in zip(timers(transient_calls=2, transient_factor=4.0), (0.0, 3_000.0), strict=True):
        one, other = timer.load(CASE, None), timer.load(model.Case("matmul", 32), None)
        usual_ns = one.work_ns if timer.device.is_cpu else 5_000 + one.work_ns + fixed_ns
        slow_ns = 4 * one.work_ns if timer.device.is_cpu else 4 * 5_000 + one.work_ns + fixed_ns
        for before in (None, other):
            if before is not None:
                timer.singles(before, 1)
            assert timer.singles(one, 4)[model.SINGLE] == pytest.approx((slow_ns, slow_ns, usual_ns, usual_ns))


def test_the_protocol_throws_the_slow_calls_away():
    """Four cases alternate half-rounds; the discarded block takes the slow call."""
    plan = plan_of(16, 32, 48, 64, simulation=replace(QUICK, noise=0.0, transient_calls=1), metrics=(model.LATENCY,))
    status, recorder = swept(plan)
    assert status == "done"
    for event in recorder.rounds:
        assert max(event.samples[model.LATENCY]) == pytest.approx(min(event.samples[model.LATENCY]))


def test_launches_that_no_backlog_can_hide_are_launch_bound():
    _, gpu = timers(launch_ns=30e6)
    assert gpu.device_samples(gpu.load(CASE, None), 20) == DeviceSamples((), ("launch-bound",))
    cpu, _ = timers(launch_ns=30e6)
    assert cpu.device_samples(cpu.load(CASE, None), 1).marks == ()


def test_a_pageable_copy_waits_for_the_gpu_by_itself_and_a_pinned_one_does_not():
    _, gpu = timers()
    cases = (model.Case("transfer", 4096, variant=variant) for variant in ("h2d-pageable", "d2h-pinned"))
    assert [gpu.device_samples(gpu.load(case, None), 1).marks for case in cases] == [("blocking",), ()]


# ------------------------------------------------------------------ the machine that a person gets


def test_the_default_machine_shows_every_metric_of_a_gpu():
    plan = plan_of(256, simulation=model.Simulation())
    (row,) = state_of(plan, swept(plan)[1]).rows.values()
    queued_ns, latency_ns, pinned_ns, pageable_ns = (
        row.gpu.median_ns(metric) or 0.0 for metric in (model.THROUGHPUT, model.LATENCY, model.PINNED, model.PAGEABLE)
    )
    assert 0 < queued_ns < latency_ns < pinned_ns < pageable_ns
    assert row.cpu.median_ns(model.PAGEABLE) is None
