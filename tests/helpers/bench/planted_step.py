"""A workload of 50 matrix products in a row. BENCH_EXTRA_STEPS adds products: 1 makes it 2 % longer."""

from __future__ import annotations

import os
from typing import Any

from cpugpu_tui import Workload, workload

STEPS = 50
EXTRA = int(os.environ.get("BENCH_EXTRA_STEPS", "0"))


@workload
class PlantedStep(Workload):
    """50 products of n×n matrices, one after the other, or as many more as BENCH_EXTRA_STEPS says."""

    name = "planted-step"
    axis = "n"
    sizes = (512,)

    def inputs(self, n: int, dtype: Any, generator: Any) -> tuple[Any, ...]:
        """Return two matrices whose products neither grow nor vanish."""
        import torch

        left, right = (torch.randn((n, n), generator=generator, dtype=dtype) for _ in range(2))
        return left, right / n**0.5

    def step(self, left: Any, right: Any) -> Any:
        """Multiply again and again."""
        for _ in range(STEPS + EXTRA):
            left = left @ right
        return left

    def flops(self, n: int) -> float:
        """Return those of 50 products: both sides of a duet claim the same work."""
        return 2.0 * STEPS * n**3

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of 50 products."""
        return 3.0 * STEPS * n**2 * itemsize_bytes
