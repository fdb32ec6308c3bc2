"""Signals and data: spectra, sorting, nearest neighbours, random numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from cpugpu_tui.workloads.contract import Workload, normals, same_normals, workload

if TYPE_CHECKING:
    import torch

LENGTH = 1024
"""Numbers of a signal."""

POINTS, DIMENSIONS, NEAREST = 10_000, 64, 10


@workload
class Fft(Workload):
    """Fourier transforms (FFT) of n signals of 1,024 complex numbers."""

    name = "fft"
    axis = "signals"
    sizes = (1, 8, 64, 512, 4096)
    dtypes = ("float64", "float32")
    compiles = True

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return the signals; real and imaginary parts are normal."""
        import torch

        return (torch.complex(*normals(dtype, generator, (n, LENGTH), (n, LENGTH))),)

    def step(self, signals: torch.Tensor) -> torch.Tensor:
        """Return the spectrum of each signal."""
        import torch

        found: torch.Tensor = torch.fft.fft(signals)
        return found

    def flops(self, n: int) -> float:
        """Return 5·N·log₂N for each signal, the usual count of an FFT of N complex numbers."""
        return 5.0 * LENGTH * math.log2(LENGTH) * n

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of two real numbers for each complex one, read and written."""
        return 4.0 * LENGTH * n * itemsize_bytes


@workload
class Sort(Workload):
    """n random numbers in order, with the place where each was; torch sorts one row on one CPU thread."""

    name = "sort"
    axis = "numbers"
    sizes = (100, 1_000, 10_000, 100_000, 1_000_000, 4_000_000)
    dtypes = ("float64", "float32", "bfloat16", "float16")
    compiles = True

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return n normals."""
        return normals(dtype, generator, (n,))

    def step(self, numbers: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the numbers in order, and their places."""
        found: tuple[torch.Tensor, ...] = numbers.sort()
        return found

    def error(self, variant: str, result: tuple[torch.Tensor, ...], doubles: tuple[torch.Tensor, ...]) -> float:
        """Return the distance from the right order. Equal numbers may be in any order, each place occurs once."""
        import torch

        (numbers,), (found, places) = doubles, result
        if not torch.equal(places.sort().values, torch.arange(len(numbers))):
            return math.inf
        right = numbers.sort().values
        return max(float((each - right).norm() / right.norm()) for each in (found, numbers[places]))

    def flops(self, n: int) -> float:
        """Return 0: numbers are compared or put into bins, not computed."""
        return 0.0

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of the numbers read and written, and of the places, eight bytes each."""
        return n * (2.0 * itemsize_bytes + 8)

    def memory_bytes(self, n: int, itemsize_bytes: int) -> float:
        """Return the same, and what a radix sort needs: numbers and places twice."""
        return 3.0 * self.bytes_moved(n, itemsize_bytes)


@workload
class Knn(Workload):
    """The 10 nearest of 10,000 points to each of n points in 64 dimensions: one matrix product, then the smallest."""

    name = "knn"
    axis = "queries"
    sizes = (1, 4, 16, 64, 256, 1024)
    # Half precision would find other neighbours.
    dtypes = ("float64", "float32", "tf32")
    stays = 2
    compiles = True

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return the points, their squared lengths, and the queries."""
        (points,) = same_normals(dtype, generator, (POINTS, DIMENSIONS))
        (queries,) = normals(dtype, generator, (n, DIMENSIONS))
        return points, points.square().sum(dim=1), queries

    def step(self, points: torch.Tensor, squares: torch.Tensor, queries: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return squared distances and places of the nearest points. `cdist` takes up to 100 times as long on a CPU."""
        import torch

        near = torch.addmm(squares, queries, points.mT, alpha=-2).topk(NEAREST, largest=False)
        return near.values + queries.square().sum(dim=1, keepdim=True), near.indices

    def error(self, variant: str, result: tuple[torch.Tensor, ...], doubles: tuple[Any, ...]) -> float:
        """Return how far the distances, and those to the places, are from the smallest ones, relative to them."""
        (points, _, queries), (found, places) = doubles, result
        right = self.step(*doubles)[0]
        real = (points[places] - queries.unsqueeze(1)).square().sum(dim=2)
        return max(float((each - right).norm() / right.norm()) for each in (found, real))

    def flops(self, n: int) -> float:
        """Return those of the matrix product."""
        return 2.0 * POINTS * DIMENSIONS * n

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of points and queries read, and of the nearest written, with places of eight bytes."""
        return ((POINTS + n) * DIMENSIONS + POINTS) * itemsize_bytes + n * NEAREST * (itemsize_bytes + 8.0)

    def memory_bytes(self, n: int, itemsize_bytes: int) -> float:
        """Return the same, and all distances, of which a GPU's selection makes a copy."""
        return self.bytes_moved(n, itemsize_bytes) + 2.0 * POINTS * n * itemsize_bytes


@workload
class Random(Workload):
    """n normal random numbers, drawn on the device; checked by mean and variance. A CPU draws on one thread."""

    name = "random"
    axis = "numbers"
    sizes = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
    dtypes = ("float64", "float32", "bfloat16", "float16")
    draws = True
    compiles = True

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[Any, ...]:
        """Return how many numbers to draw, and their type."""
        return n, dtype

    def place(self, variant: str, inputs: tuple[Any, ...], device: str) -> tuple[Any, ...]:
        """Return the same and the device."""
        return *inputs, device

    def step(self, n: int, dtype: torch.dtype, device: str) -> torch.Tensor:
        """Return the numbers."""
        import torch

        return torch.randn(n, dtype=dtype, device=device)

    def error(self, variant: str, result: tuple[torch.Tensor, ...], doubles: tuple[Any, ...]) -> float:
        """Return how far mean and mean square are from 0 and 1, in their standard deviations."""
        (drawn,) = result
        mean, square, n = float(drawn.mean()), float(drawn.square().mean()), drawn.numel()
        return max(abs(mean) * math.sqrt(n), abs(square - 1) * math.sqrt(n / 2))

    def tolerance(self, dtype: str) -> float:
        """Return six standard deviations; right numbers exceed them less than once in 10⁷ draws."""
        return 6.0

    def flops(self, n: int) -> float:
        """Return 0: generators differ in how they make a number."""
        return 0.0

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of the numbers written."""
        return float(n) * itemsize_bytes
