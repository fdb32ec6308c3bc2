"""Matrix multiplication: publication P1's sweep, and the crossover everybody asks about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpugpu_tui.workloads.contract import CLOCK_WRONG, AsWritten, Workload, workload

if TYPE_CHECKING:
    import torch


@workload
class Matmul(Workload):
    """Product of two n×n matrices with `torch.matmul`; uniform [0, 1) as in P1."""

    name = "matmul"
    axis = "n of two n×n matrices"
    sizes = (16, 32, 64, 128, 256, 512, 1024, 2048)
    as_written = AsWritten("P1", (CLOCK_WRONG,), variants=("default",), scope="the first call, caches cold")

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return two n×n matrices, uniform in [0, 1)."""
        import torch

        return tuple(torch.rand(n, n, generator=generator, dtype=dtype) for _ in range(2))

    def step(self, a: torch.Tensor, b: torch.Tensor, *, out: torch.Tensor | None = None) -> torch.Tensor:
        """Return a·b."""
        # No import and no keywords on the way: with them 128×128 read 4 % more than a bare call (H200 machine).
        if out is None:
            return a.matmul(b)
        import torch

        return torch.matmul(a, b, out=out)

    def flops(self, n: int) -> float:
        """n³ multiplications and as many additions."""
        return 2.0 * n**3

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Two matrices read, one written."""
        return 3.0 * n * n * itemsize_bytes
