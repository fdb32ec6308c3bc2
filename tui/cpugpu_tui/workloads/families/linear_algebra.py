"""Linear algebra: equations, factorisations, and a sparse product.

Matrices are far from singular, so that residuals are rounding errors and nothing else.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from cpugpu_tui.workloads.contract import Workload, normals, workload

if TYPE_CHECKING:
    import torch

SMALL = 16
"""Equations of each small system."""

STORED, COLUMNS = 16, 64
"""Numbers stored in a row of the sparse matrix, and columns of the dense one."""


class Factorisation(Workload):
    """What LAPACK does: its functions exist for float32 and float64 only."""

    axis = "n of an n×n matrix"
    sizes: tuple[int, ...] = (8, 16, 32, 64, 128, 256, 512, 1024, 2048)
    dtypes = ("float64", "float32")
    compiles = True

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return an n×n matrix of normals."""
        return normals(dtype, generator, (n, n))

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of a matrix read and one written."""
        return 2.0 * n * n * itemsize_bytes

    def memory_bytes(self, n: int, itemsize_bytes: int) -> float:
        """Return the same, and a copy that is overwritten on the way."""
        return 1.5 * self.bytes_moved(n, itemsize_bytes)


@workload
class Solve(Factorisation):
    """Solution of n linear equations by LU factorisation; checked by its residual."""

    name = "solve"
    axis = "equations"

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return a matrix of condition 3 or less, and the right-hand side."""
        return away_from_zero(*normals(dtype, generator, (n, n), (n,)))

    def step(self, matrix: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """Return the solution. `solve` would wait for the GPU to look for a singular matrix, `solve_ex` does not."""
        import torch

        found: torch.Tensor = torch.linalg.solve_ex(matrix, right).result
        return found

    def error(self, variant: str, result: tuple[torch.Tensor, ...], doubles: tuple[torch.Tensor, ...]) -> float:
        """Return the largest residual of a system, relative to its right-hand side."""
        (matrix, right), (found,) = doubles, result
        residual = (matrix @ found.unsqueeze(-1)).squeeze(-1) - right
        return float((residual.norm(dim=-1) / right.norm(dim=-1)).max())

    def flops(self, n: int) -> float:
        """Return those of the factorisation and of two triangular solves."""
        return 2 / 3 * n**3 + 2.0 * n * n

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of matrix and right-hand side read, and of the solution written."""
        return (n * n + 2.0 * n) * itemsize_bytes

    def memory_bytes(self, n: int, itemsize_bytes: int) -> float:
        """Return the same, the factors, and a copy that some solvers need."""
        return 3.0 * self.bytes_moved(n, itemsize_bytes)


def away_from_zero(matrix: torch.Tensor, right: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Add 2√n to the diagonal of matrices of normals, whose eigenvalues lie within √n of zero."""
    matrix.diagonal(dim1=-2, dim2=-1).add_(2 * matrix.shape[-1] ** 0.5)
    return matrix, right


@workload
class BatchedSolve(Solve):
    """Solutions of n systems of 16 linear equations in one call; checked by their residuals."""

    name = "batched-solve"
    axis = "systems"
    sizes = (1, 8, 64, 512, 4096, 32768)

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return n matrices and right-hand sides."""
        return away_from_zero(*normals(dtype, generator, (n, SMALL, SMALL), (n, SMALL)))

    def flops(self, n: int) -> float:
        """Return n times those of one system."""
        return n * super().flops(SMALL)

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return n times the bytes of one system."""
        return n * super().bytes_moved(SMALL, itemsize_bytes)


@workload
class Cholesky(Factorisation):
    """Cholesky factor L of a symmetric positive definite n×n matrix; checked by L·Lᵀ."""

    name = "cholesky"

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return a symmetric matrix with eigenvalues of about (3 ± 1.4)·√n, without a product of n³ operations."""
        (half,) = normals(dtype, generator, (n, n))
        matrix = (half + half.mT) / 2
        matrix.diagonal().add_(3 * n**0.5)
        return (matrix,)

    def step(self, matrix: torch.Tensor) -> torch.Tensor:
        """Return L. `cholesky` would wait for the GPU, see `Solve.step`."""
        import torch

        factor: torch.Tensor = torch.linalg.cholesky_ex(matrix).L
        return factor

    def error(self, variant: str, result: tuple[torch.Tensor, ...], doubles: tuple[torch.Tensor, ...]) -> float:
        """Return how far L·Lᵀ is from the matrix, relative to it."""
        (matrix,), (factor,) = doubles, result
        return float((factor @ factor.mT - matrix).norm() / matrix.norm())

    def flops(self, n: int) -> float:
        """Return n³/3."""
        return n**3 / 3


@workload
class Svd(Factorisation):
    """Singular value decomposition U·S·Vᵀ of an n×n matrix; checked by that product, UᵀU = 1 and VᵀV = 1."""

    name = "svd"
    sizes = (8, 16, 32, 64, 128, 256, 512)

    def step(self, matrix: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return U, S and Vᵀ."""
        import torch

        found: tuple[torch.Tensor, ...] = torch.linalg.svd(matrix, full_matrices=False)
        return found

    def error(self, variant: str, result: tuple[torch.Tensor, ...], doubles: tuple[torch.Tensor, ...]) -> float:
        """Return the largest of the three residuals."""
        import torch

        (matrix,), (left, values, right) = doubles, result
        one = torch.eye(len(matrix), dtype=matrix.dtype)
        residuals = (
            ((left * values) @ right - matrix, matrix),
            (left.mT @ left - one, one),
            (right @ right.mT - one, one),
        )
        return max(float(off.norm() / scale.norm()) for off, scale in residuals)

    def flops(self, n: int) -> float:
        """Return 0: devices use algorithms with different counts, and iterate until they have converged."""
        return 0.0

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of the matrix read, and of both factors and the singular values written."""
        return (3.0 * n * n + n) * itemsize_bytes

    def memory_bytes(self, n: int, itemsize_bytes: int) -> float:
        """Return that of the matrix, both factors, and as much as all of them to work in."""
        return 6.0 * n * n * itemsize_bytes


@workload
class SparseMatmul(Workload):
    """Product of a sparse n×n matrix (CSR, 16 numbers a row) and a dense one of 64 columns."""

    name = "sparse-matmul"
    axis = "rows"
    sizes = (16, 128, 1024, 8192, 65536)
    dtypes = ("float64", "float32")

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return both matrices; each row has a number at a random place of each sixteenth of its columns."""
        import torch

        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta", UserWarning)
        stored = min(STORED, n)
        within = torch.randint(n // stored, (n, stored), generator=generator)
        places = torch.arange(stored) * (n // stored) + within
        values, dense = normals(dtype, generator, (n * stored,), (n, COLUMNS))
        starts = torch.arange(0, n * stored + 1, stored)
        matrix = torch.sparse_csr_tensor(starts, places.reshape(-1), values, (n, n), check_invariants=False)
        return matrix, dense

    def step(self, matrix: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
        """Return the product."""
        return matrix @ dense

    def flops(self, n: int) -> float:
        """Return a multiplication and an addition for each stored number and column."""
        return 2.0 * min(STORED, n) * n * COLUMNS

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of the stored numbers with their places (eight bytes each), and of both dense matrices."""
        return n * (min(STORED, n) * (itemsize_bytes + 8.0) + 8 + 2.0 * COLUMNS * itemsize_bytes)
