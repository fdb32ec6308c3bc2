"""A step with its inputs on one device; and what a publication's clock had inside, with what it reports meanwhile."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat
from time import perf_counter_ns
from typing import Any

import cpugpu_tui.workloads as catalogue
from cpugpu_tui.model import AS_WRITTEN, SYNCED, SYSTEM, USER, Case, EpochFinished, Progressed, torch_dtype
from cpugpu_tui.timing.emitter import Emit
from cpugpu_tui.timing.timers import CaseError, Stopped
from cpugpu_tui.workloads import Report, Workload
from cpugpu_tui.workloads.code_workload import CodeWorkload
from cpugpu_tui.workloads.operators import settings


@dataclass
class Operation:
    """A case on one device."""

    case: Case
    workload: Workload
    step: Callable[..., Any]
    inputs: tuple[Any, ...]
    """What the step takes: placed on the device."""
    host_inputs: tuple[Any, ...]
    """What `Workload.inputs` returned."""
    out: Any = None
    """Result of the first call, reused as `out=` where the step takes one."""
    pinned: tuple[Any, ...] | None = None
    """Copies of the host inputs in pinned memory, made when they are first needed."""
    host_result: dict[bool, Any] = field(default_factory=dict)
    """Where end-to-end calls leave their result on the host: pageable, pinned."""
    restore: Callable[[], None] | None = None
    """Puts the inputs back before each call, outside the clock, where the step changes them."""
    waits_for_all: bool = False
    """Whether the step queues work on streams of its own, so that a wait for one stream is not enough."""
    expected: Sequence[Any] | None = None
    """Parts of the results of each set of inputs, of a person's own code; None where they cannot be compared."""
    settings: Mapping[str, Any] | None = None
    """Settings of torch before the first call, of a person's own code."""
    marks: tuple[str, ...] | None = None
    """What is odd about the case itself on this device; None until somebody looked."""

    @property
    def is_written_as_called(self) -> bool:
        """Whether a publication timed exactly this first call."""
        written = self.workload.as_written
        scale = self.workload.setting.scale
        return written is not None and not written.whole and written.covers(self.case.variant, self.case.size, scale)

    @cached_property
    def plainly_placed(self) -> bool:
        """Whether placing means nothing but moving each tensor."""
        import torch

        return self.workload.is_placed_plainly and all(isinstance(each, torch.Tensor) for each in self.host_inputs)

    @cached_property
    def takes_out(self) -> bool:
        """Whether the step can write its result into a given tensor."""
        return "out" in inspect.signature(self.step).parameters

    def to_check(self, result: Any) -> Any:
        """Return what is compared between devices: the step's result unless the workload says otherwise."""
        if type(self.workload).checked is Workload.checked:
            return self.workload.comparable(result)
        checked = self.workload.checked(self.case.variant, self.inputs)
        self.workload.reset(self.case.variant, self.inputs)
        return checked


def operation(case: Case, inputs: tuple[Any, ...], device: str) -> Operation:
    """Return the operation of a case on a device, from its host inputs."""
    workload = catalogue.find(case.workload)
    placed = workload.place(case.variant, inputs, device)
    found = Operation(case, workload, workload.step_for(case.variant, placed), placed, inputs)
    if isinstance(workload, CodeWorkload):
        found.settings = settings()
    return found


def time_written(
    case: Case, device: str, report: Report, synchronize: Callable[[], None] | None, import_ns: float
) -> dict[str, tuple[float, ...]]:
    """Run what the publication had inside its clock, and read the clock when it did: before the device was done.

    `import_ns` is the time that importing the framework took, for clocks that have it inside.
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
"""A long operation says how far it is once a second: writing an event costs it about 30 µs."""


class Reporter:
    """Hands on what one `Workload.written` reports; implements `workloads.Report`."""

    def __init__(self, case: Case, device: str, emit: Emit, over: Callable[[], bool]) -> None:
        """`over` tells whether the run is to end: a stop was asked for, or its time is up."""
        self._case = case
        self._device = device
        self._emit = emit
        self._over = over
        self._started_ns = self._told_ns = self.stopwatch_ns()

    def __call__(self, done: int, of: int, note: str = "") -> None:
        """Say that `done` of `of` parts are over.

        Raises:
            Stopped: the run is to end.
        """
        if self._over():
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
        """Hand on how an epoch went.

        Raises:
            CaseError: the training has diverged.
        """
        if not math.isfinite(loss):
            raise CaseError(
                "mismatch",
                f"The training diverged in epoch {epoch}: its loss is {loss}.",
                "Do not trust a time of this case; try another dtype.",
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
        """Return the harness's monotonic clock."""
        return float(perf_counter_ns())
