"""The workloads, their registry, and the presets. Nothing here reads a clock; torch is imported only to run a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cpugpu_tui.workloads.contract import REGISTRY, AsWritten, Costs, Report, Setting, Step, Workload, workload
    from cpugpu_tui.workloads.presets import PRESETS, Part, Preset
    from cpugpu_tui.workloads.registry import case_costs, catalogue, find, is_compiled

__all__ = [
    "PRESETS",
    "REGISTRY",
    "AsWritten",
    "Costs",
    "Part",
    "Preset",
    "Report",
    "Setting",
    "Step",
    "Workload",
    "case_costs",
    "catalogue",
    "find",
    "is_compiled",
    "workload",
]


def __getattr__(name: str) -> Any:
    """Import at first use. Presets are loaded without workloads, which saves 10 ms until the app's first frame."""
    from importlib import import_module

    if name in __all__:
        for part in ("presets", "registry", "contract"):
            found = vars(import_module(f"{__name__}.{part}"))
            if name in found:
                return found[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
