"""Data types that all rooms share: plans, cases, devices, events, readings.

Frozen dataclasses with the standard library only and Python 3.10 syntax, because the agent imports this package in any
interpreter that has torch. Names end with their unit (`elapsed_ns`). Import any of them from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# ruff: noqa: F403 - lists of all these names would be second copies of them
from cpugpu_tui.model.devices import *
from cpugpu_tui.model.event import *
from cpugpu_tui.model.plans import *
from cpugpu_tui.model.simulation import Simulation as Simulation

if TYPE_CHECKING:
    from cpugpu_tui.model.events import *


def __getattr__(name: str) -> Any:
    """Load the events when the first one is needed: the app's first frame needs none and would wait 13 ms."""
    from importlib import import_module

    events = vars(import_module(f"{__name__}.events"))
    globals().update({each: value for each, value in events.items() if not each.startswith("_")})
    if name not in events:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return events[name]
