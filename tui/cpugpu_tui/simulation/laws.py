"""Times of work and copies, peak rates and drift of the simulated machine. No clock is read here."""

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
    """Return the factor of all times on a GPU, from `slow_gpu` and `other_gpus`."""
    index = int(name.partition(":")[2])
    other = laws.other_factor if index >= laws.gpus - laws.other_gpus else 1.0
    return other * (laws.slow_factor if index == laws.slow_gpu else 1.0)


def moving_ns(size_bytes: float, bytes_per_ns: float) -> float:
    """Return the time for moving bytes in a device's memory; a rate of 0 means no limit."""
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
"""Draws per answer; their median with 1 % noise is right within 0.3 %."""


class SimulatedGauge:
    """Calibration from the constants of a `Simulation`, without measuring or sleeping."""

    dtypes: tuple[str, ...] = ("float32",)

    def __init__(self, device: Device, laws: Simulation) -> None:
        self.device = device
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
        del dtype
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
