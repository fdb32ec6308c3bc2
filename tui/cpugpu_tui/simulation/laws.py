"""What work, copies and peak rates cost on the simulated machine, and a speed that wanders. No clock is read here."""

from __future__ import annotations

import math
import random
from dataclasses import replace

from cpugpu_tui.decide.stats import median
from cpugpu_tui.model import Case, Device, Simulation
from cpugpu_tui.model.simulation import GPU_MEMORY_BYTES
from cpugpu_tui.timing.timers.gpu_link import LARGE_BYTES, LARGE_COPIES, SMALL_COPIES
from cpugpu_tui.workloads import Costs
from cpugpu_tui.workloads.transfer import link_of


def tiled(laws: Simulation, case: Case) -> Case:
    """Return the case that the GPU really works at: it fills whole tiles of `gpu_tile` n."""
    tile = laws.gpu_tile or 1
    return replace(case, size=math.ceil(case.size / tile) * tile)


def cpu_work_ns(laws: Simulation, case: Case, costs: Costs) -> float:
    """Return what one call takes on the CPU: the roofline's law over a fixed cost, with a ripple in n."""
    busy_ns = max(costs.flops * laws.cpu_ns_per_flop, moving_ns(costs.bytes_moved, laws.cpu_bytes_per_ns))
    period = laws.ripple_period or 1
    return laws.cpu_overhead_ns + busy_ns * (1 + laws.cpu_ripple * (case.size % period) / period)


def gpu_work_ns(laws: Simulation, case: Case, costs: Costs) -> float:
    """Return what one call takes on the GPU alone; `costs` are those of the `tiled` case.

    A copy over the cable (workload `transfer`) takes what the cable takes.
    """
    link = link_of(case.variant)
    if link is not None:
        return transfer_ns(laws, costs.bytes_moved, pinned=link.endswith("pinned"))
    busy_ns = max(costs.flops * laws.gpu_ns_per_flop, moving_ns(costs.bytes_moved, laws.gpu_bytes_per_ns))
    return laws.kernel_overhead_ns + busy_ns


def transfer_ns(laws: Simulation, size_bytes: float, *, pinned: bool) -> float:
    """Return the planted time of a copy over the made-up cable."""
    rate = laws.pinned_bytes_per_ns if pinned else laws.pageable_bytes_per_ns
    return laws.transfer_alpha_ns + size_bytes / rate


def gpu_label(laws: Simulation, index: int) -> str:
    """Return the model of a GPU: that of the last `other_gpus` is another one."""
    return "simulated GPU" if index < laws.gpus - laws.other_gpus else "other simulated GPU"


def gpu_factor(laws: Simulation, name: str) -> float:
    """Return how many times as long as the constants say the work takes on a GPU of this name."""
    index = int(name.partition(":")[2])
    other = laws.other_factor if index >= laws.gpus - laws.other_gpus else 1.0
    return other * (laws.slow_factor if index == laws.slow_gpu else 1.0)


def moving_ns(size_bytes: float, bytes_per_ns: float) -> float:
    """Return the time that a device's memory needs for so many bytes; a rate of 0 stands for no limit."""
    return size_bytes / bytes_per_ns if bytes_per_ns else 0.0


def run_factor(laws: Simulation, device: str, case: Case) -> float:
    """Return how many times as long a case takes on a device in this run, because machines drift between runs.

    The factor is log-normal with the standard deviation `drift`. Half of its variance is shared by all cases of the
    device, half belongs to the case. Equal `drift_seed`s give equal factors.
    """
    if not laws.drift or not laws.drift_seed:
        return 1.0
    names = (device, f"{device}/{case.key}")
    draws = (random.Random(f"{laws.drift_seed}/run/{name}").gauss(0.0, laws.drift) for name in names)
    return math.exp(sum(draws) / math.sqrt(2))


GAUGE_DRAWS = 25
"""Draws per answer: the median of so many with 1 % noise is right within 0.3 %."""


class SimulatedGauge:
    """Answers from a `Simulation`; nothing is measured and nothing is slept."""

    dtypes: tuple[str, ...] = ("float32",)

    def __init__(self, device: Device, laws: Simulation) -> None:
        self.device = device
        self._laws = laws
        self._random = random.Random(laws.seed)
        cable = () if device.is_cpu else ("h2d_pageable", "h2d_pinned", "d2h_pageable", "d2h_pinned")
        self.directions: tuple[str, ...] = cable

    def threads(self) -> int:
        """Return the threads of the simulated processor."""
        return 2

    def free_bytes(self) -> float:
        """Return the memory of a simulated GPU."""
        return float(GPU_MEMORY_BYTES)

    def _noisy(self, planted_ns: float) -> float:
        return median([planted_ns * math.exp(self._random.gauss(0.0, self._laws.noise)) for _ in range(GAUGE_DRAWS)])

    def matmul_ns(self, dtype: str, n: int) -> float:
        """Return overhead and work."""
        del dtype
        laws = self._laws
        if self.device.is_cpu:
            return self._noisy(laws.cpu_overhead_ns + 2.0 * n**3 * laws.cpu_ns_per_flop)
        return self._noisy(laws.kernel_overhead_ns + 2.0 * n**3 * laws.gpu_ns_per_flop)

    def copy_ns(self, size_bytes: int) -> float:
        """Return bytes read and written at the planted rate."""
        rate = self._laws.cpu_bytes_per_ns if self.device.is_cpu else self._laws.gpu_bytes_per_ns
        return self._noisy(2 * size_bytes / rate)

    def launch_ns(self) -> float:
        """Return the cost of one call that does nothing."""
        return self._noisy(self._laws.cpu_overhead_ns if self.device.is_cpu else self._laws.launch_ns)

    def synchronize_ns(self) -> float | None:
        """Return the planted wait."""
        return None if self.device.is_cpu else self._noisy(self._laws.sync_ns)

    def round_trip_ns(self) -> float | None:
        """Return launch, kernel and wait."""
        laws = self._laws
        return None if self.device.is_cpu else self._noisy(laws.launch_ns + laws.kernel_overhead_ns + laws.sync_ns)

    def transfer_ns(self, direction: str, size_bytes: int) -> float:
        """Return start-up and bytes at the rate of that kind of memory."""
        return self._noisy(transfer_ns(self._laws, size_bytes, pinned=direction.endswith("pinned")))

    def release(self) -> None:
        """Nothing was allocated."""


class PlantedLink:
    """The way between two GPUs: within a group by itself, beyond it by way of the host, to it and from it again."""

    def __init__(self, laws: Simulation, noise: random.Random, source: int, target: int) -> None:
        self._laws, self._noise = laws, noise
        group = laws.peer_group
        self.has_access: bool | None = not group or source // group == target // group

    def latencies_ns(self) -> tuple[float, ...]:
        """Return the planted wait, twice that of the host's copies without access."""
        laws = self._laws
        return self._noisy(laws.peer_alpha_ns if self.has_access else 2 * laws.transfer_alpha_ns, SMALL_COPIES)

    def large_ns(self) -> tuple[int, tuple[float, ...]]:
        """Return a size and times at the planted rate."""
        rate = self._laws.peer_bytes_per_ns if self.has_access else self._laws.pinned_bytes_per_ns / 2
        return LARGE_BYTES, self._noisy(moving_ns(LARGE_BYTES, rate), LARGE_COPIES)

    def _noisy(self, planted_ns: float, count: int) -> tuple[float, ...]:
        return tuple(planted_ns * math.exp(self._noise.gauss(0.0, self._laws.noise)) for _ in range(count))


class Drift:
    """How slow something is just now: ln(slowdown) is an AR(1) series, one step for each of its half-rounds."""

    def __init__(self, deviation: float, rho: float, seed: str) -> None:
        """`deviation` is that of ln(slowdown); `rho` in 0…1 the correlation between neighbours."""
        self._deviation = deviation
        self._rho = min(rho, 1.0)
        self._random = random.Random(seed)
        self._log = self._random.gauss(0.0, deviation)
        self.slowdown = 1.0
        """Factor of all times; 1 before the first step."""

    def step(self) -> None:
        """Go on to the next half-round."""
        fresh = self._random.gauss(0.0, self._deviation)
        self._log = self._rho * self._log + math.sqrt(1 - self._rho**2) * fresh
        self.slowdown = math.exp(self._log)
