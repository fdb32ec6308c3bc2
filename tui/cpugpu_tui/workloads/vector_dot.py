"""Dot product of two long vectors, as publication P2 computes it, and with `torch.dot`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cpugpu_tui.workloads.contract import CLOCK_WRONG, SCOPE, AsWritten, Report, Step, Workload, normals, workload

if TYPE_CHECKING:
    import torch


@workload
class VectorDot(Workload):
    """Dot product of two vectors of n normals: as [1,n]·[n,1] matrix product (P2), or with `dot`."""

    name = "vector-dot"
    axis = "elements of each vector"
    sizes = tuple(10**k for k in range(2, 9))
    dtypes = ("float64", "float32")
    as_written = AsWritten(
        "P2",
        (CLOCK_WRONG, SCOPE),
        variants=("matmul",),
        scope="creating both vectors and multiplying them, ten times after ten untimed ones; prints the total",
        whole=True,
        calls=10,
        calls_before=10,
    )

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return a [1, n] row and an [n, 1] column of standard normals."""
        return normals(dtype, generator, (1, n), (n, 1))

    def step(self, row: torch.Tensor, column: torch.Tensor) -> torch.Tensor:
        """Return the [1, 1] matrix product."""
        return row @ column

    def dot(self, row: torch.Tensor, column: torch.Tensor) -> torch.Tensor:
        """Return the same number with `torch.dot` on flat views."""
        return row.view(-1).dot(column.view(-1)).view(1, 1)

    def steps(self) -> Mapping[str, Step]:
        """Return both variants; they compute the same number."""
        return {"matmul": self.step, "dot": self.dot}

    def written(self, variant: str, n: int, dtype: torch.dtype, device: str, report: Report) -> Mapping[str, float]:
        """Create both vectors on the device and multiply them, as in P2's timed code."""
        import torch

        _ = torch.randn(1, n, dtype=dtype, device=device) @ torch.randn(n, 1, dtype=dtype, device=device)
        return {}

    def flops(self, n: int) -> float:
        """Return n multiplications plus n additions."""
        return 2.0 * n

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of two vectors read."""
        return 2.0 * n * itemsize_bytes

    def scale(self, _reference: torch.Tensor, *inputs: torch.Tensor) -> float:
        """Return ‖a‖·‖b‖; the result itself may be near zero, so errors must not be relative to it."""
        row, column = inputs
        return float(row.norm() * column.norm())
