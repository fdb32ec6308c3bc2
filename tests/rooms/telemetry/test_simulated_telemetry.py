"""Telemetry of a simulated machine: idle without a run, loaded during one, and with the memory of its GPUs."""

import queue

from tests.helpers.command_line import PATIENCE_S
from tests.helpers.runs.recorder import QUICK, plan_of

from cpugpu_tui.model import TelemetryRead
from cpugpu_tui.simulation.simulated_machine import SimulatedMachine
from cpugpu_tui.telemetry.sampler import SimulatedSampler, simulated_sample


def value(gpu, key):
    return gpu.readings[key].value


def test_an_idle_simulated_gpu_idles():
    rows = [gpu for second in range(60) for gpu in simulated_sample(float(second), gpus=2).gpus]
    assert {value(gpu, "kernel_active_pct") for gpu in rows} == {0.0}
    assert {gpu.throttle for gpu in rows} == {("idle",)}
    assert max(value(gpu, "power_mw") for gpu in rows) < 45_000
    assert len({value(gpu, "power_mw") for gpu in rows}) > 10, "a real sensor is never still"


def test_a_loaded_simulated_gpu_works_below_its_limits():
    rows = [gpu for second in range(60) for gpu in simulated_sample(float(second), load=1.0).gpus]
    assert min(value(gpu, "kernel_active_pct") for gpu in rows) > 90
    assert min(value(gpu, "power_mw") for gpu in rows) > 200_000
    assert all(value(gpu, "power_mw") < value(gpu, "power_limit_mw") for gpu in rows)
    assert {gpu.throttle for gpu in rows} == {()}


def test_telemetry_and_devices_agree_on_the_memory():
    machine = SimulatedMachine(plan_of(16, simulation=QUICK))
    (gpu,) = simulated_sample(0.0).gpus
    assert machine.found[1].memory_bytes == value(gpu, "memory_total_bytes") == machine.gauge("cuda:0").free_bytes()


def test_a_simulated_gpu_is_loaded_while_a_run_is_live():
    reads: queue.SimpleQueue[TelemetryRead] = queue.SimpleQueue()
    sampler = SimulatedSampler(0.01, reads.put, 1)

    def next_with(is_loaded):
        while True:
            (gpu,) = reads.get(timeout=PATIENCE_S).gpus
            if bool(value(gpu, "kernel_active_pct")) == is_loaded:
                return gpu

    sampler.start()
    try:
        assert value(next_with(False), "temperature_c") == 34
        sampler.quiet = True
        next_with(True)
        sampler.quiet = False
        next_with(False)
    finally:
        sampler.stop()
