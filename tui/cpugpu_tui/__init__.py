"""cpugpu-tui: time the same torch work on CPU and GPU, and see from which size the GPU is faster.

Public names are loaded on first use, so that importing the package is fast.
"""

from __future__ import annotations

TYPE_CHECKING = False
"""True for type checkers. Importing `typing` takes 10 ms, in which ctrl+c would print a traceback."""
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.2.0"
__all__ = ["Workload", "__version__", "workload"]


def __getattr__(name: str) -> Any:
    if name in {"workload", "Workload"}:
        from cpugpu_tui.workloads import contract

        return getattr(contract, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
