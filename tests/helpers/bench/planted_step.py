"""A workload over n numbers. BENCH_PLANT_PERCENT makes it work on so many percent more of the same numbers."""

import os
from typing import Any

from cpugpu_tui import Workload, workload

PERCENT = float(os.environ.get("BENCH_PLANT_PERCENT", "0"))
ROOM_PERCENT = 10.0
"""How many more numbers the inputs hold than are used, on both sides of a duet: the memory is the same."""
PASSES = 4
"""Calls of the kernel in a step, so that small inputs give a long step: making them took most of a duet's start-up."""


def step_of(row: Any, n: int, percent: float) -> Any:
    """Return the sine of the first n numbers and so many percent more, computed `PASSES` times.

    The time is in proportion to the count: a GPU is bound by its memory, a core by the arithmetic. The kernel is the
    same, for it works on one row whatever its length. Adding 357 rows in place of 350, the plant before, was another
    kernel: 14.5 % longer on an H200 in place of 2 %.
    """
    part = row[: round(n * (1 + percent / 100))]
    for _ in range(PASSES - 1):
        part.sin()
    return part.sin()


class PlantedStep(Workload):
    """The sine of n numbers, and of as many percent more as BENCH_PLANT_PERCENT says."""

    name = "planted-step"
    axis = "n"
    sizes = (1_000_000,)
    has_end_to_end = False

    def inputs(self, n: int, dtype: Any, generator: Any) -> tuple[Any, ...]:
        """Return one row with room for the plant, and n."""
        import torch

        return torch.rand(round(n * (1 + ROOM_PERCENT / 100)), generator=generator, dtype=dtype), n

    def step(self, row: Any, n: int) -> Any:
        """Return the sine of n numbers and the planted ones."""
        return step_of(row, n, PERCENT)

    def flops(self, n: int) -> float:
        """Return those of n numbers: both sides of a duet claim the same work."""
        return float(PASSES * n)

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of n numbers read and written in each pass."""
        return 2.0 * PASSES * n * itemsize_bytes

    def memory_bytes(self, n: int, itemsize_bytes: int) -> float:
        """Return the bytes of input and result with room for the plant."""
        return 2.0 * n * itemsize_bytes * (1 + ROOM_PERCENT / 100)


if not __name__.startswith("tests."):  # the bench itself imports this file, and must not add to the built-in workloads
    workload(PlantedStep)
