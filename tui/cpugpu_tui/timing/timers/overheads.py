"""What a call on a GPU is made of, beside what latency and end to end tell: kernel, wait, copy back."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from time import perf_counter_ns
from typing import Any

from cpugpu_tui.decide.stats import median
from cpugpu_tui.model import D2H_PAGEABLE, DEVICE_WARM, SYNCHRONISE
from cpugpu_tui.timing.timers.timed_operation import Operation

EVENTS_NS = 10_000.0
"""What recording a pair of events costs the host, amply."""

HOLDS = (2, 20)
"""Holds in multiples of what queueing should take: a process's first one was over too soon in one agent of six."""

QUEUED = 10
"""Calls queued behind a held stream; fewer where they queue so much that the hold would end."""

SMALLEST_CALLS = 200
"""Calls of the smallest operation, for what waiting costs: 5 ms, once a process."""

MOVES = 3
"""Copies of each kind in a row, as in an end-to-end half-round: the first finds nothing in the host's caches."""

LONGEST_NS = 5e6
"""A call that takes longer to queue is not held back: the hold ends at 20 ms, and the queue is full after a
thousand launches."""


class Overheads:
    """Asks one GPU's default stream; what is the same for all operations is measured once."""

    def __init__(self, device: str, stream: Any, hold: Callable[[float], Any], event: Callable[[], Any]) -> None:
        """`hold(ns)` queues a kernel that keeps the stream busy for so long and returns an event recorded after it."""
        self._event = event
        self._device = device
        self._stream = stream
        self._hold = hold
        self._wait_ns: float | None = None

    def of(self, op: Operation, enqueue_ns: float) -> dict[str, tuple[float, ...]]:
        """Return `synchronise`, `device_warm` and the copy back, ns; what cannot be told is left out.

        `enqueue_ns` is about what queueing one call takes.
        """
        found: dict[str, tuple[float, ...]] = {}
        if (wait_ns := self._waited_ns()) is not None:
            found[SYNCHRONISE] = (round(wait_ns, 1),)
        kernel_ns = self._kernel_ns(lambda: op.step(*op.inputs), enqueue_ns)
        if kernel_ns is not None:
            found[DEVICE_WARM] = (round(kernel_ns, 1),)
        target = op.host_result.get(False)
        if target is not None:  # made by the first end-to-end call
            found[D2H_PAGEABLE] = self._fetched(op.step(*op.inputs), target)
        return found

    def _waited_ns(self) -> float | None:
        """Return what a caller waits for beyond queueing and the kernel, with the smallest operation there is.

        None as long as that operation could not be queued behind a hold.
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
        """Return the GPU's time for a call with warm caches; None for what queues more than the stream can be held for.

        Between events behind a hold: they are ordered by the stream, and no launch is waited for.
        """
        if queued_ns > LONGEST_NS:
            return None
        count = max(1, min(QUEUED, int(LONGEST_NS / max(queued_ns, 1.0))))
        pairs = [(self._event(), self._event()) for _ in range(count)]
        for patience in HOLDS:
            self._stream.synchronize()
            held = self._hold(patience * (queued_ns + EVENTS_NS) * count + 100_000.0)
            for start, end in pairs:
                start.record()
                call()
                end.record()
            was_held = not held.query()
            self._stream.synchronize()
            if was_held:
                return median([start.elapsed_time(end) * 1e6 for start, end in pairs])
        return None

    def _fetched(self, result: Any, target: Any) -> tuple[float, ...]:
        """Time copying a finished result to the host, some times in a row, ns."""
        self._stream.synchronize()
        samples = []
        for _ in repeat(None, MOVES):
            started = perf_counter_ns()
            target.copy_(result)
            self._stream.synchronize()
            samples.append(float(perf_counter_ns() - started))
        return tuple(samples)
