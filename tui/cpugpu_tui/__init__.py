"""cpugpu-tui: time the same torch work on CPU and GPU, and see from which size the GPU is faster.

Public names are loaded on first use, so that importing the package is fast.
"""

from __future__ import annotations

TYPE_CHECKING = False
"""True for type checkers. Importing `typing` takes 10 ms, in which ctrl+c would print a traceback."""
if TYPE_CHECKING:
    from typing import Any

    from cpugpu_tui.api.comparing import ComparedRow, Comparison, compare
    from cpugpu_tui.api.timing import Result, TimedRow, crossover, load, time_on
    from cpugpu_tui.errors import CpuGpuError, UnfitError, UsageError
    from cpugpu_tui.workloads.contract import Workload, workload

__version__ = "0.3.0"
__all__ = [
    "ComparedRow",
    "Comparison",
    "CpuGpuError",
    "Result",
    "TimedRow",
    "UnfitError",
    "UsageError",
    "Workload",
    "__version__",
    "compare",
    "crossover",
    "load",
    "time_on",
    "workload",
]

_PLACES = {
    "workload": "workloads", "Workload": "workloads", "crossover": "api.timing",
    "time_on": "api.timing", "Result": "api.timing", "load": "api.timing", "compare": "api.comparing",
    "Comparison": "api.comparing", "ComparedRow": "api.comparing", "TimedRow": "api.timing", "CpuGpuError": "errors",
    "UsageError": "errors", "UnfitError": "errors",
}  # fmt: skip
"""Public name → its module in this package."""


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
