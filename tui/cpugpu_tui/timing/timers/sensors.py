"""What the driver of a simulated device would say: planted power, throttling and neighbours, on virtual time."""

from __future__ import annotations

import math
import os
from typing import Protocol

from cpugpu_tui.machine.edges import EDGE_KEYS, UNKNOWN, Edge, State
from cpugpu_tui.machine.rapl import TICK_NS as CPU_TICK_NS
from cpugpu_tui.model import Device, GpuProcess, Reading, Simulation
from cpugpu_tui.timing.edges import GPU_TICK_NS

ENERGY_COST_NS = 2.8e6
"""What reading a GPU's energy takes (method.md): whoever does it inside a timed block will see it there."""

OWN_BYTES, NEIGHBOUR_BYTES = 500 << 20, 1 << 30
"""GPU memory of this process, and of the planted neighbour."""


class HostClock(Protocol):
    """The virtual clock."""

    now_ns: float

    def advance(self, elapsed_ns: float) -> None:
        """Let virtual time pass."""


class Sensors:
    """The sensors of one device; a `timing.timers.Watcher`."""

    def __init__(self, laws: Simulation, clock: HostClock, device: Device) -> None:
        self._laws = laws
        self._clock = clock
        self._is_cpu = device.is_cpu
        self.tick_ns = CPU_TICK_NS if device.is_cpu else GPU_TICK_NS
        self.scope = "package" if device.is_cpu else "gpu"
        self._busy_ns = 0.0
        self._clock_mhz: float | None = None
        self._is_throttled = False
        self._throttled_ns, self._counted_at_ns = laws.counted_before_ns, 0.0
        self._shown_mj, self._last_ns, self._last_mj = 0.0, 0.0, 0.0

    # ---------------------------------------------------------------- what happens to the device

    def work(self, busy_ns: float) -> None:
        """The device is busy for so long."""
        self._busy_ns += busy_ns

    def begin_half(self, clock_mhz: float | None, *, is_throttled: bool) -> None:
        """A half-round begins at this clock."""
        self._count_throttled()
        self._clock_mhz, self._is_throttled = clock_mhz, is_throttled

    # ---------------------------------------------------------------- what the driver says of it

    def edge(self) -> Edge | None:
        """Return clock, mask and counters; None on the CPU."""
        if self._is_cpu:
            return None
        throttled = {"power-capped": 0.0, "sync-boost": 0.0, "thermal": self._count_throttled()}
        words = ("thermal",) if self._is_throttled else ()
        return Edge(self.clock_ns(), self._clock_mhz, words, throttled, self._planted_power())

    def state(self) -> State | None:
        """Return what is planted, and a reason for the rest; None on the CPU."""
        if self._is_cpu:
            return None
        laws = self._laws
        planted = {
            "sm_clock_mhz": self._clock_mhz or laws.sm_clock_mhz or None,
            "temperature_c": laws.temperature_c or None,
            "memory_used_bytes": float(OWN_BYTES + (NEIGHBOUR_BYTES if laws.neighbour_pid else 0)),
            "throttled_power_cap_ns": 0.0,
            "throttled_sync_boost_ns": 0.0,
            "throttled_thermal_ns": self._count_throttled(),
            "throttled_hw_thermal_ns": 0.0,
            "throttled_power_brake_ns": 0.0,
        }
        readings = {key: UNKNOWN if value is None else Reading(value) for key, value in planted.items()}
        readings["energy_mj"] = self.energy_mj()
        return State({key: readings[key] for key in EDGE_KEYS}, self._processes())

    def energy_mj(self) -> Reading:
        """Return the energy as of the counter's last step; reading it takes virtual time."""
        if not self._power_w():
            return UNKNOWN
        self._clock.advance(0.0 if self._is_cpu else ENERGY_COST_NS)
        now_ns, now_mj = self.clock_ns(), self._energy_mj()
        step_ns = math.floor(now_ns / self.tick_ns) * self.tick_ns
        if step_ns > self._last_ns:
            # Between two readings the energy grows evenly; the counter shows it as it was at its last step.
            share = (step_ns - self._last_ns) / (now_ns - self._last_ns)
            self._shown_mj = self._last_mj + share * (now_mj - self._last_mj)
        self._last_ns, self._last_mj = now_ns, now_mj
        return Reading(self._shown_mj)

    def power_mw(self) -> Reading:
        """Return the GPU's mean power since the energy was last read."""
        if self._is_cpu or not self._laws.gpu_busy_w:
            return UNKNOWN
        since_ns = max(self.clock_ns() - self._last_ns, 1.0)
        return Reading((self._energy_mj() - self._last_mj) / since_ns * 1e9)

    def clock_ns(self) -> float:
        """Return the virtual clock."""
        return self._clock.now_ns

    def rest(self, duration_ns: float) -> None:
        """Let virtual time pass."""
        self._clock.advance(duration_ns)

    # ---------------------------------------------------------------- inside

    def _planted_power(self) -> Reading:
        """Return the power at work: at an edge the GPU has just been at it."""
        return Reading(self._laws.gpu_busy_w * 1e3) if self._laws.gpu_busy_w else UNKNOWN

    def _power_w(self) -> float:
        return self._laws.cpu_busy_w if self._is_cpu else self._laws.gpu_busy_w

    def _energy_mj(self) -> float:
        """Return the true energy so far; W × ns is nJ."""
        idle_w = self._power_w() if self._is_cpu else self._laws.gpu_idle_w
        return (idle_w * self.clock_ns() + (self._power_w() - idle_w) * self._busy_ns) / 1e6

    def _count_throttled(self) -> float:
        now_ns = self.clock_ns()
        if self._is_throttled:
            self._throttled_ns += now_ns - self._counted_at_ns
        self._counted_at_ns = now_ns
        return self._throttled_ns

    def _processes(self) -> tuple[GpuProcess, ...]:
        own = GpuProcess(os.getpid(), OWN_BYTES, None, "simulated agent", own=True)
        pid = self._laws.neighbour_pid
        return (own, GpuProcess(pid, NEIGHBOUR_BYTES, None, None, own=False)) if pid else (own,)
