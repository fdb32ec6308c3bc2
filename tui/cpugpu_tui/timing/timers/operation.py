"""A step with its inputs on one device, ready to be called; and what a publication's clock had inside."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat
from time import perf_counter_ns
from typing import Any

import cpugpu_tui.workloads as catalogue
from cpugpu_tui.model import AS_WRITTEN, SYNCED, SYSTEM, USER, Case, torch_dtype
from cpugpu_tui.workloads import Report, Workload


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
        """Whether placing means nothing but moving each input."""
        return type(self.workload).place is Workload.place

    @cached_property
    def takes_out(self) -> bool:
        """Whether the step can write its result into a given tensor."""
        return "out" in inspect.signature(self.step).parameters

    def to_check(self, result: Any) -> Any:
        """Return what is compared between devices: the step's result unless the workload says otherwise."""
        if type(self.workload).checked is Workload.checked:
            return result
        checked = self.workload.checked(self.case.variant, self.inputs)
        self.workload.reset(self.case.variant, self.inputs)
        return checked


def operation(case: Case, inputs: tuple[Any, ...], device: str) -> Operation:
    """Return the operation of a case on a device, from its host inputs."""
    workload = catalogue.find(case.workload)
    placed = workload.place(case.variant, inputs, device)
    return Operation(case, workload, workload.variant(case.variant), placed, inputs)


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
