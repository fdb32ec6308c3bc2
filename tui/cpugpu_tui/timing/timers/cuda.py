"""Times torch operations on an NVIDIA GPU: latency by waiting, hardware time by events behind a backlog.

Why a backlog: one kernel in a plain event pair reads 23 µs on an H200 where the kernel needs 5
(method.md): the pair times the launch. So the stream is held by a spinning kernel until the start
event, the call and the end event are all queued; then the pair spans the call alone.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from statistics import fmean
from time import perf_counter_ns
from typing import Any

from cpugpu_tui.model import (
    AS_WRITTEN,
    COLD_START,
    ENQUEUE,
    H2D_PAGEABLE,
    PAGEABLE,
    PINNED,
    SINGLE,
    SYNCED,
    Case,
    Device,
)
from cpugpu_tui.model.quantities import significant
from cpugpu_tui.timing.timers import CaseError, DeviceSamples, FirstCall, Kernels, Readiness
from cpugpu_tui.timing.timers.overheads import Overheads
from cpugpu_tui.timing.timers.settled_clock import SettledClock
from cpugpu_tui.timing.timers.timed_operation import Operation, operation
from cpugpu_tui.workloads.containers import pinned as pinned_copies

SPIN_MARGIN_NS = 200_000.0
"""Added to 1.5 × the enqueue time (method.md, step 5)."""

SPIN_CAP_NS = 20_000_000.0
"""Longest spin; an operation that needs more to enqueue is launch-bound."""

MAX_QUEUED = 1000
"""Most calls queued before one wait (method.md, step 5): the driver's queue holds about as many launches."""


class CudaTimer:
    """One GPU, its default stream."""

    def __init__(self, device: Device, *, cold: bool, fresh: bool = True, clock: SettledClock | None = None) -> None:
        """Create the context, timed: it is part of the cold start, if nothing was called before (`fresh`)."""
        import torch

        self.device = device
        started = perf_counter_ns()
        torch.cuda.set_device(device.name)
        torch.zeros(1, device=device.name)
        torch.cuda.synchronize()
        self._context_ns = float(perf_counter_ns() - started)
        self._stream = torch.cuda.current_stream()
        self._clock = clock
        self._inherited_tf32 = bool(torch.backends.cuda.matmul.allow_tf32)
        self._flush_bytes = torch.cuda.get_device_properties(device.name).L2_cache_size if cold else 0
        self._flush_buffer: Any = None
        self._process_is_cold = fresh
        self._overheads = Overheads(device.name, self._stream, self._hold, timing_event)
        self._cycles_per_ns = 2.0
        self._enqueue_ns = 60_000.0

    def threads(self) -> int:
        """Return the intra-op threads in force on the host."""
        import torch

        return torch.get_num_threads()

    def _enter(self) -> None:
        """Make this GPU the current one: holds and events belong to whichever is, and another was timed meanwhile."""
        import torch

        torch.cuda.set_device(self.device.name)

    def on_one_thread(self, op: Operation) -> None:
        """Return None: one thread launches."""
        del op

    def clock_ns(self) -> float:
        """Return the host's monotonic clock."""
        return float(perf_counter_ns())

    def load(self, case: Case, inputs: tuple[Any, ...]) -> Operation:
        """Copy the host inputs to the GPU, or place them as the workload does.

        Raises:
            CaseError: they do not fit (`oom`).
        """
        self._enter()
        self._use_precision(case)
        return operation(case, inputs, self.device.name)

    def _use_precision(self, case: Case) -> None:
        """Switch TF32 on for a case that asks for it, and back to what was inherited for all others."""
        import torch

        torch.backends.cuda.matmul.allow_tf32 = case.dtype == "tf32" or self._inherited_tf32

    def close(self) -> None:
        """Put back what cases changed in this process."""
        import torch

        torch.backends.cuda.matmul.allow_tf32 = self._inherited_tf32

    def first_call(self, op: Operation) -> FirstCall:
        """Time the first call twice over: when the host was free again, and when the GPU was done."""
        self._enter()
        self._use_precision(op.case)
        started = perf_counter_ns()
        # P1 moves the result to the device it is on: it does nothing and stands inside the clock.
        result = op.step(*op.inputs)
        if op.is_written_as_called:
            result = result.to(self.device.name)
        queued = perf_counter_ns()
        self._stream.synchronize()
        elapsed = float(perf_counter_ns() - started)
        singles = {COLD_START: (self._context_ns + elapsed,)} if self._process_is_cold else {}
        self._process_is_cold = False
        if op.is_written_as_called:
            singles |= {AS_WRITTEN: (float(queued - started),), SYNCED: (elapsed,)}
        return FirstCall(elapsed, singles, op.to_check(result))

    def ready(self, op: Operation, calls: int) -> Readiness:
        """Set the precision, put changed state back, and wait until the SM clock has settled under this operation."""
        self._enter()
        self._use_precision(op.case)
        op.workload.reset(op.case.variant, op.inputs)
        marks = ("tf32-on",) if self._inherited_tf32 and op.case.dtype == "float32" else ()
        if self._clock is None:
            return Readiness(marks=marks)
        state = self._clock.settle(lambda: self.latency_block(op, calls))
        return Readiness(state.sm_clock_mhz, marks + state.marks)

    def latency_block(self, op: Operation, calls: int) -> float:
        """Return the mean wall time of `calls` calls, each followed by a synchronise, ns per call."""
        self._enter()
        if op.restore is not None:
            return fmean(self.singles(op, calls)[SINGLE])
        step, inputs, wait = op.step, op.inputs, self._wait_of(op)
        started = perf_counter_ns()
        for _ in repeat(None, calls):
            step(*inputs)
            wait()
        return (perf_counter_ns() - started) / calls

    def singles(self, op: Operation, count: int) -> dict[str, tuple[float, ...]]:
        """Return the wall times of single calls with their synchronise, and the part until the call returned, ns."""
        self._enter()
        step, inputs, wait = op.step, op.inputs, self._wait_of(op)
        samples, queued = [], []
        for _ in repeat(None, count):
            if op.restore is not None:
                op.restore()
            started = perf_counter_ns()
            step(*inputs)
            returned = perf_counter_ns()
            wait()
            samples.append(float(perf_counter_ns() - started))
            queued.append(float(returned - started))
        return {SINGLE: tuple(samples), ENQUEUE: tuple(queued)}

    def throughput_block(self, op: Operation, calls: int) -> float | None:
        """Return the wall time per call of up to `MAX_QUEUED` queued calls with one synchronise at the end, ns."""
        self._enter()
        if op.restore is not None:
            return None
        step, inputs, calls, wait = op.step, op.inputs, min(calls, MAX_QUEUED), self._wait_of(op)
        started = perf_counter_ns()
        for _ in repeat(None, calls):
            step(*inputs)
        wait()
        return (perf_counter_ns() - started) / calls

    def _wait_of(self, op: Operation) -> Callable[[], None]:
        """Return what waits for a call: for this thread's stream, or for the whole GPU if the step uses others."""
        if not op.waits_for_all:
            wait: Callable[[], None] = self._stream.synchronize
            return wait
        import torch

        return lambda: torch.cuda.synchronize(self.device.name)

    def overheads(self, op: Operation) -> dict[str, tuple[float, ...]]:
        """Return what waiting costs, the kernel with warm caches, and fetching the result."""
        self._enter()
        return self._overheads.of(op, self._enqueue_ns)

    def _hold(self, hold_ns: float) -> Any:
        """Keep the stream busy; return an event that happens when it is free."""
        spin(int(min(hold_ns, SPIN_CAP_NS) * self._cycles_per_ns))
        released = timing_event()
        released.record()
        return released

    def end_to_end(self, op: Operation, count: int, *, pinned: bool) -> dict[str, tuple[float, ...]]:
        """Time host to device, the call, device to host and the wait; nothing where moving is the work itself."""
        if not op.workload.has_end_to_end:
            return {}
        self._enter()
        target, host = self._host_result(op, pinned=pinned), self._pinned(op) if pinned else op.host_inputs
        samples, brought = [], []
        for _ in repeat(None, count):
            started = perf_counter_ns()
            placed = self._brought(op, host)
            there = perf_counter_ns()
            target.copy_(op.step(*placed), non_blocking=pinned)
            self._stream.synchronize()
            samples.append(float(perf_counter_ns() - started))
            brought.append(float(there - started))
            del placed
        return {PINNED: tuple(samples)} if pinned else {PAGEABLE: tuple(samples), H2D_PAGEABLE: tuple(brought)}

    def _host_result(self, op: Operation, *, pinned: bool) -> Any:
        """Return where a result goes on the host, made when it is first needed; its pages exist."""
        import torch

        if op.host_result.get(pinned) is None:
            result = op.step(*op.inputs)
            op.host_result[pinned] = torch.zeros(result.shape, dtype=result.dtype, pin_memory=pinned)
        return op.host_result[pinned]

    def _brought(self, op: Operation, host: tuple[Any, ...]) -> tuple[Any, ...]:
        """Bring the inputs to the GPU: copies are queued, also pageable ones; torch waits by itself where it must."""
        if op.plainly_placed:  # a walk through containers would add 2 µs to a call
            return tuple(tensor.to(self.device.name, non_blocking=True) for tensor in host)
        return op.workload.place(op.case.variant, host, self.device.name)

    def _pinned(self, op: Operation) -> tuple[Any, ...]:
        if op.pinned is None:
            op.pinned = pinned_copies(op.host_inputs)
        return op.pinned

    def kernels(self, op: Operation) -> Kernels | None:
        """Profile one call after one that is not."""
        self.ready(op, 1)
        op.step(*op.inputs)
        self._stream.synchronize()
        return profiled_kernels(lambda: op.step(*op.inputs), self._stream.synchronize)

    def device_samples(self, op: Operation, count: int) -> DeviceSamples:
        """Time single calls by event pairs behind a spin, L2 flushed before each.

        A start event that has already happened when its pair is queued means that the stream ran dry
        (starved): the spin is doubled and the batch redone; at the cap the operation is launch-bound.
        """
        spin_ns = min(1.5 * self._enqueue_ns * count + SPIN_MARGIN_NS, SPIN_CAP_NS)
        if op.waits_for_all:
            return DeviceSamples(())  # events of one stream do not span the others
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
        self._enter()
        step, inputs, flush = op.step, op.inputs, self._flush_target()
        pairs = [(timing_event(), timing_event()) for _ in range(count)]
        starved = False
        self._stream.synchronize()
        started = perf_counter_ns()
        spin(int(spin_ns * self._cycles_per_ns))
        for start, end in pairs:
            if op.restore is not None:
                op.restore()
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
    if need_bytes > free_bytes:
        # Blocks that torch caches are free to us too, once they are given back: in pieces they hold nothing large.
        torch.cuda.empty_cache()
        free_bytes, _ = torch.cuda.mem_get_info(device.name)
    if need_bytes > free_bytes:
        raise out_of_memory(device.name, need_bytes, free_bytes)


def out_of_memory(where: str, need_bytes: float, free_bytes: float) -> CaseError:
    """Return the failure of a case that does not fit."""
    return CaseError(
        "oom",
        f"Needs {significant(need_bytes / 1e9)} GB on {where}, {significant(free_bytes / 1e9)} GB free.",
        "Choose smaller sizes, or free memory.",
    )


def ran_out_of_memory(where: str, need_bytes: float, free_bytes: float) -> CaseError:
    """Return the failure of a case that was let in and did not fit; `free_bytes` is 0 where it is not known."""
    if need_bytes > free_bytes:
        return out_of_memory(where, need_bytes, free_bytes)
    reckoned = f"{significant(need_bytes / 1e9)} GB" if need_bytes >= 1e6 else f"{need_bytes:,.0f} bytes"
    return CaseError(
        "oom",
        f"Needs more than the {reckoned} reckoned with on {where}, {significant(free_bytes / 1e9)} GB free.",
        "Choose smaller sizes; let memory_bytes of your own workload count all that it allocates.",
    )


def profiled_kernels(call: Callable[[], object], synchronize: Callable[[], None]) -> Kernels | None:
    """Return number and summed time of the kernels of one call; None where the profiler sees no GPU."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        call()
        synchronize()
    # The profiler's own event list; copies and fills are work of the GPU too.
    events: Any = seen.events() or ()
    elapsed_ns = [event.time_range.elapsed_us() * 1e3 for event in events if event.device_type.name == "CUDA"]
    return Kernels(len(elapsed_ns), sum(elapsed_ns)) if elapsed_ns else None
