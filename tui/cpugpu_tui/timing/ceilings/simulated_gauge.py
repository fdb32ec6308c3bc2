"""A made-up device's gauge: the planted constants with the planted noise."""

from __future__ import annotations

import math
import random

from cpugpu_tui.decide.stats import median
from cpugpu_tui.model import Device, Simulation

TRIES = 25
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
        """Return 16 GiB."""
        return float(16 << 30)

    def _noisy(self, planted_ns: float) -> float:
        return median([planted_ns * math.exp(self._random.gauss(0.0, self._laws.noise)) for _ in range(TRIES)])

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


def transfer_ns(laws: Simulation, size_bytes: float, *, pinned: bool) -> float:
    """Return the planted time of a copy over the made-up cable."""
    rate = laws.pinned_bytes_per_ns if pinned else laws.pageable_bytes_per_ns
    return laws.transfer_alpha_ns + size_bytes / rate
