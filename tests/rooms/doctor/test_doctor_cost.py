"""The cost of our own telemetry: statistics on simulated series, the gate, and the process of the loop."""

import math
import random
import threading
import time

import pytest
from tests.helpers.command_line import PATIENCE_S

from cpugpu_tui.analysis.costs import CostRatio, cost_ratio
from cpugpu_tui.doctor import sampler_cost
from cpugpu_tui.doctor.sampler_cost import (
    Gate,
    LoopProcess,
    MeasuredCost,
    cost_finding,
    measure_cost,
    telemetry_findings,
)
from cpugpu_tui.errors import UnfitError
from cpugpu_tui.model import Simulation, TelemetryRead
from cpugpu_tui.telemetry.sampler import Sampler


def rounds(cost, noise, seed, drift=0.0, count=120):
    """Blocks of a 25 µs loop in measured order; its speed drifts from block to block."""
    chance = random.Random(seed)
    pairs, wander = [], 0.0
    for index in range(count):
        found = {}
        for on in (index % 2 == 1, index % 2 == 0):
            wander = 0.9 * wander + chance.gauss(0.0, drift)
            found[on] = 25_000 * (1 + cost * on) * math.exp(wander + chance.gauss(0.0, noise))
        pairs.append((found[False], found[True]))
    return pairs


def stopped(pairs):
    """The ratio at the round where the measurement would stop."""
    for count in range(6, len(pairs) + 1):
        ratio = cost_ratio(pairs[:count])
        if ratio is not None and ratio.is_settled:
            break
    assert ratio is not None
    return ratio


def test_a_planted_cost_of_three_percent_is_found():
    found = [stopped(rounds(0.03, 0.01, seed)) for seed in range(200)]
    assert all(ratio.is_settled and not ratio.is_allowed for ratio in found)
    assert sum(ratio.low > 1 for ratio in found) == 200
    assert sum(ratio.low <= 1.03 <= ratio.high for ratio in found) >= 180
    verdicts = {cost_finding(MeasuredCost("an H200", ratio.rounds, ratio), 60).verdict for ratio in found}
    assert verdicts == {"warn"}


def test_the_finding_says_cost_and_interval(words):
    ratios = CostRatio(1.0, 0.995, 1.005, 8), CostRatio(1.03, 1.02, 1.04, 8), CostRatio(1.0, 0.9, 1.1, 9)
    findings = [cost_finding(MeasuredCost("an H200", 8, ratio), 60) for ratio in (*ratios, None)]
    assert [finding.verdict for finding in findings] == ["ok", "warn", "warn", "warn"]
    words([" | ".join((finding.found, finding.cause, finding.remedy)) for finding in findings])


def test_noise_that_hides_the_answer_is_said_with_how_to_get_it():
    ratio = cost_ratio(rounds(0.0, 0.1, 1, count=20))
    finding = cost_finding(MeasuredCost("an H200", 20, ratio), 60)
    assert finding.verdict == "warn"
    assert "--max-seconds 120" in finding.remedy
    assert cost_finding(MeasuredCost("an H200", 3, None), 5).verdict == "warn"
    assert cost_ratio(rounds(0.0, 0.1, 1, count=4)) is None


# ------------------------------------------------------------------ the gate


def test_a_held_sampler_does_not_sweep_and_a_sweep_under_way_is_waited_for():
    gate = Gate()
    swept, held = threading.Event(), threading.Event()

    def sweep():
        gate.before_sweep()
        swept.set()

    def hold():
        gate.hold()
        held.set()

    threading.Thread(target=sweep, daemon=True).start()
    assert not swept.wait(0.05)
    gate.let_go()
    assert swept.wait(PATIENCE_S)
    threading.Thread(target=hold, daemon=True).start()
    assert not held.wait(0.05)
    gate.after_sweep(TelemetryRead(gpus=(), host={}))
    assert held.wait(PATIENCE_S)


def test_only_blocks_with_telemetry_see_sweeps(monkeypatch):
    """The loop counts the sweeps in each of its blocks; blocks without telemetry have none."""
    sweeps: list[None] = []
    gates: list[Gate] = []
    blocks: list[tuple[bool, int]] = []
    samplers: list[Sampler] = []
    quiet: list[bool] = []

    class CountingGate(Gate):
        def __init__(self):
            super().__init__()
            gates.append(self)

        def after_sweep(self, event):
            sweeps.append(None)
            super().after_sweep(event)

    class CountingLoop:
        label = "a counter"

        def __init__(self, *_):
            pass

        def block(self):
            before = len(sweeps)
            if gates[0]._open:  # a block is longer than a sweep is away, however loaded the machine
                with gates[0]._changed:
                    gates[0]._changed.wait_for(lambda: len(sweeps) > before, 20.0)
            else:
                threading.Event().wait(0.1)  # time enough for a sweep that nobody held
            blocks.append((gates[0]._open, len(sweeps) - before))
            quiet.append(samplers[0].quiet)
            return 25_000.0 + len(blocks) % 3

        def close(self):
            pass

    class NotedSampler(Sampler):
        def start(self):
            samplers.append(self)
            super().start()

    monkeypatch.setattr(sampler_cost, "Gate", CountingGate)
    monkeypatch.setattr(sampler_cost, "Sampler", NotedSampler)
    monkeypatch.setattr(sampler_cost, "LoopProcess", CountingLoop)
    monkeypatch.setattr(sampler_cost, "INTERVAL_S", 0.1)
    uses = []
    measured = measure_cost(None, None, time.monotonic() + 60.0, lambda _: None, uses.append)
    assert measured.rounds == 8
    assert [is_on for is_on, _ in blocks[1:5]] == [False, True, True, False]  # the order is flipped
    assert {count for is_on, count in blocks if not is_on} == {0}
    assert all(count for is_on, count in blocks if is_on)
    assert quiet == [True] * 17, "what is measured is what a live run is told to bear"
    (use,) = uses
    assert 0 < use.cpu_share < 1


# ------------------------------------------------------------------ the loop's process


def test_a_simulated_machine_is_measured_to_the_end():
    measured = measure_cost(None, Simulation(noise=0.002), time.monotonic() + PATIENCE_S, lambda _: None)
    assert measured.ratio.is_settled
    assert measured.ratio.is_allowed
    assert measured.label == "simulated GPU"


def test_without_a_gpu_telemetry_is_counted_and_the_rest_says_why_not(monkeypatch, words):
    monkeypatch.setattr(sampler_cost, "INTERVAL_S", 0.05)
    ends_s = time.monotonic() + PATIENCE_S
    measure = lambda told: measure_cost(None, Simulation(gpus=0), ends_s, lambda _: None, told)  # noqa: E731
    usage, cost = telemetry_findings(measure, 60)
    assert (usage.check, usage.verdict, list(usage.values)) == ("telemetry.usage", "ok", ["cpu_share", "memory_bytes"])
    assert (cost.check, cost.verdict, cost.values) == ("telemetry.cost", "unknown", {})
    words([cost.found, cost.cause, cost.remedy])


def test_a_loop_that_dies_is_a_failure_with_what_was_counted_before(monkeypatch):
    class DyingLoop:
        def __init__(self, *_):
            pass

        def block(self):
            raise UnfitError("The process on the GPU ended.", "Look.")

        def close(self):
            pass

    monkeypatch.setattr(sampler_cost, "LoopProcess", DyingLoop)
    monkeypatch.setattr(sampler_cost, "INTERVAL_S", 0.05)
    measure = lambda told: measure_cost(None, None, time.monotonic() + 60.0, lambda _: None, told)  # noqa: E731
    usage, cost = telemetry_findings(measure, 60)
    assert usage.verdict == "ok"
    assert (cost.check, cost.verdict, cost.cause) == ("telemetry.cost", "fail", "The process on the GPU ended.")


def test_another_interpreter_runs_the_loop_from_the_zip(bare_python):
    loop = LoopProcess(str(bare_python), Simulation())
    try:
        assert loop.block() == pytest.approx(20_000, rel=0.1)
    finally:
        loop.close()
    with pytest.raises(UnfitError, match="ModuleNotFoundError"):
        LoopProcess(str(bare_python), None)
