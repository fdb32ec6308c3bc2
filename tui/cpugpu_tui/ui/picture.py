"""All that the screen shows, as one immutable value: panes are pure functions of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cpugpu_tui.analysis.what_if import RESIDENT
from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.model import Ceilings
from cpugpu_tui.runs.planning import PlanRequest
from cpugpu_tui.runs.state import RunState, TelemetryState
from cpugpu_tui.ui.commands import Situation


@dataclass(frozen=True)
class Picture:
    """The app at one moment."""

    run: RunState = field(default_factory=RunState)
    telemetry: TelemetryState = field(default_factory=TelemetryState)
    situation: Situation = field(default_factory=Situation)
    request: PlanRequest = field(default_factory=PlanRequest)
    """What `r` would run now."""
    environment: Mapping[str, Any] = field(default_factory=dict)
    """The standby agent's facts; empty until it has said hello."""
    agent_ready: bool = False
    problem: CpuGpuError | None = None
    """Why nothing can be run, or why the last wish was refused."""
    notice: str | None = None
    """What the person should know all the time, such as `not saved`."""
    worker: str = "process"
    """`process` or `thread`."""
    repeat_number: int = 1
    """Which run of its series this is, from 1."""
    repeats: int = 1
    """Runs of the series."""
    step_s: float = 0.0
    """How long the current operation has been going on, as far as the app knows."""
    ceilings: tuple[Ceilings, ...] = ()
    """What the devices of this machine reached when they were last measured."""
    calibrating: str = ""
    """What is being measured right now, for the machine card; empty while nothing is."""
    calibration_remark: str = ""
    """Why the last calibration did not measure a device, cause and remedy; empty if it did."""
    cursor: str | None = None
    """Key of the highlighted row."""
    what_if: str = RESIDENT
    """World that chart and answer show beside the measured one (`WhatIf.key`)."""
    linear_sizes: bool = False
    """Whether the chart's axis of sizes is even instead of logarithmic."""
    linear_times: bool = False
    quitting: bool = False
    replay_tag: str = ""
    """`REPLAY`, and what more must be said of where the readings come from; empty where they are this machine's."""
    replay: str = ""
    """Name of the trace that is replayed; empty without one."""
    replay_of: str = ""
    """What that trace is one of: GPU, driver, date."""

    @property
    def simulated(self) -> bool:
        """Whether the numbers are, or would be, made up."""
        return self.run.simulated or self.request.simulation is not None
