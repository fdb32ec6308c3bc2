"""cpugpu-tui: is the GPU really faster for this work, from which size on, and why not before?

Public names are lazy, so that importing the package costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
"""True for type checkers. `typing` itself takes 10 ms, in which ctrl+c cannot be anything but a traceback."""
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.2.0"
__all__ = ["Workload", "__version__", "workload"]


def __getattr__(name: str) -> Any:
    if name in {"workload", "Workload"}:
        from cpugpu_tui.workloads import contract

        return getattr(contract, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
