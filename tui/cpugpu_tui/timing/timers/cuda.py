"""Time torch operations on an NVIDIA GPU: latency with synchronisation, kernel time with events behind a backlog.

The backlog is necessary because a plain event pair also covers the launch: on an H200 it measures 23 µs for a kernel of
5 µs (method.md). So a spinning kernel holds the stream until start event, call and end event are queued. The pair then
covers only the call.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
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
from cpugpu_tui.timing.timers import CaseError, DeviceSamples, FirstCall, Kernels, Readiness, TorchThreads
from cpugpu_tui.timing.timers.overheads import Overheads, SettledClock, profiled_kernels
from cpugpu_tui.timing.timers.timed_operation import Operation, copier, operation
from cpugpu_tui.workloads.containers import pinned as pinned_copies

SPIN_MARGIN_NS = 50_000.0
"""Added to 1.5 × the time to queue one sample to give the length of its spin, ns (method.md, step 5)."""

SPIN_CAP_NS = 20_000_000.0
"""Longest spin, ns; an operation that takes longer to enqueue is launch-bound."""

MAX_QUEUED = 1000
"""Most calls queued before a synchronise: about the depth of the driver's queue.

See method.md, "What is reported per case and device".
"""


class CudaTimer(TorchThreads):
    """Times operations on one GPU, on its default stream."""

    is_event_clock_sound = True
    """Whether the event clock passed its check. Otherwise no kernel is timed."""

    def __init__(self, device: Device, *, cold: bool, fresh: bool = True, clock: SettledClock | None = None) -> None:
        """Create the context and time it, because it is part of the cold start of a `fresh` process."""
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
        self._convolutions_inherited_tf32 = bool(torch.backends.cudnn.allow_tf32)
        self._flush_bytes = torch.cuda.get_device_properties(device.name).L2_cache_size if cold else 0
        self._flush_buffer: Any = None
        self._process_is_cold = fresh
        self._overheads = Overheads(device.name, self._stream, self._hold, timing_event)
        self._cycles_per_ns = 2.0
        self._enqueue_ns = 60_000.0

    def _enter(self) -> None:
        """Make this GPU the current device, which spins and events use; another one may have been timed before."""
        import torch

        torch.cuda.set_device(self.device.name)

    def on_one_thread(self, op: Operation) -> None:
        """Return None: only one thread launches."""
        del op

    def clock_ns(self) -> float:
        """Return the host's monotonic clock, ns."""
        return float(perf_counter_ns())

    def load(self, case: Case, inputs: tuple[Any, ...]) -> Operation:
        """Copy the host inputs to the GPU, as the workload places them.

        Raises:
            CaseError: they do not fit (`oom`).
        """
        self._enter()
        self._use_precision(case)
        return operation(case, inputs, self.device.name)

    def _use_precision(self, case: Case) -> None:
        """Switch TF32 on for a `tf32` case. For others, matrix products keep the inherited setting.

        Convolutions are switched off: torch allows them TF32 by default, which `float32` must not mean on one device.
        """
        import torch

        torch.backends.cuda.matmul.allow_tf32 = case.dtype == "tf32" or self._inherited_tf32
        torch.backends.cudnn.allow_tf32 = case.dtype == "tf32"

    def close(self) -> None:
        """Restore the settings that cases have changed in this process."""
        import torch

        torch.backends.cuda.matmul.allow_tf32 = self._inherited_tf32
        torch.backends.cudnn.allow_tf32 = self._convolutions_inherited_tf32

    def first_call(self, op: Operation) -> FirstCall:
        """Time the first call until it returned, and until the GPU had finished."""
        self._enter()
        self._use_precision(op.case)
        started = perf_counter_ns()
        # P1's clock includes a copy of the result to its own device, which does nothing.
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
        """Set the precision, restore changed state, and run the operation until the SM clock has settled."""
        self._enter()
        self._use_precision(op.case)
        op.set_as_compiled()
        op.workload.reset(op.case.variant, op.inputs)
        marks = op.own_marks
        if self._inherited_tf32 and op.case.dtype == "float32":
            marks = ("tf32-on", *marks)
        if self._clock is None or not calls:
            return Readiness(marks=marks + (self._clock.marks() if self._clock is not None else ()))
        state = self._clock.settle(lambda: self.latency_block(op, calls))
        return Readiness(state.sm_clock_mhz, marks + state.marks, is_warm=True)

    def latency_block(self, op: Operation, calls: int) -> float:
        """Return the mean wall time of `calls` calls, each followed by a synchronise, ns per call."""
        self._enter()
        op.set_as_compiled()
        step, inputs, wait = op.step, op.inputs, self._wait_of(op)
        elapsed = 0
        for count in op.spans(calls, calls):
            started = perf_counter_ns()
            for _ in repeat(None, count):
                step(*inputs)
                wait()
            elapsed += perf_counter_ns() - started
        return elapsed / calls

    def singles(self, op: Operation, count: int) -> dict[str, tuple[float, ...]]:
        """Return the wall times of single calls with their synchronise, and the part until the call returned, ns."""
        self._enter()
        step, inputs, wait = op.step, op.inputs, self._wait_of(op)
        samples, queued = [], []
        for _ in op.spans(count):
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
        if not op.can_queue:
            return None
        step, inputs, calls, wait = op.step, op.inputs, min(calls, MAX_QUEUED), self._wait_of(op)
        started = perf_counter_ns()
        for _ in repeat(None, calls):
            step(*inputs)
        wait()
        return (perf_counter_ns() - started) / calls

    def _wait_of(self, op: Operation) -> Callable[[], None]:
        """Return what waits for a call: for this thread's stream, or for the whole current GPU if the step uses others.

        `torch.cuda.synchronize` also switches the device there and back: with it, a product of CuPy that takes 15 µs by
        hand took 15 % longer on an H100, and one of JAX, which has waited already, 24 %.
        """
        wait: Callable[[], None] = self._stream.synchronize
        if op.waits_itself:
            wait = _no_wait
        elif op.waits_for_all:
            import torch

            library: Any = torch._C
            wait = library._cuda_synchronize
        return wait

    def overheads(self, op: Operation) -> dict[str, tuple[float, ...]]:
        """Return the times of synchronising, of the kernel with warm caches, and of copying the result to the host."""
        self._enter()
        return self._overheads.of(op, self._enqueue_ns) if self.is_event_clock_sound else {}

    def _hold(self, hold_ns: float) -> Any:
        """Queue a spin; return an event recorded after it."""
        spin(int(min(hold_ns, SPIN_CAP_NS) * self._cycles_per_ns))
        released = timing_event()
        released.record()
        return released

    def end_to_end(self, op: Operation, count: int, *, pinned: bool) -> dict[str, tuple[float, ...]]:
        """Time copy to the GPU, call, copy to the host and synchronise; empty if copying is the work itself."""
        if not op.has_end_to_end:
            return {}
        self._enter()
        host = self._pinned(op) if pinned else op.host_inputs
        copy_back = self._copy_result(op, host, pinned=pinned)
        samples, copied = [], []
        for _ in repeat(None, count):
            started = perf_counter_ns()
            placed = self._copy_inputs(op, host)
            returned = perf_counter_ns()
            copy_back(op.step(*placed), non_blocking=pinned)
            self._stream.synchronize()
            samples.append(float(perf_counter_ns() - started))
            copied.append(float(returned - started))
            del placed
        return {PINNED: tuple(samples)} if pinned else {PAGEABLE: tuple(samples), H2D_PAGEABLE: tuple(copied)}

    def _copy_result(self, op: Operation, host: tuple[Any, ...], *, pinned: bool) -> Callable[..., Any]:
        """Return what copies a result to the host, into buffers with their pages mapped.

        The buffers are made for the host's inputs, because a result of `nms` has another size for other inputs.
        """
        if pinned not in op.copy_result:
            op.copy_result[pinned] = copier(op.step(*self._copy_inputs(op, host)), pinned=pinned)
        return op.copy_result[pinned]

    def _copy_inputs(self, op: Operation, host: tuple[Any, ...]) -> tuple[Any, ...]:
        """Queue copies of the inputs that do not stay on the GPU; torch itself waits where pageable memory needs it."""
        kept, host = op.inputs[: op.workload.stays], host[op.workload.stays :]
        if op.plainly_placed:  # a walk through containers would add 2 µs to a call
            return (*kept, *(tensor.to(self.device.name, non_blocking=True) for tensor in host))
        return (*kept, *op.workload.place(op.case.variant, host, self.device.name))

    def _pinned(self, op: Operation) -> tuple[Any, ...]:
        if op.pinned is None:
            stays = op.workload.stays
            op.pinned = (*op.host_inputs[:stays], *pinned_copies(op.host_inputs[stays:]))
        return op.pinned

    def kernels(self, op: Operation) -> Kernels | None:
        """Profile one call, after one without the profiler. The profiler reads the same clock as events."""
        if not self.is_event_clock_sound:
            return None
        self.ready(op, 1)
        op.step(*op.inputs)
        self._stream.synchronize()
        return profiled_kernels(lambda: op.step(*op.inputs), self._stream.synchronize)

    def device_samples(self, op: Operation, count: int) -> DeviceSamples:
        """Time single calls with event pairs, each behind a spin of its own, with the L2 cache flushed before each.

        If a start event has already occurred when its pair is queued, the stream ran dry (starved). The spin is then
        doubled and the batch repeated. At the longest spin, the operation is blocking if the call returned with
        nothing left to do in the stream, such as a copy of pageable memory, else launch-bound.
        """
        if not self.is_event_clock_sound:
            return DeviceSamples(())
        if op.waits_for_all and not op.stream_seen:
            return DeviceSamples((), ("other-stream",))  # events of one stream do not span the others
        spin_ns = min(1.5 * self._enqueue_ns + SPIN_MARGIN_NS, SPIN_CAP_NS)
        while True:
            samples = self._batch(op, count, spin_ns)
            if not samples.marks or spin_ns >= SPIN_CAP_NS:
                return samples
            spin_ns = min(2 * spin_ns, SPIN_CAP_NS)

    def _batch(self, op: Operation, count: int, spin_ns: float) -> DeviceSamples:
        """Run (spin, flush, start, call, end, wait) up to `count` times; if one starved, return only a mark.

        The wait matters: without it, kernels of 4 to 20 µs read 0.2 µs less than in NVBench, which waits, too
        (`make bench ONLY=small_kernels`).
        """
        self._enter()
        step, inputs, flush = op.step, op.inputs, self._flush_target()
        start, end = timing_event(), timing_event()
        samples = []
        for _ in op.spans(count):
            self._stream.synchronize()
            started = perf_counter_ns()
            spin(int(spin_ns * self._cycles_per_ns))
            if flush is not None:
                flush.zero_()
            start.record()
            step(*inputs)
            blocking = self._stream.query()
            end.record()
            starved = start.query()
            self._enqueue_ns = float(perf_counter_ns() - started)
            self._stream.synchronize()
            if starved:
                return DeviceSamples((), ("blocking" if blocking else "launch-bound",))
            samples.append(start.elapsed_time(end) * 1e6)
        return DeviceSamples(tuple(samples))

    def _flush_target(self) -> Any:
        """Return the buffer whose zeroing evicts the L2 cache; None for warm caches."""
        if not self._flush_bytes:
            return None
        import torch

        if self._flush_buffer is None:
            self._flush_buffer = torch.empty(self._flush_bytes, dtype=torch.int8, device=self.device.name)
        return self._flush_buffer

    def calibrate_spin(self) -> None:
        """Measure the cycles per nanosecond of the spinning kernel. Needs a sound event clock."""
        cycles = 2_000_000
        start, end = timing_event(), timing_event()
        start.record()
        spin(cycles)
        end.record()
        end.synchronize()
        # At least 1: an idle clock (345 instead of 1,980 MHz on an H200) would make later spins too short.
        self._cycles_per_ns = max(cycles / (start.elapsed_time(end) * 1e6), 1.0)


def _no_wait() -> None:
    """Return at once: the step has waited."""


def timing_event() -> Any:
    """Return a CUDA event with timing enabled."""
    import torch

    cuda: Any = torch.cuda  # its events have no annotations
    return cuda.Event(enable_timing=True)


def spin(cycles: int) -> None:
    """Queue a kernel that spins for so many SM cycles."""
    import torch

    cuda: Any = torch.cuda
    cuda._sleep(cycles)


def require_memory(device: Device, need_bytes: float, agents: int = 1) -> None:
    """Check that a case fits into GPU memory before it is allocated by each of so many agents.

    Raises:
        CaseError: `oom`, with needed and free memory.
    """
    import torch

    free_bytes, _ = torch.cuda.mem_get_info(device.name)
    need_bytes *= agents
    if need_bytes > free_bytes:
        # torch's cached blocks become usable once they are freed; a fragmented cache has no room for large tensors.
        torch.cuda.empty_cache()
        free_bytes, _ = torch.cuda.mem_get_info(device.name)
    if need_bytes > free_bytes:
        raise out_of_memory(device.name, need_bytes, free_bytes, agents)


def out_of_memory(where: str, need_bytes: float, free_bytes: float, agents: int = 1) -> CaseError:
    """Return the failure of a case that does not fit into memory; `need_bytes` is that of all `agents` together."""
    who = "Needs" if agents == 1 else f"{agents} agents together need"
    return CaseError(
        "oom",
        f"{who} {significant(need_bytes / 1e9)} GB on {where}, {significant(free_bytes / 1e9)} GB free.",
        "Choose smaller sizes, or free memory.",
    )


def ran_out_of_memory(where: str, need_bytes: float, free_bytes: float) -> CaseError:
    """Return the failure of a case that ran out of memory in spite of the check; `free_bytes` is 0 if unknown."""
    if need_bytes > free_bytes:
        return out_of_memory(where, need_bytes, free_bytes)
    estimate = f"{significant(need_bytes / 1e9)} GB" if need_bytes >= 1e6 else f"{need_bytes:,.0f} bytes"
    return CaseError(
        "oom",
        f"Needs more than the estimated {estimate} on {where}, {significant(free_bytes / 1e9)} GB free.",
        "Choose smaller sizes. In a workload of your own, return all allocations from memory_bytes.",
    )
