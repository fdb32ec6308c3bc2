"""What a benchmark asks of a device between its timed blocks; never inside one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cpugpu_tui.model import GpuProcess, Reading

UNKNOWN = Reading(None, "not-supported")


@dataclass(frozen=True)
class Edge:
    """The cheap things, at one side of a half-round: a clock, a mask, three counters."""

    at_ns: float
    """When the counters were read, by the clock that they count with."""
    sm_clock_mhz: float | None = None
    throttle: tuple[str, ...] = ()
    """Reasons in force, in words."""
    throttled_ns: Mapping[str, float] = field(default_factory=dict)
    """Reason → time throttled by it since the driver was loaded; only what the driver counts."""
    power_mw: Reading = UNKNOWN
    """Power at the sensor's last look, with its age."""
    is_average_power: bool = False
    """Whether that is an average over a second: drivers before 535 or so have no other."""


@dataclass(frozen=True)
class State:
    """The costly things, at one side of a case."""

    readings: Mapping[str, Reading]
    """Keys of `EDGE_KEYS`, all of them."""
    processes: tuple[GpuProcess, ...] | None = None
    """None when they cannot be listed."""


EDGE_KEYS = (
    "sm_clock_mhz",
    "temperature_c",
    "memory_used_bytes",
    "energy_mj",
    "throttled_power_cap_ns",
    "throttled_sync_boost_ns",
    "throttled_thermal_ns",
    "throttled_hw_thermal_ns",
    "throttled_power_brake_ns",
)
"""What a case's edges hold; the energy counter takes 2.8 to 16 ms on an H200, the last two 0.7 ms (method.md)."""

THROTTLED_KEYS = {
    "power-capped": "throttled_power_cap_ns",
    "sync-boost": "throttled_sync_boost_ns",
    "thermal": "throttled_thermal_ns",
    "hw-thermal": "throttled_hw_thermal_ns",
    "power-brake": "throttled_power_brake_ns",
}
"""Throttle word → its counter at a case's edges."""
