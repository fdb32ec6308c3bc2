"""Multiply-add and addition of long vectors: publication P4's loop, and P1's claim that addition gains nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from cpugpu_tui.workloads import contract

if TYPE_CHECKING:
    import torch

ITERATIONS = {"full": 1000, "small": 100}
"""Iterations of P4's loop, by scale."""

REPORT_EVERY = 10
"""Iterations between two progress reports: about 2 s on a CPU at 10⁸ numbers."""

TRAFFIC = {"fresh": 6, "out": 4, "add": 3, "add-out": 3}
"""Vectors read and written. `fresh`: two operations, each two reads and one write. `out`: three reads, one write."""

ALIVE = {"fresh": 5, "out": 4, "add": 4, "add-out": 4}
"""Most vectors in host memory at a time: r, a, b, the result, and with `fresh` the product."""


@contract.workload
class Elementwise(contract.Workload):
    """r + a·b (P4) and a + b (P1) of n numbers, into new memory or a preallocated result."""

    name = "elementwise"
    axis = "numbers in each vector"
    sizes = tuple(10**k for k in range(2, 9))
    # tf32 affects matrix products only.
    dtypes = ("float64", "float32", "bfloat16", "float16")
    as_written = contract.AsWritten(
        "P4",
        (contract.CLOCK_WRONG, contract.SCOPE),
        variants=("fresh",),
        scope="creating the inputs on the host, copying them, one product, 1,000 multiply-adds (100 at small scale)",
        whole=True,
        sizes=(10**8,),
        small_sizes=(10**5,),
    )

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return r, a, b: n standard normals each."""
        # P4 uses 100×1000×1000. The shape makes no difference to elementwise operations on contiguous memory.
        return contract.normals(dtype, generator, (n,), (n,), (n,))

    def step(self, r: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Return r + a·b as in P4: two results in new memory."""
        return r + a * b

    def multiply_add_into(
        self, addcmul: Callable[..., torch.Tensor], r: torch.Tensor, a: torch.Tensor, b: torch.Tensor, result: Any
    ) -> torch.Tensor:
        """Write r + a·b into `result`, in one operation."""
        return addcmul(r, a, b, out=result)

    def add(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Return a + b in new memory."""
        return a + b

    def add_into(self, add: Callable[..., torch.Tensor], a: torch.Tensor, b: torch.Tensor, result: Any) -> torch.Tensor:
        """Write a + b into `result`."""
        return add(a, b, out=result)

    def steps(self) -> Mapping[str, contract.Step]:
        """Return the variants. `fresh` and `out` have the same result, as have `add` and `add-out`."""
        return {"fresh": self.step, "out": self.multiply_add_into, "add": self.add, "add-out": self.add_into}

    def place(self, variant: str, inputs: tuple[torch.Tensor, ...], device: str) -> tuple[Any, ...]:
        """Return the vectors of a variant; `out` and `add-out` also take the result tensor and torch's function."""
        import torch

        is_add = variant.startswith("add")
        vectors = super().place(variant, inputs[1:] if is_add else inputs, device)
        if not variant.endswith("out"):
            return vectors
        # Filled on the CPU, so that its pages exist before the first call: page faults make 10⁸ numbers 5× slower.
        result = torch.zeros_like(vectors[0]) if device == "cpu" else torch.empty_like(vectors[0])
        # Passed in, because importing torch in the step would add 0.3 µs to the 2 µs of 100 numbers.
        return (torch.add if is_add else torch.addcmul, *vectors, result)

    def reference(self, variant: str, doubles: tuple[Any, ...]) -> Any:
        """Return r + a·b or a + b in float64."""
        r, a, b = doubles
        return a + b if variant.startswith("add") else r + a * b

    def written(
        self, variant: str, n: int, dtype: torch.dtype, device: str, report: contract.Report
    ) -> Mapping[str, float]:
        """Create a and b on the host, copy them, multiply, then add their product in a loop."""
        import torch

        a = torch.randn(n, dtype=dtype).to(device)
        b = torch.randn(n, dtype=dtype).to(device)
        r = a * b
        iterations = ITERATIONS[self.setting.scale]
        for done in range(1, iterations + 1):
            r = r + a * b
            if done % REPORT_EVERY == 0:
                report(done, iterations, f"iteration {done:,} of {iterations:,}")
        return {}

    def written_operations(self, n: int) -> int:
        """Return the iterations plus one for the first product, which is only half a step (0.05 % too much)."""
        return ITERATIONS[self.setting.scale] + 1

    def costs(self, variant: str, n: int, itemsize_bytes: int) -> contract.Costs:
        """Return one multiplication and one addition per number, or one of them; traffic and memory in vectors."""
        name = "fresh" if variant == "default" else variant
        vector_bytes = float(n) * itemsize_bytes
        return contract.Costs(
            (1.0 if name.startswith("add") else 2.0) * n, TRAFFIC[name] * vector_bytes, ALIVE[name] * vector_bytes
        )
