"""Time torch operations on the CPU."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import repeat
from time import perf_counter_ns
from typing import Any

from cpugpu_tui.model import AS_WRITTEN, COLD_START, SINGLE, SYNCED, Case, Device
from cpugpu_tui.timing.timers import DeviceSamples, FirstCall, HostTimer, Readiness, TorchThreads
from cpugpu_tui.timing.timers.timed_operation import OWN, Operation, operation
from cpugpu_tui.workloads.containers import stored, tensors

FLUSH_CAP_BYTES = 128 << 20
"""Most memory to write for flushing the CPU's caches, about 25 ms. A last-level cache above 64 MiB is flushed only
partly, which the environment of a run records."""

CHECKED_ELEMENTS = 1_000_000
"""How many elements of each input and result are checked for denormals."""


class CpuTimer(TorchThreads, HostTimer):
    """Measures wall time on the CPU, where calls are synchronous."""

    def __init__(self, device: Device, flush_bytes: int, threads: int, cores: int, *, cold: bool, fresh: bool) -> None:
        """Create a timer that uses `threads` by default and may use `cores`.

        With `cold`, caches are flushed before each of `device_samples`. `flush_bytes` is twice the last-level cache.
        `fresh` means that this process has made no call on the CPU yet.
        """
        self.device = device
        self._default_threads = threads
        self._cores = cores
        self._flush_bytes = min(flush_bytes, FLUSH_CAP_BYTES) if cold else 0
        self._flush_buffer: Any = None
        self._is_fresh = fresh
        self._libraries = LibraryThreads()

    def on_one_thread(self, op: Operation) -> Operation | None:
        """Return the same operation on one thread; None if it already uses one, or cannot use fewer."""
        if self.threads() == 1 or op.compiled is not None:  # compiled code is for one number of threads
            return None
        if not (op.runs_torch or self._libraries.can_be_set):
            return None
        return replace(op, case=replace(op.case, threads=1))

    def clock_ns(self) -> float:
        """Return the monotonic clock, ns, which all times use."""
        return float(perf_counter_ns())

    def load(self, case: Case, inputs: tuple[Any, ...]) -> Operation:
        """Return the operation on the host inputs, as the workload places them."""
        self._use_threads(case)
        loaded = operation(case, inputs, "cpu")
        self._look_for_libraries(loaded)
        return loaded

    def _look_for_libraries(self, op: Operation) -> None:
        if isinstance(op.workload, OWN):
            self._libraries.look()
            self._use_threads(op.case)

    def _use_threads(self, case: Case) -> None:
        import torch

        wanted = case.threads or self._default_threads
        if torch.get_num_threads() != wanted:
            torch.set_num_threads(wanted)
        self._libraries.use(wanted)

    def first_call(self, op: Operation) -> FirstCall:
        """Time the first call."""
        self._use_threads(op.case)
        started_ns = perf_counter_ns()
        result = op.step(*op.inputs)
        elapsed_ns = float(perf_counter_ns() - started_ns)
        self._look_for_libraries(op)  # the call may have loaded more
        singles = {COLD_START: (elapsed_ns,)} if self._is_fresh else {}
        self._is_fresh = False
        if op.is_written_as_called:
            singles |= {AS_WRITTEN: (elapsed_ns,), SYNCED: (elapsed_ns,)}
        if op.takes_out:
            op.out = result
        return FirstCall(elapsed_ns, singles, op.to_check(result))

    def ready(self, op: Operation, calls: int) -> Readiness:
        """Set the number of threads and restore changed state. The first time, also determine the marks of the case."""
        self._use_threads(op.case)
        op.set_as_compiled()
        op.workload.reset(op.case.variant, op.inputs)
        if op.marks is None:
            op.marks = self._marks(op)
        return Readiness(marks=op.marks)

    def _marks(self, op: Operation) -> tuple[str, ...]:
        marks = list(op.own_marks)
        if self.threads() == 1 and self._cores > 1:
            marks.append("one-thread")
        if not flushes_denormals() and any(map(has_denormals, tensors([*op.host_inputs, op.out]))):
            marks.append("denormals")
        return tuple(marks)

    def latency_block(self, op: Operation, calls: int) -> float:
        """Return the mean wall time of `calls` calls in a row, ns per call."""
        self._use_threads(op.case)
        op.set_as_compiled()
        step, inputs = op.step, op.inputs
        elapsed_ns = 0
        for count in op.spans(calls, longest=calls):
            started_ns = perf_counter_ns()
            for _ in repeat(None, count):
                step(*inputs)
            elapsed_ns += perf_counter_ns() - started_ns
        return elapsed_ns / calls

    def singles(self, op: Operation, count: int) -> dict[str, tuple[float, ...]]:
        """Return the wall times of single calls, ns."""
        step, inputs = op.step, op.inputs
        samples = []
        for _ in op.spans(count):
            started_ns = perf_counter_ns()
            step(*inputs)
            samples.append(float(perf_counter_ns() - started_ns))
        return {SINGLE: tuple(samples)}

    def device_samples(self, op: Operation, count: int) -> DeviceSamples:
        """Time single calls: with cold caches if the timer flushes them, with a preallocated result if the step can."""
        step, inputs = op.step, op.inputs
        keywords = {} if op.out is None else {"out": op.out}
        samples = []
        for _ in op.spans(count):
            self._flush(runs_torch=op.runs_torch)
            started_ns = perf_counter_ns()
            step(*inputs, **keywords)
            samples.append(float(perf_counter_ns() - started_ns))
        return DeviceSamples(tuple(samples))

    def _flush(self, *, runs_torch: bool) -> None:
        """Evict inputs and result from the caches by writing a buffer; only in part if `FLUSH_CAP_BYTES` limits it.

        Does nothing if caches are not to be cold. Beside code without torch one thread writes: threads of torch and
        NumPy, which spin for a while after their work, took the cores from each other for up to 43 % of the time.
        """
        if not self._flush_bytes:
            return
        import torch

        if self._flush_buffer is None:
            self._flush_buffer = torch.ones(self._flush_bytes // 4, dtype=torch.int32)
        threads = torch.get_num_threads()
        torch.set_num_threads(threads if runs_torch else 1)
        self._flush_buffer.add_(1)
        torch.set_num_threads(threads)


class LibraryThreads:
    """Threads of the libraries beside torch that a person's code calls, such as NumPy's BLAS."""

    def __init__(self) -> None:
        """Know no library yet."""
        self._pools: tuple[Any, ...] = ()
        self._used = 0

    def look(self) -> None:
        """Look for libraries; code may have loaded more. Finds none if the interpreter lacks threadpoolctl."""
        with suppress(ImportError):
            from threadpoolctl import ThreadpoolController

            self._pools, self._used = tuple(ThreadpoolController().select(user_api="blas").lib_controllers), 0

    def use(self, threads: int) -> None:
        """Let all of them use so many threads."""
        if threads != self._used:
            self._used = threads
            for pool in self._pools:
                pool.set_num_threads(threads)

    @property
    def can_be_set(self) -> bool:
        """Return whether there is a library whose threads can be set."""
        return bool(self._pools)


def flushes_denormals() -> bool:
    """Return whether this thread treats denormals as zero."""
    import torch

    return bool((torch.full((1,), 1e-40) * 1.0).item() == 0.0)


def has_denormals(tensor: Any) -> bool:
    """Return whether one of the first million elements that a tensor stores is denormal; False without floats."""
    import torch

    numbers = stored(tensor)[-1]
    if not numbers.is_floating_point():
        return False
    magnitudes = numbers.detach().reshape(-1)[:CHECKED_ELEMENTS].abs()
    return bool(((magnitudes > 0) & (magnitudes < torch.finfo(magnitudes.dtype).tiny)).any())
