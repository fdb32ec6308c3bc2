"""What a call on a GPU costs beside the hardware's own work: queueing it, waiting for it, moving its data."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from time import perf_counter_ns
from typing import Any

from cpugpu_tui.analysis.stats import median
from cpugpu_tui.bench.timers.operation import Operation
from cpugpu_tui.model import D2H_PAGEABLE, D2H_PINNED, DEVICE_WARM, ENQUEUE, H2D_PAGEABLE, H2D_PINNED, SYNCHRONISE

EVENTS_NS = 10_000.0
"""What recording a pair of events costs the host, amply."""

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

    def of(self, op: Operation, *, moving: bool, enqueue_ns: float) -> dict[str, tuple[float, ...]]:
        """Return `enqueue`, `synchronise` and the copies of a call, ns; what cannot be told is left out.

        `enqueue_ns` is about what queueing one call takes.
        """
        found: dict[str, tuple[float, ...]] = {}

        def call() -> None:
            op.step(*op.inputs)

        queued_ns = self._enqueued_ns(call, QUEUED, enqueue_ns)
        if queued_ns is not None:
            found[ENQUEUE] = (round(queued_ns, 1),)
            found[SYNCHRONISE] = (round(self._waited_ns(), 1),)
            found[DEVICE_WARM] = (round(self._kernel_ns(call, queued_ns), 1),)
        if moving and op.plainly_placed and op.workload.has_end_to_end:
            for pinned in (False, True):
                found |= self._moved(op, pinned=pinned)
        return found

    def _enqueued_ns(self, call: Callable[[], Any], count: int, estimate_ns: float) -> float | None:
        """Return the host's time to queue one call behind a held stream; None where the hold ends first."""
        if estimate_ns > LONGEST_NS:
            return None
        count = max(1, min(count, int(LONGEST_NS / max(estimate_ns, 1.0))))
        self._stream.synchronize()
        held = self._hold(2 * estimate_ns * count + 100_000.0)
        started = perf_counter_ns()
        for _ in repeat(None, count):
            call()
        elapsed_ns = (perf_counter_ns() - started) / count
        was_held = not held.query()
        self._stream.synchronize()
        return elapsed_ns if was_held else None

    def _waited_ns(self) -> float:
        """Return what a caller waits for beyond queueing and the kernel, with the smallest operation there is."""
        if self._wait_ns is None:
            import torch

            number, one = torch.zeros(1, device=self._device), torch.ones(1, device=self._device)

            def call() -> None:
                torch.add(number, one, out=number)

            both = []
            for _ in repeat(None, SMALLEST_CALLS):
                started = perf_counter_ns()
                call()
                self._stream.synchronize()
                both.append(float(perf_counter_ns() - started))
            queued_ns = self._enqueued_ns(call, SMALLEST_CALLS // 4, 20_000.0) or 0.0
            self._wait_ns = max(0.0, median(both) - queued_ns - self._kernel_ns(call, queued_ns))
        return self._wait_ns

    def _kernel_ns(self, call: Callable[[], Any], queued_ns: float) -> float:
        """Return the GPU's time for a call with warm caches, between events behind a hold: ordered by the stream."""
        count = max(1, min(QUEUED, int(LONGEST_NS / max(queued_ns, 1.0))))
        pairs = [(self._event(), self._event()) for _ in range(count)]
        self._stream.synchronize()
        self._hold(2 * (queued_ns + EVENTS_NS) * count + 100_000.0)
        for start, end in pairs:
            start.record()
            call()
            end.record()
        self._stream.synchronize()
        return median([start.elapsed_time(end) * 1e6 for start, end in pairs])

    def _moved(self, op: Operation, *, pinned: bool) -> dict[str, tuple[float, ...]]:
        """Time bringing the inputs there, and fetching the result, each alone and waited for."""
        target = op.host_result.get(pinned)
        host = op.pinned if pinned else op.host_inputs
        if target is None or host is None:  # made by the first end-to-end call
            return {}
        result = op.step(*op.inputs)
        self._stream.synchronize()
        there_ns, back_ns = [], []
        for _ in repeat(None, MOVES):
            started = perf_counter_ns()
            placed = [tensor.to(self._device, non_blocking=True) for tensor in host]
            self._stream.synchronize()
            there = perf_counter_ns()
            target.copy_(result, non_blocking=pinned)
            self._stream.synchronize()
            back = perf_counter_ns()
            del placed
            there_ns.append(float(there - started))
            back_ns.append(float(back - there))
        names = (H2D_PINNED, D2H_PINNED) if pinned else (H2D_PAGEABLE, D2H_PAGEABLE)
        return {names[0]: tuple(there_ns), names[1]: tuple(back_ns)}
