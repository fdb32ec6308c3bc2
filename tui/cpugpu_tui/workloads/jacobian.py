"""The full Jacobian of a small network: publication P3's notebook, and two much faster ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from cpugpu_tui.model import MOVING
from cpugpu_tui.workloads.contract import (
    CLOCK_FAIR,
    SCOPE,
    AsWritten,
    Costs,
    Report,
    Step,
    Workload,
    layers,
    uniforms,
    workload,
)

if TYPE_CHECKING:
    import torch

WIDTHS = (1, 20, 20, 400)
"""P3's network: 1→20→20→400, tanh after each layer."""

LAUNCHES_PER_ROW = 11
"""Kernels, copies and fills of a row of `loop` (H200, b = 100)."""

OUTPUTS = WIDTHS[-1]
"""Outputs per input: rows of the Jacobian per sample of the batch."""

WEIGHTS = sum(wide * narrow for wide, narrow in pairwise(WIDTHS))
"""Multiplications of one sample's forward pass."""

VECTORIZED_PEAK = 1200
"""Memory of `vectorized`, in multiples of the result (measured with float32 at b = 20 and 40: 1,202 each).

400 are the unit rows [400·b, b, 400] of its input, 800 their gradients at the last tanh.
"""

PER_SAMPLE_PEAK = 820
"""Memory of `per-sample` in multiples of the result (float32, b = 100 and 200): rows [b, 400, 400] and a gradient."""

Forward = Callable[["torch.Tensor"], "torch.Tensor"]
"""A network with fixed weights: [b, 1] → [b, 400]."""


@workload
class Jacobian(Workload):
    """Jacobian [b,400,b,1] of an MLP 1→20→20→400: row by row (P3), vectorized; per-sample: its diagonal [b,400,1]."""

    name = "jacobian"
    axis = "batch b"
    sizes = (1, 10, 100, 1000)
    as_written = AsWritten(
        "P3",
        (SCOPE, CLOCK_FAIR),
        variants=("loop",),
        scope="a whole notebook cell: imports, creating the model, copying model and input, the Jacobian",
        whole=True,
        imports=True,
        cpu_seconds=True,
        sizes=(100, 1000),
        small_sizes=(4,),
    )

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return x [n, 1], uniform in [0, 1), then weight and bias of each layer."""
        return *uniforms(dtype, generator, (n, 1)), *layers(dtype, generator, *WIDTHS)

    def step(self, x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        """Return the Jacobian [b, 400, b, 1], computed row by row: 400·b backward passes."""
        return row_by_row(network(parameters), x)

    def vectorized(self, x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        """Return the same tensor with `vectorize=True`: all backward passes at once."""
        from torch.autograd import functional

        autograd: Any = functional  # has no annotations
        result: torch.Tensor = autograd.jacobian(network(parameters), x, vectorize=True)
        return result

    def per_sample(self, x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        """Return [b, 400, 1]: the derivatives of each output by its own input, 1/b of the full tensor."""
        from torch.func import jacrev, vmap

        result: torch.Tensor = vmap(jacrev(network(parameters)))(x)
        return result

    def steps(self) -> Mapping[str, Step]:
        """Return the variants. `loop` and `vectorized` give the same tensor, `per-sample` its block diagonal."""
        return {"loop": self.step, "vectorized": self.vectorized, "per-sample": self.per_sample}

    def reference(self, variant: str, doubles: tuple[Any, ...]) -> Any:
        """Return a variant's correct result in float64: the full Jacobian, or its block diagonal.

        An output depends on its own sample's input alone, so the full Jacobian is the block diagonal and zeros.
        """
        x, *parameters = doubles
        diagonal = self.per_sample(x, *parameters)
        if variant == "per-sample":
            return diagonal
        # `jacrev` of everything took 5.8 s for 400 of 400,000 rows at b = 1,000 (two cores), this 7.3 s for all.
        full = diagonal.new_zeros(len(x), OUTPUTS, len(x), 1)
        full.diagonal(dim1=0, dim2=2).copy_(diagonal.permute(1, 2, 0))
        return full

    def written(self, variant: str, n: int, dtype: torch.dtype, device: str, report: Report) -> Mapping[str, float]:
        """Run P3's notebook cell, then its second one, which copies model and input to where they already are."""
        import torch
        from torch import nn

        parts = [nn.Linear(wide, narrow, dtype=dtype) for wide, narrow in pairwise(WIDTHS)]
        model = nn.Sequential(parts[0], nn.Tanh(), parts[1], nn.Tanh(), parts[2], nn.Tanh()).to(device)
        x = torch.rand(n, 1, dtype=dtype).to(device)
        row_by_row(model, x, lambda done, of: report(done, of, f"row {done:,} of {of:,}"))
        started_ns = report.stopwatch_ns()
        model.to(device)
        x.to(device)
        return {MOVING: report.stopwatch_ns() - started_ns}

    def flops(self, n: int) -> float:
        """Return the FLOPs of one forward and 400·b backward passes through the whole batch, without biases.

        A pass takes a multiplication and an addition per weight and sample, also backward: only the gradient of the
        input is computed. In each backward pass all samples but one are zero, but they are computed.
        """
        return 2.0 * WEIGHTS * n * (1 + OUTPUTS * n)

    def costs(self, variant: str, n: int, itemsize_bytes: int) -> Costs:
        """Return a variant's costs; many backward passes at once keep all their gradients in memory."""
        result_bytes = float(n * OUTPUTS * n) * itemsize_bytes
        # Input, weights and biases are read once, the full Jacobian is written once.
        moved_bytes = float(n + WEIGHTS + sum(WIDTHS[1:])) * itemsize_bytes + result_bytes
        if variant == "per-sample":
            # 400 backward passes of one sample each, instead of 400·b passes of b samples.
            diagonal_bytes = result_bytes / n
            moved_bytes += diagonal_bytes - result_bytes
            return Costs(2.0 * WEIGHTS * n * (1 + OUTPUTS), moved_bytes, moved_bytes + PER_SAMPLE_PEAK * diagonal_bytes)
        if variant == "vectorized":
            return Costs(self.flops(n), moved_bytes, moved_bytes + VECTORIZED_PEAK * result_bytes)
        # Freed memory of 400 rows that stays in the heap, see `row_by_row`.
        held_bytes = float(OUTPUTS * n * OUTPUTS) * itemsize_bytes
        launches = float(LAUNCHES_PER_ROW * OUTPUTS * n)
        return Costs(self.flops(n), moved_bytes, moved_bytes + held_bytes, launches)


def network(parameters: tuple[torch.Tensor, ...]) -> Forward:
    """Return the network with these weights and biases."""
    from torch.nn.functional import linear

    first, first_bias, second, second_bias, last, last_bias = parameters

    def forward(x: torch.Tensor) -> torch.Tensor:
        hidden = linear(linear(x, first, first_bias).tanh(), second, second_bias).tanh()
        return linear(hidden, last, last_bias).tanh()

    return forward


def row_by_row(forward: Forward, x: torch.Tensor, report: Callable[[int, int], None] = lambda *_: None) -> torch.Tensor:
    """Return the same [b, 400, b, 1] as `torch.autograd.functional.jacobian(forward, x)`, with the loop spelled out.

    It makes the same calls of `autograd.grad`, one per row. Unlike torch it stacks the rows of each sample at once, not
    all rows at the end. `report(done, of)` is called after each sample, for progress and to stop the run.
    """
    # torch keeps 400·b small rows. On the CPU, glibc's heap then leaves a hole of one backward pass's widest gradient,
    # [b, 400], before each row. Measured: 157 kB per row at b = 100 and 1.5 MB at b = 1,000, which is 6 GB and 600 GB
    # for results of 16 MB and 1.6 GB. Without the page faults of these holes, a first call is faster (165 instead of
    # 270 µs per row at b = 50), later ones by 5 %.
    from torch import autograd, stack

    x = x.detach().requires_grad_()
    outputs = forward(x)
    result = outputs.new_empty(*outputs.shape, *x.shape)
    rows, rows_each = outputs.numel(), outputs[0].numel()
    for sample, block in enumerate(result):
        start = sample * rows_each
        ends = range(start, start + rows_each)
        # [0]: the gradient of the only input. `outputs` is flattened for each row, as torch does it.
        stack([autograd.grad(outputs.reshape(-1)[row], x, retain_graph=True)[0] for row in ends], out=block)
        report(start + rows_each, rows)
    return result
