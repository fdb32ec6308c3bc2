"""A simulated machine whose times follow a survey of an H200, and the surveys that are simulated on it.

Between the listed sizes a time is a straight line in the logarithms. Two sizes close to each other are a step. Rounds
vary as they did there: 12 % (standard deviation of ln ratio) with a correlation of 0.3. Virtual time also passes while
a case is set up and between half-rounds.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from tests.helpers.runs.recorder import Recorder, state_of

from cpugpu_tui import model
from cpugpu_tui.model import Case, Plan
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.simulation.laws import SimulatedOperation
from cpugpu_tui.simulation.simulated_machine import PlantedWatch, SimulatedMachine, SimulatedTimer
from cpugpu_tui.state.state import RunState
from cpugpu_tui.timing import scheduler, time_shares
from cpugpu_tui.timing.channel import Control
from cpugpu_tui.timing.scheduler import Scheduler
from cpugpu_tui.timing.timers import DeviceSamples, Readiness

Curve = tuple[tuple[int, float], ...]
"""Sizes and times, µs."""


class Curves(NamedTuple):
    """Times of one workload: on the CPU, on the GPU, and there with copies."""

    cpu: Curve
    gpu: Curve
    moved: Curve


CURVES = {
    "matmul": Curves(
        ((16, 3.1), (50, 6.8), (100, 12.6), (176, 22), (200, 29), (259, 45.7), (500, 278), (1000, 1928), (2048, 13721)),
        ((16, 21), (200, 30), (259, 33), (500, 37), (1000, 75.7), (2048, 363)),
        ((16, 58), (50, 73), (100, 98), (200, 140), (500, 497), (1000, 1587), (2048, 6068)),
    ),
    "vector-dot": Curves(
        ((100, 11.9), (10_000, 12), (100_000, 18), (1_000_000, 29), (1_926_153, 45.8), (10_000_000, 496)),
        ((100, 30), (1_926_153, 31), (10_000_000, 47)),
        ((100, 88), (10_000, 98), (100_000, 168), (1_000_000, 1230), (10_000_000, 9947)),
    ),
    "elementwise": Curves(
        ((100, 6.6), (1000, 6.8), (10_000, 9.7), (32_430, 17.7), (35_000, 24), (64_488, 31), (73_343, 26),
         (118_715, 33), (1_000_000, 90.6), (10_000_000, 8902)),
        ((100, 26.5), (1_000_000, 26.3), (10_000_000, 76.8)),
        ((100, 115), (10_000, 115), (100_000, 268), (1_000_000, 2175), (10_000_000, 19_362)),
    ),
    "mnist-mlp": Curves(
        ((32, 1273), (50, 1300), (100, 1500), (200, 1790), (500, 2695), (4096, 11_740)),
        ((32, 1480), (500, 1527), (4096, 1589)),
        (),
    ),
    "conv2d": Curves(
        ((4, 25.6), (10, 40.3), (12, 56.6), (15, 73.5), (20, 113), (50, 253), (100, 699), (256, 3667)),
        ((4, 55.5), (50, 57.7), (100, 82), (256, 180)),
        ((4, 137), (12, 168), (20, 204), (50, 378), (100, 863), (256, 4061)),
    ),
    "attention": Curves(
        ((16, 19.3), (35, 28), (50, 31.2), (100, 58.2), (200, 210), (500, 724), (1000, 2599), (2048, 10_683)),
        ((16, 31), (50, 32), (100, 36.5), (200, 50.5), (500, 80), (1000, 134), (2048, 319)),
        ((16, 110), (50, 165), (100, 209), (200, 318), (500, 660), (1000, 1251), (2048, 2335)),
    ),
    "transformer": Curves(
        ((1, 260), (10, 330), (14, 374), (17, 760), (20, 765), (100, 1531), (1024, 10_116)),
        ((1, 303), (10, 300), (14, 210), (100, 400), (1024, 454)),
        ((1, 443), (10, 420), (14, 337), (100, 693), (1024, 1222)),
    ),
    "transformer-decode": Curves(
        ((1, 394), (2, 435), (5, 665), (10, 931), (20, 1675), (64, 4756)),
        ((1, 397), (2, 420), (5, 394), (64, 459)),
        ((1, 630), (2, 454), (5, 428), (64, 555)),
    ),
    "softmax": Curves(
        ((1, 2.1), (10, 8.4), (100, 15.3), (138, 17.2), (203, 21.6), (1000, 76.2), (10_000, 4729), (16_384, 7218)),
        ((1, 15), (100, 16.5), (138, 17.8), (1000, 16), (10_000, 35.3), (16_384, 48.3)),
        ((1, 44), (100, 113), (1000, 788), (10_000, 6817), (16_384, 10_788)),
    ),
    "layernorm": Curves(
        ((1, 6.8), (10, 11.4), (100, 14.7), (213, 18.1), (269, 20.3), (1000, 48.6), (10_000, 4397), (16_384, 7123)),
        ((1, 22.4), (100, 19), (258, 18.8), (1000, 20.9), (10_000, 50.3), (16_384, 69.4)),
        ((1, 69), (100, 134), (1000, 841), (10_000, 7491), (16_384, 12_650)),
    ),
    "embedding": Curves(
        ((1, 3.6), (10, 4.4), (100, 8), (505, 16.2), (1000, 17.9), (1603, 17.2), (3000, 28), (10_000, 153),
         (65_536, 6377)),
        ((1, 15.1), (100, 18.4), (1000, 18.6), (10_000, 24.9), (65_536, 57.9)),
        ((1, 42.5), (100, 77), (1000, 180), (10_000, 972), (65_536, 5413)),
    ),
    "solve": Curves(
        ((8, 26.5), (50, 51.8), (100, 98.7), (147, 148), (152, 560), (200, 512), (500, 890), (1000, 2801),
         (2048, 15_679)),
        ((8, 118), (50, 144), (100, 224), (150, 342), (200, 403), (500, 1009), (1000, 2133), (2048, 4984)),
        ((8, 175), (50, 198), (100, 274), (150, 444), (200, 474), (500, 1161), (1000, 2821), (2048, 7721)),
    ),
    "batched-solve": Curves(
        ((1, 20.3), (10, 49.9), (39, 96.3), (73, 139), (100, 168), (1000, 1130), (10_000, 9942), (32_768, 33_368)),
        ((1, 98), (10, 110), (1000, 112), (10_000, 118), (32_768, 208)),
        ((1, 178), (10, 205), (100, 210), (1000, 406), (10_000, 1812), (32_768, 5139)),
    ),
    "cholesky": Curves(
        ((8, 9.4), (20, 15.7), (48, 38.3), (73, 76), (100, 124), (200, 185), (500, 500), (1000, 1276), (2048, 15_274)),
        ((8, 43), (50, 46), (61, 50), (64, 73), (75, 75), (100, 62), (200, 110), (500, 206), (1000, 376), (2048, 764)),
        ((8, 100), (50, 95), (73, 116), (100, 112), (200, 195), (500, 483), (1000, 1341), (2048, 4094)),
    ),
    "svd": Curves(
        ((8, 32.3), (20, 105), (50, 493), (100, 1538), (200, 5333), (512, 28_408)),
        ((8, 202), (20, 286), (50, 1215), (100, 2489), (200, 5946), (512, 19_346)),
        ((8, 334), (20, 419), (50, 1403), (100, 2684), (200, 6280), (512, 19_981)),
    ),
    "sparse-matmul": Curves(
        ((16, 17.4), (100, 21.4), (300, 34), (431, 40.9), (1000, 58.3), (10_000, 243), (65_536, 1860)),
        ((16, 42), (300, 41), (1000, 37.4), (10_000, 53.2), (65_536, 122)),
        ((16, 131), (300, 150), (1000, 189), (10_000, 1126), (65_536, 5943)),
    ),
    "fft": Curves(
        ((1, 27.6), (10, 31.7), (100, 41.2), (1000, 120), (4096, 4009)),
        ((1, 19.3), (100, 17.3), (1000, 19.9), (4096, 38.6)),
        ((1, 65), (10, 71), (100, 255), (1000, 1662), (4096, 8009)),
    ),
    "sort": Curves(
        ((100, 6.4), (1000, 30), (1455, 48), (1511, 71), (1816, 72), (1861, 107), (2546, 117), (10_000, 934),
         (100_000, 10_669), (4_000_000, 608_025)),
        ((100, 44), (1000, 66), (10_000, 95), (100_000, 90), (4_000_000, 296)),
        ((100, 113), (1000, 140), (10_000, 186), (100_000, 344), (4_000_000, 6507)),
    ),
    "knn": Curves(
        ((1, 82.3), (3, 160), (5, 209), (10, 213), (100, 608), (1024, 8613)),
        ((1, 95), (3, 107), (10, 110), (100, 250), (1024, 290)),
        ((1, 181), (10, 230), (100, 380), (1024, 464)),
    ),
    "random": Curves(
        ((1000, 9.7), (2195, 17.1), (3292, 16.5), (3508, 22), (10_000, 52), (100_000, 372), (1_000_000, 4217),
         (10_000_000, 85_080)),
        ((1000, 19.1), (3000, 18), (100_000, 16.6), (1_000_000, 19.2), (10_000_000, 45.7)),
        ((1000, 44), (3000, 42), (100_000, 71), (1_000_000, 414), (10_000_000, 3037)),
    ),
}  # fmt: skip
"""Every workload of the survey; medians of the rounds of the recorded one."""

NOISE = {
    "matmul": 0.12, "vector-dot": 0.16, "elementwise": 0.13, "mnist-mlp": 0.08, "conv2d": 0.08, "attention": 0.08,
    "transformer": 0.20, "transformer-decode": 0.22, "softmax": 0.08, "layernorm": 0.10, "embedding": 0.13,
    "solve": 0.05, "batched-solve": 0.16, "cholesky": 0.08, "svd": 0.14, "sparse-matmul": 0.15, "fft": 0.08,
    "sort": 0.19, "knn": 0.12,
    "random": 0.14,
}  # fmt: skip
"""Standard deviation of ln(cpu/gpu) from round to round, the median of the sizes of each workload."""

CPU_SCALE, GPU_NOISE = 0.203, 0.085
"""Loud rounds, those of an H100 server: scale of Student's t with 3 degrees of freedom for ln(time) of the CPU, whose
robust standard deviation is then 0.23, and standard deviation of that of the GPU."""

SLOW_MODE, SLOW_SHARE, SLOW_US = 3.0, 0.2, 300.0
"""Loud calls of the CPU that move memory, from this length on, µs: how many times as long they take in the slow one
of two modes, and the share of the rounds in it."""

MOVES_MEMORY = ("elementwise", "softmax", "layernorm", "embedding", "random")

ROUND_RHO, BLOCK_NOISE = 0.3, 0.01
"""Correlation of successive rounds, and standard deviation of ln(time) from block to block."""

START_NOISE = {True: 0.14, False: 0.10}
"""Whether a device is the CPU → standard deviation of ln(time) of a workload between starts of the process."""

SET_UP_NS, PAUSE_NS = 0.12e9, {True: 1.2e6, False: 1.7e6}
"""As recorded: time to set up a case beside warm-up and pauses, and whether a device is the CPU → time before its
half-round beside pause and discarded blocks, ns."""

SAMPLE_NS, OVERHEADS_NS = 0.3e6, 3e6
"""As recorded: time of a kernel's sample with flush and backlog, and of the overheads of a half-round, ns."""


def at(curve: Curve, size: float) -> float:
    """Return the time at a size, µs."""
    index = min(max(bisect_right([node for node, _ in curve], size), 1), len(curve) - 1)
    (low, first), (high, last) = curve[index - 1], curve[index]
    share = math.log(size / low) / math.log(high / low)
    return first * (last / first) ** share


def crossings(workload: str, *, moved: bool) -> list[float]:
    """Return where the winner changes without noise."""
    found = CURVES[workload]
    gpu = found.moved if moved else found.gpu
    if not gpu:
        return []
    low, high = found.cpu[0][0], found.cpu[-1][0]
    sizes = [low * (high / low) ** (step / 4000) for step in range(4001)]
    leads = [at(found.cpu, size) > at(gpu, size) for size in sizes]
    return [math.sqrt(a * b) for (a, one), (b, other) in pairwise(zip(sizes, leads, strict=True)) if one != other]


class _Timer(SimulatedTimer):
    """A device whose times follow the curves."""

    _machine: SurveyedMachine

    def _us(self, case: Case, *, moved: bool = False) -> float:
        found = CURVES[case.workload]
        start = self._machine.start_logs[case.workload, self.device.is_cpu]
        return at(found.cpu if self.device.is_cpu else found.moved if moved else found.gpu, case.size) * math.exp(start)

    def _mean(self, op: SimulatedOperation, calls: int, *, moved: bool = False) -> float:
        log = self._machine.random.gauss(0.0, BLOCK_NOISE) + self._logs.get(op.case.size, 0.0)
        found = 1e3 * self._us(op.case, moved=moved) * self._mode * math.exp(log)
        self._clock.advance(found * calls)
        return found

    def ready(self, op: SimulatedOperation, calls: int) -> Readiness:
        fresh = self._machine.fresh_log(op.case, is_cpu=self.device.is_cpu)
        before = self._logs.get(op.case.size)
        mixed = fresh if before is None else ROUND_RHO * before + math.sqrt(1 - ROUND_RHO**2) * fresh
        self._logs[op.case.size] = mixed
        self._mode = SLOW_MODE if self.device.is_cpu and self._machine.is_slow(op.case, self._us(op.case)) else 1.0
        self._clock.advance(PAUSE_NS[self.device.is_cpu])
        if self.device.is_cpu:
            return Readiness()
        self._mean(op, calls)  # the clock settles
        return Readiness(is_warm=True)

    def load(self, case: Case, inputs: Any) -> SimulatedOperation:
        if self._last_sweep != case.sweep:
            self._last_sweep, self._logs = case.sweep, {}
        return SimulatedOperation(case, 1e3 * self._us(case), 0.0, 1.0)

    _last_sweep: Any = None
    _logs: dict[int, float]
    _mode = 1.0

    def latency_block(self, op: SimulatedOperation, calls: int) -> float:
        return self._mean(op, calls)

    def singles(self, op: SimulatedOperation, count: int) -> dict[str, tuple[float, ...]]:
        return {model.SINGLE: (self._mean(op, count),)}

    def end_to_end(self, op: SimulatedOperation, count: int, *, pinned: bool) -> dict[str, tuple[float, ...]]:
        if self.device.is_cpu or not CURVES[op.case.workload].moved:
            return {}
        name = model.PINNED if pinned else model.PAGEABLE
        return {name: (self._mean(op, count, moved=True),)}

    def device_samples(self, op: SimulatedOperation, count: int) -> DeviceSamples:
        self._clock.advance(count * SAMPLE_NS)
        return DeviceSamples((self._mean(op, count),))

    def overheads(self, op: SimulatedOperation) -> dict[str, tuple[float, ...]]:
        self._clock.advance(0.0 if self.device.is_cpu else OVERHEADS_NS)
        return {}


class CountedWatch(PlantedWatch):
    """Counts the pauses."""

    rests = 0

    def rest(self, seconds: float) -> None:
        self.rests += 1
        super().rest(seconds)


class SurveyedMachine(SimulatedMachine):
    """A CPU and a GPU with the times of the recorded survey, in one start of the process."""

    def __init__(self, plan: Plan, start: int | None = None, *, is_loud: bool = False) -> None:
        """`start` is the seed of what this start changes; None changes nothing. `is_loud`: rounds of an H100 server."""
        super().__init__(plan)
        self._is_loud = is_loud
        draw = random.Random(start)
        self.start_logs = {
            (name, is_cpu): draw.gauss(0.0, sd) if start is not None else 0.0
            for name in CURVES for is_cpu, sd in START_NOISE.items()
        }  # fmt: skip
        self._timers = {device.name: _Timer(device, self) for device in self.found}
        self.watch = self.counted = CountedWatch(self.simulation, self.clock)
        self.inputs_made = 0

    def fresh_log(self, case: Case, *, is_cpu: bool) -> float:
        """Return what a round adds to ln(time) of a device, before correlation."""
        draw = self.random
        if not self._is_loud:
            return draw.gauss(0.0, NOISE[case.workload] / math.sqrt(2))
        if not is_cpu:
            return draw.gauss(0.0, GPU_NOISE)
        return CPU_SCALE * draw.gauss(0.0, 1.0) / math.sqrt(draw.gammavariate(1.5, 2.0) / 3)

    def is_slow(self, case: Case, us: float) -> bool:
        """Return whether calls of the CPU that take so many µs are in the slow mode in the next round."""
        is_possible = self._is_loud and case.workload in MOVES_MEMORY and us >= SLOW_US
        return is_possible and self.random.random() < SLOW_SHARE

    def make_inputs(self, case: Case) -> None:
        super().make_inputs(case)
        self.inputs_made += 1
        self.clock.advance(SET_UP_NS)


class Surveyed(NamedTuple):
    """A simulated survey: what a person sees, and the virtual time that it took, s."""

    state: RunState
    elapsed_s: float
    machine: SurveyedMachine


def surveyed(monkeypatch: pytest.MonkeyPatch, seed: int) -> Surveyed:
    """Run a survey in the virtual time of the machine."""
    plan = build_plan(PlanRequest(("survey",), only=tuple(CURVES), simulation=model.Simulation(seed=seed)))
    return timed(monkeypatch, plan)


def timed(monkeypatch: pytest.MonkeyPatch, plan: Plan, start: int | None = None, *, is_loud: bool = False) -> Surveyed:
    """Run a plan in the virtual time of the machine."""
    machine = SurveyedMachine(plan, start, is_loud=is_loud)

    class Watch:
        def __init__(self) -> None:
            self.restart()

        def elapsed_s(self) -> float:
            return (machine.clock.now_ns - self.started_ns) / 1e9

        def restart(self) -> None:
            self.started_ns = machine.clock.now_ns

    recorder = Recorder()
    with monkeypatch.context() as patched:
        for module in (scheduler, time_shares):
            patched.setattr(module, "Stopwatch", Watch)
        assert Scheduler(plan, machine, recorder, Control()).run() == "done"
    return Surveyed(state_of(plan, recorder), machine.clock.now_ns / 1e9, machine)
