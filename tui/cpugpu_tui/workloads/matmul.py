"""Matrix multiplication: publication P1's sweep, and the best-known crossover."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cpugpu_tui.workloads.contract import CLOCK_WRONG, AsWritten, Step, Workload, uniforms, workload

if TYPE_CHECKING:
    import torch


@workload
class Matmul(Workload):
    """Product of two n×n matrices with `torch.matmul`; numbers uniform in [0, 1) as in P1."""

    name = "matmul"
    axis = "n of two n×n matrices"
    sizes = (16, 32, 64, 128, 256, 512, 1024, 2048)
    as_written = AsWritten("P1", (CLOCK_WRONG,), variants=("default",), scope="the first call, with cold caches")

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return two n×n matrices, uniform in [0, 1)."""
        return uniforms(dtype, generator, (n, n), (n, n))

    def step(self, a: torch.Tensor, b: torch.Tensor, *, out: torch.Tensor | None = None) -> torch.Tensor:
        """Return a·b."""
        import torch

        return torch.matmul(a, b, out=out)

    def step_for(self, variant: str, placed: tuple[Any, ...]) -> Step:
        """Return torch's own function: a method of ours around it takes 0.25 µs, 4 % of 64×64 on one CPU thread."""
        super().step_for(variant, placed)  # refuses an unknown variant
        import torch

        return torch.matmul

    def flops(self, n: int) -> float:
        """Return n³ multiplications plus n³ additions."""
        return 2.0 * n**3

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of two matrices read and one written."""
        return 3.0 * n * n * itemsize_bytes
