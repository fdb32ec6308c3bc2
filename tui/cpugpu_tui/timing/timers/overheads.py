"""Components of a GPU call that other metrics do not measure: warm kernel, synchronise, copy of the result."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from itertools import repeat
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from cpugpu_tui.decide.stats import median
from cpugpu_tui.model import D2H_PAGEABLE, DEVICE_WARM, SYNCHRONISE
from cpugpu_tui.model.throttling import MARKS
from cpugpu_tui.timing.timers import Kernels, Readiness
from cpugpu_tui.timing.timers.timed_operation import Operation

if TYPE_CHECKING:
    from cpugpu_tui.machine.nvml.probe import GpuProbe


SETTLED = 0.02
"""Largest relative difference of the last readings of a settled clock (method.md, step 6)."""

READINGS = 3

WAIT_S = 0.6
"""Longest wait, seconds; then the half-round is marked. The effect of a power-capped load lasts 0.5 s."""

REFRESH_S = 0.02
"""Work between two readings, seconds: the driver refreshes the clock about this often."""


class SettledClock:
    """The SM clock of one GPU, read before each half-round."""

    def __init__(self, probe: GpuProbe) -> None:
        self._probe = probe
        self._readings: deque[float] = deque(maxlen=READINGS)

    def settle(self, work: Callable[[], object]) -> Readiness:
        """Repeat `work` until the clock has settled; return its last reading and the marks."""
        work()
        clock_mhz = self._read()
        if clock_mhz is None:
            return Readiness()
        ends = time.monotonic() + WAIT_S
        while not self._is_settled():
            if time.monotonic() >= ends:
                return Readiness(clock_mhz, ("clock-unsettled", *self.marks()))
            until = time.monotonic() + REFRESH_S
            while time.monotonic() < until:
                work()
            clock_mhz = self._read() or clock_mhz
        return Readiness(clock_mhz, self.marks())

    def _read(self) -> float | None:
        clock_mhz = self._probe.sm_clock_mhz()
        if clock_mhz:
            self._readings.append(clock_mhz)
        return clock_mhz

    def _is_settled(self) -> bool:
        seen = self._readings
        return len(seen) == READINGS and max(seen) <= min(seen) * (1 + SETTLED)

    def marks(self) -> tuple[str, ...]:
        """Return what is unusual about the GPU now: it is throttled, or other processes use it."""
        marks = dict.fromkeys(MARKS[word] for word in self._probe.throttle() if word in MARKS)
        # One of them is this process; its PID may differ in this namespace.
        if self._probe.processes() > 1:
            marks["shared-gpu"] = "shared-gpu"
        return tuple(marks)


EVENTS_NS = 10_000.0
"""Upper estimate of the host time to record a pair of events, ns."""

HOLDS = (2, 20)
"""Lengths of holds, in multiples of the expected queueing time: the first hold of one process in six was too short."""

QUEUED = 10
"""Calls queued on a held stream; fewer if queueing them would outlast the hold."""

SMALLEST_CALLS = 200
"""Calls of the smallest operation to measure synchronising: 5 ms, once per process."""

MOVES = 3
"""Copies in a row, as in a half-round with copies: the first one finds cold host caches."""

LONGEST_NS = 5e6
"""Longest queueing time of a call that is measured behind a hold, ns: the hold ends at 20 ms, and the queue is full
after 1,000 launches."""


class Overheads:
    """Measures on one GPU's default stream; values common to all operations are measured once."""

    def __init__(self, device: str, stream: Any, hold: Callable[[float], Any], event: Callable[[], Any]) -> None:
        """`hold(ns)` queues a spin of this length and returns an event recorded after it."""
        self._event = event
        self._device = device
        self._stream = stream
        self._hold = hold
        self._wait_ns: float | None = None

    def of(self, op: Operation, enqueue_ns: float) -> dict[str, tuple[float, ...]]:
        """Return `synchronise`, `device_warm` and `d2h_pageable`, ns; without those that cannot be measured.

        `enqueue_ns` is the approximate time to queue one call.
        """
        found: dict[str, tuple[float, ...]] = {}
        if (wait_ns := self._synchronise_ns()) is not None:
            found[SYNCHRONISE] = (round(wait_ns, 1),)
        kernel_ns = self._kernel_ns(lambda: op.step(*op.inputs), enqueue_ns)
        if kernel_ns is not None:
            found[DEVICE_WARM] = (round(kernel_ns, 1),)
        copy_back = op.copy_result.get(False)
        if copy_back is not None:  # created by the first call with copies
            found[D2H_PAGEABLE] = self._result_copies_ns(op.step(*op.inputs), copy_back)
        return found

    def _synchronise_ns(self) -> float | None:
        """Return the latency of the smallest operation minus its queueing and kernel time, ns.

        None until that operation was measured behind a hold.
        """
        if self._wait_ns is None:
            import torch

            number, one = torch.zeros(1, device=self._device), torch.ones(1, device=self._device)

            def call() -> None:
                torch.add(number, one, out=number)

            both, queued = [], []
            for _ in repeat(None, SMALLEST_CALLS):
                started = perf_counter_ns()
                call()
                returned = perf_counter_ns()
                self._stream.synchronize()
                both.append(float(perf_counter_ns() - started))
                queued.append(float(returned - started))
            kernel_ns = self._kernel_ns(call, median(queued))
            if kernel_ns is not None:
                self._wait_ns = max(0.0, median(both) - median(queued) - kernel_ns)
        return self._wait_ns

    def _kernel_ns(self, call: Callable[[], Any], queued_ns: float) -> float | None:
        """Return the kernel time of a call with warm caches, ns; None if queueing it would outlast the hold.

        Measured between events behind a hold, so that launches are not included.
        """
        if queued_ns > LONGEST_NS:
            return None
        count = max(1, min(QUEUED, int(LONGEST_NS / max(queued_ns, 1.0))))
        pairs = [(self._event(), self._event()) for _ in range(count)]
        for multiple in HOLDS:
            self._stream.synchronize()
            held = self._hold(multiple * (queued_ns + EVENTS_NS) * count + 100_000.0)
            for start, end in pairs:
                start.record()
                call()
                end.record()
            was_held = not held.query()
            self._stream.synchronize()
            if was_held:
                return median([start.elapsed_time(end) * 1e6 for start, end in pairs])
        return None

    def _result_copies_ns(self, result: Any, copy_back: Callable[[Any], Any]) -> tuple[float, ...]:
        """Time `MOVES` copies of a finished result to the host in a row, ns."""
        self._stream.synchronize()
        samples = []
        for _ in repeat(None, MOVES):
            started = perf_counter_ns()
            copy_back(result)
            self._stream.synchronize()
            samples.append(float(perf_counter_ns() - started))
        return tuple(samples)


def profiled_kernels(call: Callable[[], object], synchronize: Callable[[], None]) -> Kernels | None:
    """Return number and total time of the kernels of one call; None if the profiler sees no GPU."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        call()
        synchronize()
    # Copies and fills count too, because the GPU runs them.
    events: Any = seen.events() or ()
    elapsed_ns = [event.time_range.elapsed_us() * 1e3 for event in events if event.device_type.name == "CUDA"]
    return Kernels(len(elapsed_ns), sum(elapsed_ns)) if elapsed_ns else None
