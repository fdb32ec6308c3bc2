"""Times torch operations on the host's processor."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat
from time import perf_counter_ns
from typing import Any

import cpugpu_tui.workloads as catalogue
from cpugpu_tui.bench.timers import DeviceSamples, FirstCall
from cpugpu_tui.model import AS_WRITTEN, COLD_START, SYNCED, Case, Device
from cpugpu_tui.workloads import AsWritten, Workload

FLUSH_CAP_BYTES = 128 << 20
"""Most memory walked to flush the CPU's caches: about 25 ms; a last level above 64 MiB is flushed in part only,
which the environment of a run records."""


@dataclass
class Operation:
    """A step with its inputs on one device, ready to be called."""

    case: Case
    workload: Workload
    step: Callable[..., Any]
    inputs: tuple[Any, ...]
    out: Any = None
    """Result of the first call, reused as `out=` where the step takes one."""

    @property
    def written(self) -> AsWritten | None:
        """The publication's clock, if this variant is what a publication ran."""
        written = self.workload.as_written
        return written if written is not None and self.case.variant in written.variants else None


def operation(case: Case, inputs: tuple[Any, ...]) -> Operation:
    """Return the operation of a case on given inputs."""
    workload = catalogue.find(case.workload)
    return Operation(case, workload, workload.variant(case.variant), inputs)


def takes_out(step: Callable[..., Any]) -> bool:
    """Whether the step can write its result into a given tensor."""
    return "out" in inspect.signature(step).parameters


class CpuTimer:
    """Wall time on the CPU; calls return when the work is done, so nothing is waited for."""

    def __init__(self, device: Device, flush_bytes: int, default_threads: int, *, cold: bool) -> None:
        self.device = device
        self._default_threads = default_threads
        self._flush_bytes = min(flush_bytes, FLUSH_CAP_BYTES) if cold else 0
        self._flush_buffer: Any = None
        self._process_is_cold = True

    def threads(self) -> int:
        """Return the intra-op threads in force."""
        import torch

        return torch.get_num_threads()

    def load(self, case: Case, inputs: tuple[Any, ...]) -> Operation:
        """Use the host inputs as they are."""
        return operation(case, inputs)

    def _use_threads(self, case: Case) -> None:
        import torch

        wanted = case.threads or self._default_threads
        if torch.get_num_threads() != wanted:
            torch.set_num_threads(wanted)

    def first_call(self, op: Operation) -> FirstCall:
        """Time the first call; where the publication's clock covers more than that, run it as well."""
        self._use_threads(op.case)
        started = perf_counter_ns()
        result = op.step(*op.inputs)
        elapsed = float(perf_counter_ns() - started)
        singles = {COLD_START: (elapsed,)} if self._process_is_cold else {}
        self._process_is_cold = False
        if op.written is not None:
            written = self._as_written(op, op.written) if op.written.makes_inputs else elapsed
            singles |= {AS_WRITTEN: (written,), SYNCED: (written,)}
        if takes_out(op.step):
            op.out = result
        return FirstCall(elapsed, singles, result)

    def _as_written(self, op: Operation, written: AsWritten) -> float:
        call = written_call(op, "cpu")
        for _ in repeat(None, written.calls_before):
            call()
        started = perf_counter_ns()
        for _ in repeat(None, written.calls):
            call()
        return float(perf_counter_ns() - started)

    def latency_block(self, op: Operation, calls: int) -> float:
        """Return the mean wall time of `calls` calls in a row, ns per call."""
        self._use_threads(op.case)
        step, inputs = op.step, op.inputs
        started = perf_counter_ns()
        for _ in repeat(None, calls):
            step(*inputs)
        return (perf_counter_ns() - started) / calls

    def device_samples(self, op: Operation, count: int) -> DeviceSamples:
        """Time single calls with flushed caches and a preallocated result where the step takes one."""
        self._use_threads(op.case)
        step, inputs = op.step, op.inputs
        keywords = {} if op.out is None else {"out": op.out}
        samples = []
        for _ in repeat(None, count):
            self._flush()
            started = perf_counter_ns()
            step(*inputs, **keywords)
            samples.append(float(perf_counter_ns() - started))
        return DeviceSamples(tuple(samples))

    def _flush(self) -> None:
        """Walk twice the last-level cache, so that neither inputs nor result are left in it."""
        if not self._flush_bytes:
            return
        import torch

        if self._flush_buffer is None:
            self._flush_buffer = torch.ones(self._flush_bytes // 4, dtype=torch.int32)
        self._flush_buffer.add_(1)


def written_call(op: Operation, device: str) -> Callable[[], object]:
    """Return what the publication ran between two readings of its clock, inputs included."""
    import torch

    size, dtype = op.case.size, getattr(torch, op.case.dtype)
    return lambda: op.workload.written_call(size, dtype, device)
