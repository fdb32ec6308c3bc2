"""Half-rounds: latency first, other metrics within their share, and no repetition of calls that are timed once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.runs.recorder import QUICK, Recorder, SpiedMachine, plan_of, swept

from cpugpu_tui.model import DEVICE, LATENCY, METRICS, SINGLE, THROUGHPUT, Calibrated, Plan, Simulation
from cpugpu_tui.simulation.simulated_machine import SimulatedMachine
from cpugpu_tui.timing.channel import Control, LineEmitter
from cpugpu_tui.timing.device_run import EXTRAS_SHARE, SINGLES, DeviceRun, rounded
from cpugpu_tui.timing.scheduler import Scheduler
from cpugpu_tui.timing.timers import DeviceSamples


def test_eight_rounds_give_the_two_hundred_single_calls_that_percentiles_ask_for() -> None:
    quick = Simulation(cpu_overhead_ns=2e4, launch_ns=1e4, sync_ns=8e3, first_call_ns=0.0, noise=0.0)
    recorder = swept(plan_of(16, simulation=quick, rounds=8, max_rounds=8))[1]
    for device in ("cpu", "cuda:0"):
        singles = [x for event in recorder.rounds if event.device == device for x in event.samples[SINGLE]]
        assert len(singles) == 8 * SINGLES == 200


def test_calls_queue_on_a_gpu_and_not_on_a_cpu() -> None:
    rounds = swept(plan_of(64, simulation=QUICK))[1].rounds
    assert {event.device for event in rounds if THROUGHPUT in event.samples} == {"cuda:0"}


def test_costly_extras_leave_latency_its_rounds() -> None:
    """With flushes of 25 ms and blocks of 2 ms, `device` is taken in some rounds and latency in all."""
    plan, recorder = plan_of(64, metrics=(LATENCY, DEVICE), max_rounds=40), Recorder()
    machine = SpiedMachine(plan, recorder)
    timer: Any = machine.timer("cpu")

    def costly(op: Any, count: int) -> DeviceSamples:
        machine.clock.advance(100e6)
        return DeviceSamples((1.0,) * count)

    timer.device_samples = costly
    operation = timer.load(plan.cases[0], None)
    run = DeviceRun(timer, operation, 1e5, calls=10, blocks=5, rounds=20, max_rounds=20, estimate_ns=2e5)
    taken = [run.take(index, plan, machine.watch)[0] for index in range(1, 21)]
    assert all(len(samples[LATENCY]) == 5 for samples in taken)
    with_device = [DEVICE in samples for samples in taken]
    assert with_device[0], "at least once, at once"
    assert 2 <= sum(with_device) < 20
    assert run._extras_ns <= EXTRAS_SHARE * run._latency_ns + 100e6


def test_the_budget_ends_rounds_between_the_least_and_the_most() -> None:
    """Half-rounds take about 12 ms of virtual time, so a budget of 0.3 s allows about 25 instead of 40."""
    noisy = Simulation(cpu_overhead_ns=2e5, launch_ns=1e5, sync_ns=8e4, first_call_ns=0.0, noise=0.5)
    recorder = swept(plan_of(64, simulation=noisy, budget_s=0.3))[1]
    cpu = next(event for event in recorder.of(Calibrated) if event.device == "cpu")
    assert (cpu.rounds, cpu.max_rounds) == (8, 40)
    assert 8 < max(event.round_index for event in recorder.rounds) < 40


def test_numbers_travel_with_a_tenth_of_a_nanosecond() -> None:
    assert rounded("x", [1234.56789, None]) == {"x": (1234.6,)}
    assert rounded("x", [None]) == {}
    assert Plan("p", ()).max_rounds == 40


# ------------------------------------------------------------------ what a round says of itself


LIMIT_BYTES = 4096


@pytest.mark.parametrize("size", [16, 256, 2048, 8192])
def test_a_round_of_every_metric_takes_four_kilobytes_at_most(size: int, tmp_path: Path) -> None:
    machine = Simulation(noise=0.05, throttle_share=0.5, sm_clock_mhz=1980.0)
    plan = plan_of(size, simulation=machine, metrics=METRICS, rounds=12, max_rounds=12)
    with (tmp_path / "events").open("wb") as stream:
        assert Scheduler(plan, SimulatedMachine(plan), LineEmitter(stream.fileno()), Control()).run() == "done"
    rounds: Counter[int] = Counter()
    for line in (tmp_path / "events").read_bytes().splitlines(keepends=True):
        event = json.loads(line)
        if event["event"] == "HalfRoundTimed" or event.get("phase") == "round":
            rounds[event["round_index"]] += len(line)
    assert sorted(rounds) == list(range(13)), "what is taken once before the rounds, and twelve rounds"
    assert max(rounds.values()) <= LIMIT_BYTES
