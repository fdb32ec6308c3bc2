"""A step with its inputs on one device; a publication's clock that covers more than a call; its progress reports.

Also copies of results back to the host, into memory whose pages are mapped before a call is timed.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat
from time import perf_counter_ns
from types import CodeType
from typing import Any

import cpugpu_tui.workloads as catalogue
from cpugpu_tui.model import AS_WRITTEN, SYNCED, SYSTEM, USER, Case, EpochFinished, Progressed, torch_dtype
from cpugpu_tui.timing.channel import Emit
from cpugpu_tui.timing.timers import CaseError, Stopped
from cpugpu_tui.workloads import Report, Workload
from cpugpu_tui.workloads.code_workload import CodeWorkload
from cpugpu_tui.workloads.containers import copied, defined_numbers, holds_modules, tensors
from cpugpu_tui.workloads.operators import settings
from cpugpu_tui.workloads.two_implementations import TwoImplementations

OWN = CodeWorkload, TwoImplementations
"""Kinds of a person's own code."""


@dataclass
class Operation:
    """A case on one device."""

    case: Case
    workload: Workload
    step: Callable[..., Any]
    inputs: tuple[Any, ...]
    """Arguments of the step, on the device."""
    host_inputs: tuple[Any, ...]
    """Result of `Workload.inputs`."""
    out: Any = None
    """Result of the first call, reused as `out=` if the step takes it."""
    pinned: tuple[Any, ...] | None = None
    """Copies of the host inputs in pinned memory, created on first use."""
    copy_result: dict[bool, Callable[..., Any]] = field(default_factory=dict)
    """Is pinned → what copies a result into host buffers, created on first use."""
    has_end_to_end: bool = True
    """Whether calls with copies can be timed."""
    restore: Callable[[], None] | None = None
    """Puts the inputs back before each call, outside the clock, where the step changes them. Only `spans` calls it."""
    waits_for_all: bool = False
    """Whether the step queues work on streams of its own, so that a wait for one stream is not enough."""
    waits_itself: bool = False
    """Whether the step waits for its own work, on whatever streams."""
    stream_seen: bool = False
    """Whether torch's events on its own stream span all work of a call, so that kernel time can be measured."""
    runs_torch: bool = True
    """Whether a call runs operators of torch. Of a person's own code known once it was examined."""
    expected: Sequence[Any] | None = None
    """Parts of the results of each set of inputs, of a person's own code; None where they cannot be compared."""
    settings: Mapping[str, Any] | None = None
    """Settings of torch before the first call, of a person's own code."""
    own_marks: tuple[str, ...] = ()
    """Marks found while a person's own code was examined."""
    compiled: tuple[CodeType, CodeType] | None = None
    """Code of the step that torch compiled, and its compiled form; None for other steps."""
    compiled_for: tuple[int, bool] = (0, False)
    """CPU threads, and whether TF32 was allowed, when it was compiled."""
    marks: tuple[str, ...] | None = None
    """Marks of the case itself on this device; None before they were determined."""

    @property
    def is_written_as_called(self) -> bool:
        """Return whether a publication timed exactly this first call."""
        written = self.workload.as_written
        scale = self.workload.setting.scale
        return written is not None and not written.whole and written.covers(self.case.variant, self.case.size, scale)

    @cached_property
    def plainly_placed(self) -> bool:
        """Return whether `place` only copies tensors."""
        import torch

        return self.workload.is_placed_plainly and all(isinstance(each, torch.Tensor) for each in self.host_inputs)

    @cached_property
    def takes_out(self) -> bool:
        """Return whether the step accepts `out=`."""
        if self.workload.is_compiled(self.case.variant):
            return False
        # Not of `self.step`: torch's own functions, which a workload may return for it, have no signature.
        return "out" in inspect.signature(self.workload.variant(self.case.variant)).parameters

    def set_as_compiled(self) -> None:
        """Restore the threads and TF32 of its compilation. Other cases change them, and torch would compile again."""
        if self.compiled is not None:
            import torch

            threads, torch.backends.cuda.matmul.allow_tf32 = self.compiled_for
            torch.set_num_threads(threads)

    @property
    def can_queue(self) -> bool:
        """Return whether calls can follow each other without a pause."""
        return self.restore is None

    def spans(self, calls: int, longest: int = 1) -> Iterator[int]:
        """Yield how many calls to time next, at most `longest`, `calls` in all; restore the inputs before each span."""
        longest = longest if self.can_queue else 1
        for done in range(0, calls, longest):
            if self.restore is not None:
                self.restore()
            yield min(longest, calls - done)

    def to_check(self, result: Any) -> Any:
        """Return what to compare between devices: the step's result, or the workload's `checked`."""
        if type(self.workload).checked is not Workload.checked:
            checked = self.workload.checked(self.case.variant, self.inputs)
            self.workload.reset(self.case.variant, self.inputs)
            return checked
        # A person's code may return its inputs or what it keeps, which later calls change.
        return copied(defined_numbers(result)) if isinstance(self.workload, OWN) else result


def operation(case: Case, inputs: tuple[Any, ...], device: str) -> Operation:
    """Return the operation of a case on a device, with the host inputs placed there."""
    workload = catalogue.find(case.workload)
    placed = workload.place(case.variant, inputs, device)
    found = Operation(case, workload, workload.step_for(case.variant, placed), placed, inputs)
    # A model stays on the device between calls, so no call includes copying it.
    copied_inputs = inputs[workload.stays :]
    found.has_end_to_end = workload.has_end_to_end and not (workload.is_placed_plainly and holds_modules(copied_inputs))
    if isinstance(workload, OWN):
        found.settings = settings()
    return found


def time_written(
    case: Case, device: str, report: Report, synchronize: Callable[[], None] | None, import_ns: float
) -> dict[str, tuple[float, ...]]:
    """Run the publication's timed code; return the time without waiting for the device, as it did, and with waiting.

    `import_ns` is the time to import the framework, for clocks that include it.
    """
    import torch

    workload = catalogue.find(case.workload)
    written = workload.as_written
    assert written is not None
    dtype = getattr(torch, torch_dtype(case.dtype))

    def run() -> dict[str, float]:
        return dict(workload.written(case.variant, case.size, dtype, device, report))

    for _ in repeat(None, written.calls_before):
        run()
    cpu_before = os.times()
    started = perf_counter_ns()
    for _ in repeat(None, written.calls):
        more = run()
    printed = float(perf_counter_ns() - started)
    cpu_after = os.times()
    synced = printed
    if synchronize is not None:
        synchronize()
        synced = float(perf_counter_ns() - started)
    added = import_ns if written.imports else 0.0
    singles: dict[str, tuple[float, ...]] = {AS_WRITTEN: (printed + added,), SYNCED: (synced + added,)}
    if written.cpu_seconds:
        singles[USER] = ((cpu_after.user - cpu_before.user) * 1e9,)
        singles[SYSTEM] = ((cpu_after.system - cpu_before.system) * 1e9,)
    singles.update((name, (value,)) for name, value in more.items())
    return singles


TELL_EVERY_NS = 1e9
"""Interval of progress events of a long operation, ns: writing one takes about 30 µs."""


class Reporter:
    """Turns the reports of `Workload.written` into events; implements `workloads.Report`."""

    def __init__(self, case: Case, device: str, emit: Emit, should_stop: Callable[[], bool]) -> None:
        """`should_stop` returns True once the run must end."""
        self._case = case
        self._device = device
        self._emit = emit
        self._should_stop = should_stop
        self._started_ns = self._told_ns = self.stopwatch_ns()

    def __call__(self, done: int, of: int, note: str = "") -> None:
        """Report that `done` of `of` parts are complete.

        Raises:
            Stopped: the run must end.
        """
        if self._should_stop():
            raise Stopped
        now_ns = self.stopwatch_ns()
        if now_ns - self._told_ns < TELL_EVERY_NS:
            return
        self._told_ns = now_ns
        elapsed_s = (now_ns - self._started_ns) / 1e9
        self._emit(
            Progressed(
                case=self._case.key,
                device=self._device,
                phase="as written",
                elapsed_s=elapsed_s,
                estimate_s=elapsed_s * of / done if done else None,
                note=note,
            )
        )
        self._emit.flush()

    def epoch(
        self, epoch: int, epochs: int, loss: float, accuracy: float | None, elapsed_ns: float, steps: int
    ) -> None:
        """Report a finished epoch.

        Raises:
            CaseError: the training has diverged.
        """
        if not math.isfinite(loss):
            raise CaseError(
                "mismatch",
                f"The training diverged in epoch {epoch}: its loss is {loss}.",
                "Do not use the times of this case. Try another dtype.",
            )
        self._emit(
            EpochFinished(
                case=self._case.key,
                device=self._device,
                epoch=epoch,
                epochs=epochs,
                loss=loss,
                accuracy=accuracy,
                elapsed_ns=elapsed_ns,
                steps=steps,
            )
        )
        self._emit.flush()

    def stopwatch_ns(self) -> float:
        """Return the harness's monotonic clock, ns."""
        return float(perf_counter_ns())


# ------------------------------------------------------------------ copies of results to the host


def copier(result: Any, *, pinned: bool) -> Callable[..., Any]:
    """Return what copies results like this one into host buffers of their own, and returns these.

    The results of data-dependent code (`nms`, a boolean mask) have another size for other inputs, so a buffer grows
    when a result does not fit.
    """
    import torch

    def copy_one(at: int, each: Any, non_blocking: bool) -> Any:
        if targets[at].shape != each.shape:
            targets[at] = reshaped(targets[at], each, pinned=pinned)
        return targets[at].copy_(each, non_blocking=non_blocking)

    def copy_only(found: Any, *, non_blocking: bool = False) -> Any:
        if found.shape == shape:  # 0.1 µs, and a walk through containers would add 2 µs to a call
            return copy_first(found, non_blocking)
        return copy_one(0, found, non_blocking)

    def copy_all(found: Any, *, non_blocking: bool = False) -> list[Any]:
        return [copy_one(at, each, non_blocking) for at, each in enumerate(tensors(found))]

    targets = [torch.zeros(each.shape, dtype=each.dtype, pin_memory=pinned) for each in tensors(result)]
    if not isinstance(result, torch.Tensor):
        return copy_all
    shape, copy_first = result.shape, targets[0].copy_
    return copy_only


def reshaped(buffer: Any, result: Any, *, pinned: bool) -> Any:
    """Return a host buffer in the shape of a result: this buffer's memory if it suffices, else twice what is needed."""
    import torch

    if buffer.untyped_storage().nbytes() < result.nbytes:
        buffer = torch.zeros(2 * result.numel(), dtype=result.dtype, pin_memory=pinned)
    made: Any = torch.empty(0, dtype=result.dtype)
    return made.set_(buffer.untyped_storage(), 0, result.shape)
