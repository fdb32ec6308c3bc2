"""The laws of a simulated machine: times of calls with noise and drift, and what its sensors say meanwhile."""

from __future__ import annotations

import math
import os
import random
from collections import Counter
from dataclasses import dataclass, replace

from cpugpu_tui.decide.stats import median
from cpugpu_tui.machine.cores import Snapshot, Waited
from cpugpu_tui.machine.device_state import EDGE_KEYS, Edge, State
from cpugpu_tui.machine.procfs import TICK_NS as CPU_TICK_NS
from cpugpu_tui.model import Case, CoreUse, CoreUser, Device, EventClock, GpuProcess, Reading, Simulation
from cpugpu_tui.model.simulation import GPU_MEMORY_BYTES
from cpugpu_tui.simulation.simulated_events import VirtualClock
from cpugpu_tui.timing.device_readings import GPU_TICK_NS
from cpugpu_tui.timing.host_watch import Disturbance
from cpugpu_tui.timing.timers.gpu_link import LARGE_BYTES, LARGE_COPIES, SMALL_COPIES
from cpugpu_tui.workloads import Costs
from cpugpu_tui.workloads.transfer import link_of

UNKNOWN = Reading(None, "not-supported")

ENERGY_COST_NS = 2.8e6
"""Time to read a GPU's energy (method.md), which shows if it happens inside a timed block."""

OWN_BYTES, NEIGHBOUR_BYTES = 500 << 20, 1 << 30
"""GPU memory of this process, and of the simulated other process."""


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
            "sm_clock_mhz": self._clock_mhz or laws.sm_clock_mhz or None, "temperature_c": laws.temperature_c or None,
            "memory_used_bytes": float(OWN_BYTES + (NEIGHBOUR_BYTES if laws.neighbour_pid else 0)),
            "throttled_power_cap_ns": 0.0, "throttled_sync_boost_ns": 0.0,
            "throttled_thermal_ns": self._count_throttled(), "throttled_hw_thermal_ns": 0.0,
            "throttled_power_brake_ns": 0.0,
        }  # fmt: skip
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

    def await_reader(self) -> None:
        """Let the virtual time pass that a reader takes, 0.5 ms."""
        self.rest(0.0005)

    def snapshot(self) -> Snapshot:
        """Return a snapshot of the present moment."""
        return Snapshot(self._clock.now_ns)

    def core_use(self, before: Snapshot) -> CoreUse:
        """Return a simulated neighbour that takes the cores that our threads lack."""
        lacking = self._laws.starved_share * self.cores
        neighbours = (CoreUser("simulated-neighbour", lacking),)
        return CoreUse(self._clock.now_ns - before.at_ns, self.cores - lacking, neighbours, 1, lacking)


# ------------------------------------------------------------------ laws


def tiled(laws: Simulation, case: Case) -> Case:
    """Return the case with its size rounded up to whole tiles of `gpu_tile` n."""
    tile = laws.gpu_tile or 1
    return replace(case, size=math.ceil(case.size / tile) * tile)


def cpu_work_ns(laws: Simulation, case: Case, costs: Costs) -> float:
    """Return the time of one call on the CPU: a fixed overhead plus the roofline's time, with a ripple in n."""
    busy_ns = max(costs.flops * laws.cpu_ns_per_flop, moving_ns(costs.bytes_moved, laws.cpu_bytes_per_ns))
    period = laws.ripple_period or 1
    return laws.cpu_overhead_ns + busy_ns * (1 + laws.cpu_ripple * (case.size % period) / period)


def gpu_work_ns(laws: Simulation, case: Case, costs: Costs) -> float:
    """Return the kernel time of one call; `costs` are those of the `tiled` case.

    Calls of the workload `transfer` take the time of the copy.
    """
    link = link_of(case.variant)
    if link is not None:
        return transfer_ns(laws, costs.bytes_moved, pinned=link.endswith("pinned"))
    busy_ns = max(costs.flops * laws.gpu_ns_per_flop, moving_ns(costs.bytes_moved, laws.gpu_bytes_per_ns))
    return laws.kernel_overhead_ns + busy_ns


def transfer_ns(laws: Simulation, size_bytes: float, *, pinned: bool) -> float:
    """Return the time of a copy between host and GPU."""
    rate = laws.pinned_bytes_per_ns if pinned else laws.pageable_bytes_per_ns
    return laws.transfer_alpha_ns + size_bytes / rate


def gpu_label(laws: Simulation, index: int) -> str:
    """Return the model of a GPU; the last `other_gpus` are of another model."""
    return "simulated GPU" if index < laws.gpus - laws.other_gpus else "other simulated GPU"


def gpu_factor(laws: Simulation, name: str) -> float:
    """Return the factor of all times on a GPU, from `slow_gpu`, `other_gpus` and `side_factor`."""
    index = int(name.partition(":")[2])
    other = laws.other_factor if index >= laws.gpus - laws.other_gpus else 1.0
    return other * (laws.slow_factor if index == laws.slow_gpu else 1.0) * (1.0 if index else laws.side_factor)


def moving_ns(size_bytes: float, bytes_per_ns: float) -> float:
    """Return the time for moving bytes in a device's memory; a rate of 0 means no limit."""
    return size_bytes / bytes_per_ns if bytes_per_ns else 0.0


def run_factor(laws: Simulation, device: str, case: Case) -> float:
    """Return how many times as long a case takes on a device in this start, because runs and starts differ.

    The factor is log-normal with the standard deviation `drift`, and that of `cpu_start` or `gpu_start` on top. Half of
    its variance is shared by all cases of the device, half belongs to the case. Equal `drift_seed`s and numbers of the
    start give equal factors.
    """
    if not laws.drift_seed:
        return 1.0
    is_cpu = device == "cpu"
    start = f"{laws.drift_seed}/start {laws.start}"
    run = start if laws.start else f"{laws.drift_seed}/run"
    log = _draw(laws.drift, run, device, case) + _draw(laws.cpu_start if is_cpu else laws.gpu_start, f"{start}/memory",
                                                       device, case)  # fmt: skip
    is_slow = (
        is_cpu and laws.slow_starts > 0 and random.Random(f"{start}/slow/{case.workload}").random() < laws.slow_starts
    )
    return math.exp(log) * (laws.slow_start_factor if is_slow else 1.0)


def _draw(deviation: float, seed: str, device: str, case: Case) -> float:
    """Return a normal number, half of whose variance is shared by all cases of the device."""
    if not deviation:
        return 0.0
    names = (device, f"{device}/{case.key}")
    return sum(random.Random(f"{seed}/{name}").gauss(0.0, deviation) for name in names) / math.sqrt(2)


GAUGE_DRAWS = 25
"""Draws per answer; their median with 1 % noise is right within 0.3 %."""


@dataclass(frozen=True)
class SimulatedOperation:
    """A case with its time on one device."""

    case: Case
    work_ns: float
    """Time of one call at the usual speed, without noise."""
    bytes_moved: float
    run_factor: float = 1.0
    """Factor of all times of this case in this run; `work_ns` contains it."""

    @property
    def is_blocking(self) -> bool:
        """Whether the call itself waits for the GPU, as a copy of pageable memory does."""
        return (link_of(self.case.variant) or "").endswith("_pageable")


class SimulatedGauge:
    """Calibration from the constants of a `Simulation`, without measuring or sleeping."""

    dtypes: tuple[str, ...] = ("float32",)

    def __init__(self, device: Device, laws: Simulation, clock: EventClock | None = None) -> None:
        self.device = device
        self.clock = clock
        self._laws = laws
        self._random = random.Random(laws.seed)
        directions = () if device.is_cpu else ("h2d_pageable", "h2d_pinned", "d2h_pageable", "d2h_pinned")
        self.directions: tuple[str, ...] = directions

    def threads(self) -> int:
        """Return the threads of the simulated processor."""
        return 2

    def free_bytes(self) -> float:
        """Return the memory of a simulated GPU."""
        return float(GPU_MEMORY_BYTES)

    def _noisy(self, planted_ns: float) -> float:
        return median([planted_ns * math.exp(self._random.gauss(0.0, self._laws.noise)) for _ in range(GAUGE_DRAWS)])

    def matmul_ns(self, dtype: str, n: int) -> float:
        """Return overhead plus work."""
        laws = self._laws
        if self.device.is_cpu:
            return self._noisy(laws.cpu_overhead_ns + 2.0 * n**3 * laws.cpu_ns_per_flop)
        return self._noisy(laws.kernel_overhead_ns + 2.0 * n**3 * laws.gpu_ns_per_flop)

    def copy_ns(self, size_bytes: int) -> float:
        """Return the time for reading and writing the bytes."""
        rate = self._laws.cpu_bytes_per_ns if self.device.is_cpu else self._laws.gpu_bytes_per_ns
        return self._noisy(2 * size_bytes / rate)

    def launch_ns(self) -> float:
        """Return the time of one call that does nothing."""
        return self._noisy(self._laws.cpu_overhead_ns if self.device.is_cpu else self._laws.launch_ns)

    def synchronize_ns(self) -> float | None:
        """Return the time of a synchronise; None on the CPU."""
        return None if self.device.is_cpu else self._noisy(self._laws.sync_ns)

    def round_trip_ns(self) -> float | None:
        """Return launch, kernel and synchronise; None on the CPU."""
        laws = self._laws
        return None if self.device.is_cpu else self._noisy(laws.launch_ns + laws.kernel_overhead_ns + laws.sync_ns)

    def transfer_ns(self, direction: str, size_bytes: int) -> float:
        """Return the time of a copy from or to that kind of memory."""
        return self._noisy(transfer_ns(self._laws, size_bytes, pinned=direction.endswith("pinned")))

    def release(self) -> None:
        """Do nothing: nothing was allocated."""


class PlantedLink:
    """The link between two GPUs: direct within a group, through the host otherwise."""

    def __init__(self, laws: Simulation, noise: random.Random, source: int, target: int) -> None:
        self._laws, self._noise = laws, noise
        group = laws.peer_group
        self.has_access: bool | None = not group or source // group == target // group

    def latencies_ns(self) -> tuple[float, ...]:
        """Return latencies of the smallest copy; without access, twice those of the host's copies."""
        laws = self._laws
        return self._noisy(laws.peer_alpha_ns if self.has_access else 2 * laws.transfer_alpha_ns, SMALL_COPIES)

    def large_ns(self) -> tuple[int, tuple[float, ...]]:
        """Return the size of a large copy and its times."""
        rate = self._laws.peer_bytes_per_ns if self.has_access else self._laws.pinned_bytes_per_ns / 2
        return LARGE_BYTES, self._noisy(moving_ns(LARGE_BYTES, rate), LARGE_COPIES)

    def _noisy(self, planted_ns: float, count: int) -> tuple[float, ...]:
        return tuple(planted_ns * math.exp(self._noise.gauss(0.0, self._laws.noise)) for _ in range(count))


class Drift:
    """Drift within a run: ln(slowdown) is an AR(1) series with one step per half-round."""

    def __init__(self, deviation: float, rho: float, seed: str) -> None:
        """`deviation` is the standard deviation of ln(slowdown), `rho` (0 to 1) the correlation of neighbours."""
        self._deviation = deviation
        self._rho = min(rho, 1.0)
        self._random = random.Random(seed)
        self._log = self._random.gauss(0.0, deviation)
        self.slowdown = 1.0
        """Factor of all times; 1 before the first step."""

    def step(self) -> None:
        """Advance to the next half-round."""
        fresh = self._random.gauss(0.0, self._deviation)
        self._log = self._rho * self._log + math.sqrt(1 - self._rho**2) * fresh
        self.slowdown = math.exp(self._log)
