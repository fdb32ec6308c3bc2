"""Times torch operations on an NVIDIA GPU: latency by waiting, hardware time by events behind a backlog.

Why a backlog: one kernel in a plain event pair reads 23 µs on an H200 where the kernel needs 5
(METHOD.md): the pair times the launch. So the stream is held by a spinning kernel until the start
event, the call and the end event are all queued; then the pair spans the call alone.
"""

from __future__ import annotations

from itertools import repeat
from time import perf_counter_ns
from typing import Any

from cpugpu_tui.analysis.quantities import significant
from cpugpu_tui.bench.timers import CaseError, DeviceSamples, FirstCall
from cpugpu_tui.bench.timers.cpu import Operation, operation, written_call
from cpugpu_tui.model import AS_WRITTEN, COLD_START, SYNCED, Case, Device

SPIN_MARGIN_NS = 200_000.0
"""Added to 1.5 × the enqueue time (METHOD.md, step 5)."""

SPIN_CAP_NS = 20_000_000.0
"""Longest spin; an operation that needs more to enqueue is launch-bound."""


class CudaTimer:
    """One GPU, its default stream."""

    def __init__(self, device: Device, *, cold: bool) -> None:
        """Create the context, timed: it is part of the cold start."""
        import torch

        self.device = device
        started = perf_counter_ns()
        torch.cuda.set_device(device.name)
        torch.zeros(1, device=device.name)
        torch.cuda.synchronize()
        self._context_ns = float(perf_counter_ns() - started)
        self._stream = torch.cuda.current_stream()
        self._flush_bytes = torch.cuda.get_device_properties(device.name).L2_cache_size if cold else 0
        self._flush_buffer: Any = None
        self._process_is_cold = True
        self._cycles_per_ns = 2.0
        self._enqueue_ns = 60_000.0

    def threads(self) -> int:
        """Return the intra-op threads in force on the host."""
        import torch

        return torch.get_num_threads()

    def load(self, case: Case, inputs: tuple[Any, ...]) -> Operation:
        """Copy the host inputs to the GPU.

        Raises:
            CaseError: they do not fit (`oom`).
        """
        import torch

        torch.cuda.set_device(self.device.name)
        return operation(case, tuple(tensor.to(self.device.name) for tensor in inputs))

    def first_call(self, op: Operation) -> FirstCall:
        """Time the first call twice over: when the host was free again, and when the GPU was done."""
        started = perf_counter_ns()
        # P1 moves the result to the device it is on: it does nothing and stands inside the clock.
        result = op.step(*op.inputs).to(self.device.name)
        queued = perf_counter_ns()
        self._stream.synchronize()
        elapsed = float(perf_counter_ns() - started)
        singles = {COLD_START: (self._context_ns + elapsed,)} if self._process_is_cold else {}
        self._process_is_cold = False
        if op.written is not None:
            printed, synced = float(queued - started), elapsed
            if op.written.makes_inputs:
                printed, synced = self._as_written(op)
            singles |= {AS_WRITTEN: (printed,), SYNCED: (synced,)}
        return FirstCall(elapsed, singles, result)

    def _as_written(self, op: Operation) -> tuple[float, float]:
        written = op.written
        assert written is not None
        call = written_call(op, self.device.name)
        for _ in repeat(None, written.calls_before):
            call()
        started = perf_counter_ns()
        for _ in repeat(None, written.calls):
            call()
        queued = perf_counter_ns()
        self._stream.synchronize()
        return float(queued - started), float(perf_counter_ns() - started)

    def latency_block(self, op: Operation, calls: int) -> float:
        """Return the mean wall time of `calls` calls, each followed by a synchronise, ns per call."""
        step, inputs, wait = op.step, op.inputs, self._stream.synchronize
        started = perf_counter_ns()
        for _ in repeat(None, calls):
            step(*inputs)
            wait()
        return (perf_counter_ns() - started) / calls

    def device_samples(self, op: Operation, count: int) -> DeviceSamples:
        """Time single calls by event pairs behind a spin, L2 flushed before each.

        A start event that has already happened when its pair is queued means that the stream ran dry
        (starved): the spin is doubled and the batch redone; at the cap the operation is launch-bound.
        """
        spin_ns = min(1.5 * self._enqueue_ns * count + SPIN_MARGIN_NS, SPIN_CAP_NS)
        while True:
            samples, starved = self._batch(op, count, spin_ns)
            if not starved:
                return DeviceSamples(samples)
            if spin_ns >= SPIN_CAP_NS:
                if count > 1:
                    count = 1
                    continue
                return DeviceSamples((), ("launch-bound",))
            spin_ns = min(2 * spin_ns, SPIN_CAP_NS)

    def _batch(self, op: Operation, count: int, spin_ns: float) -> tuple[tuple[float, ...], bool]:
        """Queue spin, then (flush, start, call, end) × count; return the times and whether any starved."""
        step, inputs, flush = op.step, op.inputs, self._flush_target()
        pairs = [(timing_event(), timing_event()) for _ in range(count)]
        starved = False
        self._stream.synchronize()
        started = perf_counter_ns()
        spin(int(spin_ns * self._cycles_per_ns))
        for start, end in pairs:
            if flush is not None:
                flush.zero_()
            start.record()
            step(*inputs)
            end.record()
            starved = starved or start.query()
        self._enqueue_ns = (perf_counter_ns() - started) / count
        self._stream.synchronize()
        return tuple(start.elapsed_time(end) * 1e6 for start, end in pairs), starved

    def _flush_target(self) -> Any:
        """Return the buffer whose zeroing evicts the L2, or None for warm caches."""
        if not self._flush_bytes:
            return None
        import torch

        if self._flush_buffer is None:
            self._flush_buffer = torch.empty(self._flush_bytes, dtype=torch.int8, device=self.device.name)
        return self._flush_buffer

    def calibrate_spin(self) -> None:
        """Measure how many cycles of the spinning kernel make a nanosecond."""
        cycles = 2_000_000
        start, end = timing_event(), timing_event()
        start.record()
        spin(cycles)
        end.record()
        end.synchronize()
        # An idle clock reads slow (345 MHz against 1980 on an H200): a spin made from it would be too short.
        self._cycles_per_ns = max(cycles / (start.elapsed_time(end) * 1e6), 1.0)


def timing_event() -> Any:
    """Return a CUDA event that keeps its time."""
    import torch

    cuda: Any = torch.cuda  # its events are not annotated
    return cuda.Event(enable_timing=True)


def spin(cycles: int) -> None:
    """Queue a kernel that does nothing for so many SM cycles."""
    import torch

    cuda: Any = torch.cuda
    cuda._sleep(cycles)


def require_memory(device: Device, need_bytes: float) -> None:
    """Refuse what does not fit before it is allocated.

    Raises:
        CaseError: `oom`, with need and free.
    """
    import torch

    free_bytes, _ = torch.cuda.mem_get_info(device.name)
    # Blocks that torch caches are free to us too.
    free_bytes += torch.cuda.memory_reserved(device.name) - torch.cuda.memory_allocated(device.name)
    if need_bytes > free_bytes:
        raise out_of_memory(device.name, need_bytes, free_bytes)


def out_of_memory(where: str, need_bytes: float, free_bytes: float) -> CaseError:
    """Return the failure of a case that does not fit."""
    return CaseError(
        "oom",
        f"Needs {significant(need_bytes / 1e9)} GB on {where}, {significant(free_bytes / 1e9)} GB free.",
        "Choose smaller sizes, or free memory.",
    )
