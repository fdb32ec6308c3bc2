"""Sensors of the simulated machine: power, throttling, other processes and a lack of cores."""

from __future__ import annotations

import math
import os
import time
from collections import Counter

from cpugpu_tui.machine.cores import Snapshot, Waited
from cpugpu_tui.machine.device_state import EDGE_KEYS, UNKNOWN, Edge, State
from cpugpu_tui.machine.procfs import TICK_NS as CPU_TICK_NS
from cpugpu_tui.model import Case, CoreUse, CoreUser, Device, GpuProcess, Reading, Simulation
from cpugpu_tui.timing.edges import GPU_TICK_NS
from cpugpu_tui.timing.host_watch import Disturbance

ENERGY_COST_NS = 2.8e6
"""Time to read a GPU's energy (method.md), which shows if it happens inside a timed block."""

OWN_BYTES, NEIGHBOUR_BYTES = 500 << 20, 1 << 30
"""GPU memory of this process, and of the simulated other process."""


class VirtualClock:
    """The virtual clock of the host, ns; with `pace`, virtual time takes real time."""

    def __init__(self, pace: float) -> None:
        self.now_ns = 0.0
        self._pace = pace
        self._owed_ns = 0.0

    def advance(self, elapsed_ns: float) -> None:
        """Let virtual time pass; sleep once the owed real time is worth a system call."""
        self.now_ns += elapsed_ns
        self._owed_ns += elapsed_ns * self._pace
        if self._owed_ns > 1e6:
            time.sleep(self._owed_ns / 1e9)
            self._owed_ns = 0.0


class Sensors:
    """The sensors of one device; a `timing.timers.Watcher`."""

    def __init__(self, laws: Simulation, clock: VirtualClock, device: Device) -> None:
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

    # ---------------------------------------------------------------- events on the device

    def work(self, busy_ns: float) -> None:
        """Record that the device was busy."""
        self._busy_ns += busy_ns

    def begin_half(self, clock_mhz: float | None, *, is_throttled: bool) -> None:
        """Begin a half-round at this clock."""
        self._count_throttled()
        self._clock_mhz, self._is_throttled = clock_mhz, is_throttled

    # ---------------------------------------------------------------- readings from the driver

    def edge(self) -> Edge | None:
        """Return clock, throttle mask, counters and power; None on the CPU."""
        if self._is_cpu:
            return None
        throttled = {"power-capped": 0.0, "sync-boost": 0.0, "thermal": self._count_throttled()}
        words = ("thermal",) if self._is_throttled else ()
        # The power under load, because at an edge the GPU has just worked.
        power_mw = Reading(self._laws.gpu_busy_w * 1e3) if self._laws.gpu_busy_w else UNKNOWN
        return Edge(self.clock_ns(), self._clock_mhz, words, throttled, power_mw)

    def state(self) -> State | None:
        """Return the simulated values, and a reason for all others; None on the CPU."""
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
        """Return the energy at the counter's last step; reading it takes virtual time."""
        if not self._power_w():
            return UNKNOWN
        self._clock.advance(0.0 if self._is_cpu else ENERGY_COST_NS)
        now_ns, now_mj = self.clock_ns(), self._energy_mj()
        step_ns = math.floor(now_ns / self.tick_ns) * self.tick_ns
        if step_ns > self._last_ns:
            # Energy grows evenly between two readings; the counter shows its value at the last step.
            share = (step_ns - self._last_ns) / (now_ns - self._last_ns)
            self._shown_mj = self._last_mj + share * (now_mj - self._last_mj)
        self._last_ns, self._last_mj = now_ns, now_mj
        return Reading(self._shown_mj)

    def power_mw(self) -> Reading:
        """Return the GPU's mean power since the last reading of the energy."""
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

    def _power_w(self) -> float:
        return self._laws.cpu_busy_w if self._is_cpu else self._laws.gpu_busy_w

    def _energy_mj(self) -> float:
        """Return the true energy so far, mJ (W × ns = nJ)."""
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


class PlantedWatch:
    """A `timing.timers.Watch` that reports the simulated disturbance."""

    cores = 2

    def __init__(self, laws: Simulation, clock: VirtualClock) -> None:
        self._laws = laws
        self._clock = clock
        self._tries: Counter[str] = Counter()
        self._device: Device | None = None
        self._began_ns = 0.0
        self._share, self._threads = 0.0, 1

    def half_round(self, case: Case) -> None:
        """Count a half-round of a case on the CPU."""
        self._tries[case.key] += 1

    def slowdown(self, case: Case) -> float:
        """Return the factor of a call's time on the CPU because its threads wait; the case now runs."""
        laws, self._threads = self._laws, case.threads or self.cores
        is_size = laws.starved_size in (0, case.size)
        is_early = not laws.starved_tries or 0 < self._tries[case.key] <= laws.starved_tries
        self._share = laws.starved_share if is_size and is_early and self._threads > 1 else 0.0
        return 1 / (1 - min(self._share, 0.99))

    def begin(self, device: Device) -> None:
        """Start watching."""
        self._device, self._began_ns = device, self._clock.now_ns

    def end(self) -> Disturbance:
        """Return the simulated waiting of the CPU's threads."""
        elapsed_ns = self._clock.now_ns - self._began_ns
        is_cpu = self._device is not None and self._device.is_cpu
        wanted_ns = elapsed_ns * (self._threads if is_cpu else 1)
        return Disturbance((), Waited(self._share * wanted_ns if is_cpu else 0.0, wanted_ns))

    def close(self) -> None:
        """Do nothing: nothing is open."""

    def rest(self, seconds: float) -> None:
        """Let virtual time pass."""
        self._clock.advance(seconds * 1e9)

    def snapshot(self) -> Snapshot:
        """Return a snapshot of the present moment."""
        return Snapshot(self._clock.now_ns)

    def core_use(self, before: Snapshot) -> CoreUse:
        """Return a simulated neighbour that takes the cores that our threads lack."""
        lacking = self._laws.starved_share * self.cores
        neighbours = (CoreUser("simulated-neighbour", lacking),)
        return CoreUse(self._clock.now_ns - before.at_ns, self.cores - lacking, neighbours, 1, lacking)
