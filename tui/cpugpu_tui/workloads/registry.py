"""All registered workloads, by name: the built-in ones, and a person's own where they are loaded."""

from __future__ import annotations

from cpugpu_tui import model
from cpugpu_tui.errors import UsageError

# Importing registers.
from cpugpu_tui.workloads import elementwise, jacobian, matmul, mnist_networks, transfer, vector_dot  # noqa: F401
from cpugpu_tui.workloads.contract import REGISTRY, Costs, Workload
from cpugpu_tui.workloads.families import data, linear_algebra, networks, tables, transformers, vision  # noqa: F401


def catalogue() -> tuple[model.WorkloadInfo, ...]:
    """Return the description of every registered workload."""
    return tuple(item.info() for item in REGISTRY.values())


def find(name: str) -> Workload:
    """Return a workload by name.

    Raises:
        UsageError: no workload has this name.
    """
    if name not in REGISTRY:
        raise UsageError(f"Unknown workload {name!r}.", f"Choose one of: {', '.join(REGISTRY)}.")
    return REGISTRY[name]


def is_compiled(case: model.Case) -> bool:
    """Return whether the harness compiles the step of a case."""
    return find(case.workload).is_compiled(case.variant)


def case_costs(case: model.Case) -> Costs:
    """Return the FLOPs, memory traffic and memory of one call of a case.

    Raises:
        UsageError: its workload is not registered in this process.
    """
    return find(case.workload).costs(case.variant, case.size, model.ITEMSIZE_BYTES[case.dtype])
