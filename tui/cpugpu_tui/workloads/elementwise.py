"""Multiply-add and addition of long vectors: publication P4's loop, and P1's claim that addition gains nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cpugpu_tui.workloads.contract import CLOCK_WRONG, SCOPE, AsWritten, Costs, Report, Step, Workload, workload

if TYPE_CHECKING:
    import torch

ITERATIONS = {"full": 1000, "small": 100}
"""P4's loop, by scale."""

REPORT_EVERY = 10
"""Iterations between two reports: each costs 0.3 µs of a launch's 10."""

TRAFFIC = {"fresh": 6, "out": 4, "add": 3, "add-out": 3}
"""Tensors read and written: `fresh` is two operations of two reads and a write each, `out` one of three and one."""

TENSORS = {"fresh": 5, "out": 4, "add": 4, "add-out": 4}
"""Tensors alive at most: three inputs, the result, and what `fresh` multiplies into."""


@workload
class Elementwise(Workload):
    """r + a·b (P4) and a + b (P1's addition) of n numbers, into fresh memory or a preallocated result."""

    name = "elementwise"
    axis = "numbers in each vector"
    sizes = tuple(10**k for k in range(2, 9))
    as_written = AsWritten(
        "P4",
        (CLOCK_WRONG, SCOPE),
        variants=("fresh",),
        scope="making the inputs on the host, moving them, the first product, 1000 multiply-adds",
        whole=True,
        sizes=(10**8,),
        small_sizes=(10**5,),
    )

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return r, a, b: n standard normals each. P4's shape is 100×1000×1000; the shape changes nothing here."""
        import torch

        return tuple(torch.randn(n, generator=generator, dtype=dtype) for _ in range(3))

    def step(self, r: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Return r + a·b as P4 writes it: two results in fresh memory."""
        return r + a * b

    def multiply_add_out(self, r: torch.Tensor, a: torch.Tensor, b: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
        """Write r + a·b into `result`, in one operation."""
        import torch

        return torch.addcmul(r, a, b, out=result)

    def add(self, r: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Return a + b in fresh memory."""
        del r
        return a + b

    def add_out(self, r: torch.Tensor, a: torch.Tensor, b: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
        """Write a + b into `result`."""
        del r
        import torch

        return torch.add(a, b, out=result)

    def steps(self) -> Mapping[str, Step]:
        """`fresh` and `out` claim one result, `add` and `add-out` another."""
        return {"fresh": self.step, "out": self.multiply_add_out, "add": self.add, "add-out": self.add_out}

    def place(self, variant: str, inputs: tuple[torch.Tensor, ...], device: str) -> tuple[Any, ...]:
        """Move the inputs; a variant that writes into given memory gets it here."""
        import torch

        placed = super().place(variant, inputs, device)
        # Zeros, not empty: the pages exist before the first timed call.
        return (*placed, torch.zeros_like(placed[0])) if variant.endswith("out") else placed

    def reference(self, variant: str, doubles: tuple[Any, ...]) -> Any:
        """Return r + a·b or a + b in float64."""
        r, a, b = doubles
        return a + b if variant.startswith("add") else r + a * b

    def written(self, variant: str, n: int, dtype: torch.dtype, device: str, report: Report) -> Mapping[str, float]:
        """Make a and b on the host, move them, multiply, then add their product again and again."""
        del variant
        import torch

        a = torch.randn(n, dtype=dtype).to(device)
        b = torch.randn(n, dtype=dtype).to(device)
        r = a * b
        iterations = ITERATIONS[self.setting.scale]
        for done in range(iterations):
            r = r + a * b
            if done % REPORT_EVERY == 0:
                report(done + 1, iterations, f"iteration {done + 1:,} of {iterations:,}")
        return {}

    def written_operations(self, n: int) -> int:
        """Return the iterations; the first product, half a step, is not counted."""
        del n
        return ITERATIONS[self.setting.scale]

    def flops(self, n: int) -> float:
        """One multiplication and one addition per number."""
        return 2.0 * n

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Traffic of the first variant."""
        return float(TRAFFIC["fresh"]) * n * itemsize_bytes

    def costs(self, variant: str, n: int, itemsize_bytes: int) -> Costs:
        """Return FLOPs, traffic and memory of a variant."""
        name = "fresh" if variant == "default" else variant
        vector_bytes = float(n) * itemsize_bytes
        flops = float(n) if name.startswith("add") else 2.0 * n
        return Costs(flops, TRAFFIC[name] * vector_bytes, TENSORS[name] * vector_bytes)
