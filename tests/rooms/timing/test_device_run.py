"""Half-rounds: latency first, other metrics within their share, and no repetition of calls that are timed once."""

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from tests.helpers.runs.recorder import Recorder, SpiedMachine, plan_of, swept

from cpugpu_tui import model
from cpugpu_tui.simulation.simulated_machine import SimulatedMachine
from cpugpu_tui.timing.channel import Control, LineEmitter
from cpugpu_tui.timing.device_run import EXTRAS_SHARE, SINGLES, DeviceRun
from cpugpu_tui.timing.scheduler import Scheduler
from cpugpu_tui.timing.timers import DeviceSamples, Readiness


def test_eight_rounds_give_the_two_hundred_single_calls_that_percentiles_ask_for():
    quick = model.Simulation(cpu_overhead_ns=2e4, launch_ns=1e4, sync_ns=8e3, first_call_ns=0.0, noise=0.0)
    recorder = swept(plan_of(16, simulation=quick, rounds=8, max_rounds=8))[1]
    for device in ("cpu", "cuda:0"):
        singles = [x for event in recorder.rounds if event.device == device for x in event.samples[model.SINGLE]]
        assert len(singles) == 8 * SINGLES == 200


def test_costly_extras_leave_latency_its_rounds():
    """With flushes of 25 ms and blocks of 2 ms, `device` is taken in some rounds and latency in all."""
    plan, recorder = plan_of(64, metrics=(model.LATENCY, model.DEVICE), max_rounds=40), Recorder()
    machine = SpiedMachine(plan, recorder)
    timer: Any = machine.timer("cpu")

    def costly(op, count):
        machine.clock.advance(100e6)
        return DeviceSamples((1.0,) * count)

    timer.device_samples = costly
    operation = timer.load(plan.cases[0], None)
    run = DeviceRun(timer, operation, 1e5, calls=10, blocks=5, rounds=20, max_rounds=20, estimate_ns=2e5)
    taken = [run.take(index, plan, machine.watch)[0] for index in range(1, 21)]
    assert all(len(samples[model.LATENCY]) == 5 for samples in taken)
    with_device = [model.DEVICE in samples for samples in taken]
    assert with_device[0], "at least once, at once"
    assert 2 <= sum(with_device) < 20
    assert run._extras_ns <= EXTRAS_SHARE * run._latency_ns + 100e6


def test_a_search_takes_what_decides_in_every_round_and_the_rest_in_eight():
    plan, recorder = (
        plan_of(64, 1024, metrics=(model.LATENCY, model.DEVICE, model.END_TO_END), max_rounds=40),
        Recorder(),
    )
    plan = replace(plan, search=model.Search())
    machine = SpiedMachine(plan, recorder)
    timer = machine.timer("cuda:0")
    run = DeviceRun(timer, timer.load(plan.cases[0], None), 1e5, calls=40, blocks=3, rounds=20, max_rounds=20,
                    estimate_ns=5e4)  # fmt: skip
    taken = [run.take(index, plan, machine.watch)[0] for index in range(1, 13)]
    for metric, rounds in {model.LATENCY: 12, model.PAGEABLE: 12, model.DEVICE: 8, model.SINGLE: 8}.items():
        assert sum(metric in samples for samples in taken) == rounds, metric


@pytest.mark.parametrize(("is_search", "is_warm", "calls"), [(True, True, []), (True, False, [5]), (False, True, [20])])
def test_a_search_discards_a_quarter_of_a_block_unless_the_clock_settled_in_it(is_search, is_warm, calls):
    plan = replace(plan_of(64), search=model.Search() if is_search else None)
    machine, called = SimulatedMachine(plan), []
    timer: Any = machine.timer("cuda:0")
    operation = timer.load(plan.cases[0], None)
    timer.latency_block = lambda _op, count: called.append(count) or 1.0
    DeviceRun(timer, operation, 1e5, calls=20).run_discarded_block(Readiness(is_warm=is_warm), plan)
    assert called == calls


@pytest.mark.parametrize(("search", "rounds"), [(model.Search(), 8), (None, 3)])
def test_copies_of_large_cases_get_rounds_enough_for_a_winner(search, rounds):
    """A copy of 80 ms beside calls of 0.1 ms was timed once, and the crossover with copies stayed open.

    Outside searches, 55 of 142 sizes of a sweep on an H200 had one or two rounds with copies, and no winner.
    """
    plan, recorder = plan_of(64, 1024, metrics=(model.LATENCY, model.END_TO_END), max_rounds=40), Recorder()
    plan = replace(plan, search=search, budget_s=2.0)
    machine = SpiedMachine(plan, recorder)
    timer: Any = machine.timer("cuda:0")
    counts = []

    def copied(op, count, *, pinned):
        counts.append(count)
        machine.clock.advance(80e6 * count)
        return {model.PINNED if pinned else model.PAGEABLE: (80e6,) * count}

    timer.end_to_end = copied
    run = DeviceRun(timer, timer.load(plan.cases[0], None), 1e5, calls=20, blocks=3, rounds=6, max_rounds=20,
                    estimate_ns=1e5)  # fmt: skip
    taken = [run.take(index, plan, machine.watch)[0] for index in range(1, 13)]
    assert sum(model.PAGEABLE in samples for samples in taken) == rounds
    assert max(counts[2:]) == 1, "one call a round once they are known to be long"


def test_a_search_takes_pinned_copies_in_its_first_rounds():
    """No verdict rests on them, and on an H100 they took 4 s of a survey."""
    plan = replace(plan_of(64, metrics=(model.LATENCY, model.END_TO_END), max_rounds=40), search=model.Search())
    machine = SimulatedMachine(plan)
    timer = machine.timer("cuda:0")
    run = DeviceRun(timer, timer.load(plan.cases[0], None), 1e5, calls=20, blocks=3, rounds=6, max_rounds=20)
    taken = [run.take(index, plan, machine.watch)[0] for index in range(1, 13)]
    assert [sum(each in samples for samples in taken) for each in (model.PAGEABLE, model.PINNED)] == [12, 8]


def test_the_budget_ends_rounds_between_the_least_and_the_most():
    """Half-rounds take about 12 ms of virtual time, so a budget of 0.3 s allows about 25 instead of 40."""
    noisy = model.Simulation(cpu_overhead_ns=2e5, launch_ns=1e5, sync_ns=8e4, first_call_ns=0.0, noise=0.5)
    recorder = swept(plan_of(64, simulation=noisy, budget_s=0.3))[1]
    cpu = next(event for event in recorder.of(model.Calibrated) if event.device == "cpu")
    assert (cpu.rounds, cpu.max_rounds) == (8, 40)
    assert 8 < max(event.round_index for event in recorder.rounds) < 40


# ------------------------------------------------------------------ what a round says of itself


LIMIT_BYTES = 4096


@pytest.mark.parametrize("size", [16, 256, 2048, 8192])
def test_a_round_of_every_metric_takes_four_kilobytes_at_most(size, tmp_path):
    machine = model.Simulation(noise=0.05, throttle_share=0.5, sm_clock_mhz=1980.0)
    plan = plan_of(size, simulation=machine, metrics=model.METRICS, rounds=12, max_rounds=12, has_exact_rounds=True)
    with (tmp_path / "events").open("wb") as stream:
        assert Scheduler(plan, SimulatedMachine(plan), LineEmitter(stream.fileno()), Control()).run() == "done"
    rounds: Counter[int] = Counter()
    for line in (tmp_path / "events").read_bytes().splitlines(keepends=True):
        event = json.loads(line)
        if event["event"] == "HalfRoundTimed" or event.get("phase") == "round":
            rounds[event["round_index"]] += len(line)
    assert sorted(rounds) == list(range(13)), "what is taken once before the rounds, and twelve rounds"
    assert max(rounds.values()) <= LIMIT_BYTES
