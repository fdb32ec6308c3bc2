"""Work on tables of rows, written in torch: groups, a join, a reduction, the largest of each row."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from cpugpu_tui.workloads.contract import Workload, normals, workload
from cpugpu_tui.workloads.families.transformers import NOT_TF32

if TYPE_CHECKING:
    import torch

GROUPS = 1000
KEYS = 65_536
"""Rows of the table that is joined."""

ROW, WIDE, LARGEST = 1024, 10_000, 10
"""Numbers of a row that is reduced, and of one whose largest are taken; and how many of those."""


@workload
class GroupBy(Workload):
    """The mean of n numbers in each of 1,000 groups: two scattered sums, and a division."""

    name = "group-by"
    axis = "rows"
    sizes = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
    dtypes = ("float64", "float32")  # sums of a million half-precision numbers have no digits left
    compiles = True

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return the group of each row, and its number."""
        import torch

        return torch.randint(GROUPS, (n,), generator=generator), *normals(dtype, generator, (n,))

    def step(self, groups: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        """Return the mean of each group, 0 of an empty one."""
        sums = numbers.new_zeros(GROUPS).index_add_(0, groups, numbers)
        counts = numbers.new_zeros(GROUPS).index_add_(0, groups, numbers.new_ones(1).expand(len(groups)))
        return sums / counts.clamp(min=1)

    def flops(self, n: int) -> float:
        """Return two additions a row, and a division a group."""
        return 2.0 * n + GROUPS

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of numbers and groups read, eight bytes a group, and of the means written."""
        return n * (itemsize_bytes + 8.0) + GROUPS * itemsize_bytes


@workload
class Join(Workload):
    """n rows joined to a sorted table of 65,536 keys: a binary search, and the value, or 0 without a match."""

    name = "join"
    axis = "rows"
    sizes = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)
    dtypes = NOT_TF32
    stays = 2
    compiles = True

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return the even keys of the table and their values, and the keys of the rows, half of which match."""
        import torch

        wanted = torch.randint(2 * KEYS, (n,), generator=generator)
        wanted[0] = 0  # at least one match
        return torch.arange(0, 2 * KEYS, 2), *normals(dtype, generator, (KEYS,)), wanted

    def step(self, keys: torch.Tensor, values: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        """Return the value of each row's key."""
        import torch

        places = torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
        return torch.where(keys[places] == wanted, values[places], 0)

    def flops(self, n: int) -> float:
        """Return 0: keys are compared, not computed."""
        return 0.0

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of table and rows read, eight bytes a key, and of the values written."""
        return (KEYS + n) * (8.0 + itemsize_bytes)

    def memory_bytes(self, n: int, itemsize_bytes: int) -> float:
        """Return the same, and places, keys and values of the rows."""
        return self.bytes_moved(n, itemsize_bytes) + n * (17.0 + itemsize_bytes)


@workload
class RowSums(Workload):
    """The sums of n rows of 1,024 numbers."""

    name = "row-sums"
    axis = "rows"
    sizes = (1, 8, 64, 512, 4096, 65_536)
    dtypes = NOT_TF32
    compiles = True

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return n rows of normals."""
        return normals(dtype, generator, (n, ROW))

    def step(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the sum of each row."""
        return rows.sum(dim=1)

    def scale(self, reference: torch.Tensor, *inputs: torch.Tensor) -> float:
        """Return the size of such a sum if signs are random: a sum itself may be near 0."""
        return max(float(reference.norm()), float(inputs[0].norm()))

    def flops(self, n: int) -> float:
        """Return an addition for each number but the first of a row."""
        return (ROW - 1.0) * n

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of the rows read and the sums written."""
        return (ROW + 1.0) * n * itemsize_bytes


@workload
class TopK(Workload):
    """The 10 largest of 10,000 numbers in each of n rows, in order, with their places."""

    name = "topk"
    axis = "rows"
    sizes = (1, 4, 16, 64, 256, 1024, 4096)
    dtypes = NOT_TF32
    compiles = True

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return n rows of normals."""
        return normals(dtype, generator, (n, WIDE))

    def step(self, rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the largest numbers of each row, and their places."""
        found: tuple[torch.Tensor, ...] = rows.topk(LARGEST)
        return found

    def error(self, variant: str, result: tuple[torch.Tensor, ...], doubles: tuple[Any, ...]) -> float:
        """Return how far the numbers, and those at the places, are from the largest. Each place occurs once a row."""
        (rows,), (found, places) = doubles, result
        ordered = places.sort(dim=1).values
        if bool((ordered[:, 1:] == ordered[:, :-1]).any()):
            return math.inf
        right = rows.topk(LARGEST).values
        return max(float((each - right).norm() / right.norm()) for each in (found, rows.gather(1, places)))

    def flops(self, n: int) -> float:
        """Return 0: numbers are compared, not computed."""
        return 0.0

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of the rows read, and of the largest written, with places of eight bytes."""
        return n * (WIDE * itemsize_bytes + LARGEST * (itemsize_bytes + 8.0))

    def memory_bytes(self, n: int, itemsize_bytes: int) -> float:
        """Return the same, and the copy of the rows with places that a selection on a GPU may sort."""
        return self.bytes_moved(n, itemsize_bytes) + n * WIDE * (itemsize_bytes + 8.0)
