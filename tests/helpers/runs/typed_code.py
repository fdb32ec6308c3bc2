"""Typed code as an operation. Its workload stays registered until the test ends."""

from typing import Any

import torch

from cpugpu_tui.model import Case
from cpugpu_tui.timing.timers.timed_operation import Operation, operation
from cpugpu_tui.workloads.code_workload import CodeWorkload
from cpugpu_tui.workloads.contract import REGISTRY, Workload
from cpugpu_tui.workloads.own_code import own_code


def typed_workload(statement: str, *setup: str, lets: tuple[tuple[str, str], ...] = (), in_place: bool = False) -> Any:
    """Register typed code; return its workload."""
    workload = CodeWorkload(own_code(statement, "\n".join(setup), lets, in_place=in_place))
    REGISTRY[workload.name] = workload
    return workload


def operation_of(workload: Workload, n: int, device: str = "cpu", **more: Any) -> Operation:
    """Return a case of a workload on a device, with inputs of seed 1."""
    inputs = workload.inputs(n, torch.float32, torch.Generator().manual_seed(1))
    return operation(Case(workload.name, n, **more), inputs, device)


def line(found: Any, text: str) -> Any:
    """Return the cost of the only profiled line that holds a text."""
    (cost,) = (each for each in found.lines if text in each.source_line)
    return cost
