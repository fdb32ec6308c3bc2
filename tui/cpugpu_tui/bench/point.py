"""One case, step by step (METHOD.md, "The order of one case"): first calls, check, warm-up, rounds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cpugpu_tui.analysis.stats import median
from cpugpu_tui.bench.control import Control
from cpugpu_tui.bench.emitter import Emit
from cpugpu_tui.bench.timers import Instant, Machine, Timer, now
from cpugpu_tui.model import (
    AS_WRITTEN,
    DEVICE,
    LATENCY,
    SYNCED,
    Calibrated,
    Case,
    CaseFinished,
    CaseStarted,
    HalfRoundTimed,
    Plan,
    Progressed,
)

Samples = dict[str, tuple[float, ...]]

BLOCK_NS = 2e6
"""A block of calls lasts about this long, so that reading the clock costs under 0.01 % of it."""

FIRST_WARMUP_NS = 250e6
"""Least warm-up at a device's first case: clocks ramp from 345 to 1980 MHz on an H200."""

WARMUP_NS = 100e6
"""Least warm-up at later cases."""

WARMUP_CAP_NS = 3e9
"""Longest warm-up; for presets with a small budget it is 60 % of that."""

STABLE = 0.01
"""Warm-up is over when two windows of blocks differ by less than this."""

THROW_AWAY_NS = 100e6
"""A throw-away call before a half-round is worth its time up to this length; a longer call does not
notice that another operation ran before."""

DEVICE_SAMPLES = 20
"""Samples of the `device` metric in a GPU's half-round, for operations up to 0.5 ms."""

DEVICE_SAMPLES_NS = 10e6
"""Time for these samples with longer operations."""


@dataclass
class Lane:
    """One device's part in a case."""

    timer: Timer
    operation: Any
    first_ns: float
    calls: int = 1
    blocks: int = 1
    rounds: int = 1
    estimate_ns: float = 0.0

    @property
    def name(self) -> str:
        """The device's name."""
        return self.timer.device.name


class Point:
    """A case in progress. `begin`, then `half_rounds` until `done`, then `finish`."""

    def __init__(self, case: Case, plan: Plan, machine: Machine, emit: Emit, control: Control) -> None:
        self.case = case
        self._plan = plan
        self._machine = machine
        self._emit = emit
        self._control = control
        self.lanes: list[Lane] = []
        self.device: str | None = None
        """The device that is at work, None in between: whom to name when something is raised."""
        self.round_index = 0
        self.rounds_complete = 0
        self._check: Any = None

    @property
    def done(self) -> bool:
        """Whether every device has all its rounds."""
        return self.round_index >= max((lane.rounds for lane in self.lanes), default=0)

    def begin(self, *, check: bool, exact: bool, warmed: set[str]) -> None:
        """Make inputs, call each device for the first time, compare, warm up.

        Raises:
            CaseError: the case cannot go on.
        """
        self._emit(CaseStarted(case=self.case.key))
        self._announce("inputs", "cpu")
        inputs = self._machine.make_inputs(self.case)
        results: dict[str, Any] = {}
        # Devices in order, CPU first: the publications' order.
        for device in self._machine.devices:
            self.device = device.name
            timer = self._machine.timer(device.name)
            operation = timer.load(self.case, inputs)
            self._announce("first call", device.name)
            started = now()
            self._control.was_suspended = False
            first = timer.first_call(operation)
            ended = now()
            results[device.name] = first.result
            wanted = {k: v for k, v in first.singles.items() if self._wants(k)}
            first_ns = first.elapsed_ns
            if self._control.suspended_meanwhile():
                # A first call cannot be repeated: its numbers hold the time of the suspension and are dropped.
                wanted, first_ns = {}, timer.latency_block(operation, 1)
            self.lanes.append(Lane(timer, operation, first_ns))
            if wanted:
                self._emit(self._timed(device.name, 1, wanted, (), started, ended))
        self.device = None
        if check:
            self._announce("check", "cpu")
            self._check = self._machine.check(self.case, inputs, results, exact=exact)
        results.clear()
        for lane in self.lanes:
            self.device = lane.name
            self._warm_up(lane, first_case=lane.name not in warmed)
            warmed.add(lane.name)

    def _wants(self, metric: str) -> bool:
        asked = AS_WRITTEN if metric == SYNCED else metric
        return asked in self._plan.metrics

    def _announce(self, phase: str, device: str, estimate_ns: float | None = None) -> None:
        """Say what comes next before it can kill the process; written out at once."""
        self._emit(
            Progressed(
                case=self.case.key,
                device=device,
                phase=phase,
                round_index=self.round_index,
                estimate_s=None if estimate_ns is None else estimate_ns / 1e9,
            )
        )
        self._emit.flush()

    def _warm_up(self, lane: Lane, *, first_case: bool) -> None:
        budget_ns = self._plan.budget_s * 1e9
        self._announce("warm-up", lane.name, lane.first_ns)
        least_ns = FIRST_WARMUP_NS if first_case else WARMUP_NS
        cap_ns = min(WARMUP_CAP_NS, 0.6 * budget_ns)
        if lane.first_ns > budget_ns:
            estimate_ns, stable = lane.first_ns, True
        else:
            estimate_ns, stable = warm_up(lane, self._plan.blocks, least_ns, cap_ns, self._control)
        lane.estimate_ns = estimate_ns
        lane.calls, lane.blocks, lane.rounds = sizing(estimate_ns, self._plan)
        self._emit(
            Calibrated(
                case=self.case.key,
                device=lane.name,
                estimate_ns=estimate_ns,
                calls_per_block=lane.calls,
                blocks=lane.blocks,
                rounds=lane.rounds,
                threads=lane.timer.threads(),
                stable=stable,
            )
        )

    def half_rounds(self) -> Iterator[None]:
        """Time the next round, one device per step, in flipped order every other round."""
        self.round_index += 1
        lanes = self.lanes if self.round_index % 2 else self.lanes[::-1]
        for lane in lanes:
            self.device = lane.name
            if self.round_index <= lane.rounds:
                self._emit_half_round(lane)
            yield
        self.rounds_complete += 1

    def _emit_half_round(self, lane: Lane) -> None:
        self._announce("round", lane.name, lane.estimate_ns * lane.calls * lane.blocks)
        while True:
            self._control.was_suspended = False
            event = self._half_round(lane)
            # Stopped and continued in between (ctrl+z, fg): the clock ran on, the samples are void.
            if not self._control.suspended_meanwhile():
                break
        self._emit(event)

    def _half_round(self, lane: Lane) -> HalfRoundTimed:
        timer, operation = lane.timer, lane.operation
        # The first calls after another operation read up to 4 × slow (METHOD.md).
        if lane.estimate_ns * lane.calls <= THROW_AWAY_NS:
            timer.latency_block(operation, lane.calls)
        started = now()
        samples: Samples = {}
        if LATENCY in self._plan.metrics:
            samples[LATENCY] = tuple(timer.latency_block(operation, lane.calls) for _ in range(lane.blocks))
        marks: tuple[str, ...] = ()
        if DEVICE in self._plan.metrics:
            taken = timer.device_samples(operation, device_sample_count(lane))
            marks = taken.marks
            if taken.elapsed_ns:
                samples[DEVICE] = taken.elapsed_ns
        ended = now()
        return self._timed(lane.name, lane.calls, samples, marks, started, ended)

    def _timed(
        self, device: str, calls: int, samples: Samples, marks: tuple[str, ...], started: Instant, ended: Instant
    ) -> HalfRoundTimed:
        return HalfRoundTimed(
            case=self.case.key,
            device=device,
            round_index=self.round_index,
            calls_per_block=calls,
            samples=samples,
            marks=marks,
            started_wall_ns=started.wall_ns,
            ended_wall_ns=ended.wall_ns,
            started_mono_ns=started.mono_ns,
            ended_mono_ns=ended.mono_ns,
        )

    def finish(self) -> None:
        """Report the case complete and let go of its tensors."""
        self._emit(CaseFinished(case=self.case.key, check=self._check))
        self.lanes.clear()

    def time_left_ns(self) -> float:
        """Return the expected time of the rounds that are left."""
        return sum(
            max(0, lane.rounds - self.round_index) * (lane.blocks + 1) * lane.calls * lane.estimate_ns
            for lane in self.lanes
        )


def warm_up(lane: Lane, blocks: int, least_ns: float, cap_ns: float, control: Control) -> tuple[float, bool]:
    """Call the operation until two windows of blocks agree; return (ns per call, whether they agreed).

    A stop ends it after a window; a suspension makes it begin anew.
    """
    spent_ns, calls, before = 0.0, 1, 0.0
    while True:
        window: list[float] = []
        while len(window) < blocks and (spent_ns < cap_ns or not window):
            window.append(lane.timer.latency_block(lane.operation, calls))
            # At least a microsecond a call: a simulated operation may take none, and this must end.
            spent_ns += max(window[-1], 1e3) * calls
        if control.suspended_meanwhile():
            spent_ns, calls, before = 0.0, 1, 0.0
            control.was_suspended = False
            continue
        current = median(window)
        agreed = before > 0 and abs(current / before - 1) < STABLE
        if agreed and spent_ns >= least_ns:
            return current, True
        if spent_ns >= cap_ns or control.stopping:
            return current, False
        before, calls = current, block_calls(current)


def block_calls(estimate_ns: float) -> int:
    """Return how many calls make a block of 2 ms (METHOD.md, step 4)."""
    return max(1, math.ceil(BLOCK_NS / max(estimate_ns, 1.0)))


def sizing(estimate_ns: float, plan: Plan) -> tuple[int, int, int]:
    """Return (calls per block, blocks per half-round, rounds) that fit the budget of a device and case.

    A call longer than the budget is timed once: (1, 1, 1).
    """
    budget_ns = plan.budget_s * 1e9
    calls = block_calls(estimate_ns)
    affordable = int(budget_ns / (calls * estimate_ns))
    if affordable < 1:
        return 1, 1, 1
    blocks = min(plan.blocks, max(1, affordable // plan.rounds))
    return calls, blocks, min(plan.rounds, max(1, affordable // blocks))


def device_sample_count(lane: Lane) -> int:
    """Return how many `device` samples a half-round takes; one on the CPU, where a flush costs 25 ms."""
    if lane.timer.device.is_cpu:
        return 1
    return int(min(DEVICE_SAMPLES, max(1.0, DEVICE_SAMPLES_NS / max(lane.estimate_ns, 1.0))))
