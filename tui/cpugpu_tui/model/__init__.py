"""Data types that all rooms share: plans, cases, devices, events, readings.

Frozen dataclasses with the standard library only and Python 3.10 syntax, because the agent imports this package in any
interpreter that has torch. Names end with their unit (`elapsed_ns`). Import any of them from here.
"""

from __future__ import annotations

from cpugpu_tui.model.devices import *
from cpugpu_tui.model.events import *

# ruff: noqa: F403 - lists of all these names would be second copies of them
from cpugpu_tui.model.line_costs import CodeCompiled as CodeCompiled
from cpugpu_tui.model.line_costs import CodeTraced as CodeTraced
from cpugpu_tui.model.line_costs import LineCost as LineCost
from cpugpu_tui.model.line_costs import LinesProfiled as LinesProfiled
from cpugpu_tui.model.plain_data import Event as Event
from cpugpu_tui.model.plans import *
from cpugpu_tui.model.simulation import Simulation as Simulation
