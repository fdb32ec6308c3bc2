"""Data types that all rooms share: plans, cases, devices, events, readings.

Frozen dataclasses with the standard library only and Python 3.10 syntax, because the agent imports this package in any
interpreter that has torch. Names end with their unit (`elapsed_ns`). Import any of them from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # ruff: noqa: F403 - lists of all these names would be second copies of them
    from cpugpu_tui.model.catalogue import *
    from cpugpu_tui.model.devices import *
    from cpugpu_tui.model.event import *
    from cpugpu_tui.model.events import *
    from cpugpu_tui.model.names import *
    from cpugpu_tui.model.plans import *
    from cpugpu_tui.model.simulation import Simulation as Simulation

_PARTS = ("names", "catalogue", "event", "simulation", "devices", "plans", "events")
"""Modules in the order in which they are searched: those that take long to load last."""


def __getattr__(name: str) -> Any:
    """Load parts until one has the name. All of them take 40 ms, for 52 classes; a list of runs needs none."""
    from importlib import import_module

    if not name.startswith("_"):
        for part in _PARTS:
            found = vars(import_module(f"{__name__}.{part}"))
            if name in found:
                globals()[name] = found[name]
                return found[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
