"""A workload of one kernel that adds 350 rows. BENCH_EXTRA_ROWS adds rows: 7 make it 2 % longer."""

from __future__ import annotations

import os
from typing import Any

from cpugpu_tui import Workload, workload

ROWS = 350
EXTRA = int(os.environ.get("BENCH_EXTRA_ROWS", "0"))


@workload
class PlantedStep(Workload):
    """The sum of the same n numbers 350 times, or as many more times as BENCH_EXTRA_ROWS says.

    One kernel, whose time grows with the rows: 50 small kernels were held up by the host, whose speed differs by 10 %
    from process to process.
    """

    name = "planted-step"
    axis = "n"
    sizes = (1_000_000,)

    def inputs(self, n: int, dtype: Any, generator: Any) -> tuple[Any, ...]:
        """Return one row."""
        import torch

        return (torch.rand(n, generator=generator, dtype=dtype),)

    def step(self, row: Any) -> Any:
        """Add the rows, which lie in the same memory."""
        return row.expand(ROWS + EXTRA, -1).sum(0)

    def flops(self, n: int) -> float:
        """Return those of 350 rows: both sides of a duet claim the same work."""
        return float(ROWS * n)

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of the row and the sum."""
        return 2.0 * n * itemsize_bytes
