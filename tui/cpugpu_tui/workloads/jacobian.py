"""The full Jacobian of a small network: publication P3's notebook, and two ways that cost far less."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from cpugpu_tui.model import MOVING
from cpugpu_tui.workloads.contract import CLOCK_FAIR, SCOPE, AsWritten, Costs, Report, Step, Workload, workload

if TYPE_CHECKING:
    import torch

WIDTHS = (1, 20, 20, 400)
"""P3's network: 1→20→20→400, tanh after each layer: a backward pass then runs the nine kernels counted on an H200."""

OUTPUTS = WIDTHS[-1]
"""Outputs for each input: rows of the Jacobian for each sample of the batch."""

WEIGHTS = sum(wide * narrow for wide, narrow in pairwise(WIDTHS))
"""Multiplications of one sample's forward pass."""

VECTORIZED_PEAK = 1200
"""Memory of `vectorized`, in results (measured, float32, b = 20 and 40: 1202 each).

400 of them are the unit rows [400·b, b, 400] that go in, 800 their gradients at the last tanh.
"""

PER_SAMPLE_PEAK = 820
"""Memory of `per-sample`, in results (measured, float32, b = 100 and 200): unit rows [b, 400, 400] and a gradient."""

Forward = Callable[["torch.Tensor"], "torch.Tensor"]
"""A network as a function of its input alone: [b, 1] → [b, 400]."""


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
        scope="a whole notebook cell: imports, model, moving model and input, the Jacobian",
        whole=True,
        imports=True,
        cpu_seconds=True,
        sizes=(100, 1000),
        small_sizes=(4,),
    )

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return x [n, 1], uniform in [0, 1), then weight and bias of each layer, uniform in ±1/√in.

        That is the law of `torch.nn.Linear`: kaiming_uniform_ with a = √5, whose bound comes to 1/√in.
        """
        import torch

        tensors = [torch.rand(n, 1, generator=generator, dtype=dtype)]
        for wide, narrow in pairwise(WIDTHS):
            bound = wide**-0.5
            shapes = ((narrow, wide), (narrow,))
            tensors += [(torch.rand(*s, generator=generator, dtype=dtype) * 2 - 1) * bound for s in shapes]
        return tuple(tensors)

    def step(self, x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        """Return the Jacobian [b, 400, b, 1] one row after the other: 400·b backward passes."""
        return row_by_row(network(parameters), x)

    def vectorized(self, x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        """Return the same tensor by one flag: all backward passes at once."""
        from torch.autograd import functional

        autograd: Any = functional  # it is not annotated
        result: torch.Tensor = autograd.jacobian(network(parameters), x, vectorize=True)
        return result

    def per_sample(self, x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        """Return [b, 400, 1]: the derivatives of each output by its own input, 1/b of the full tensor."""
        from torch.func import jacrev, vmap

        result: torch.Tensor = vmap(jacrev(network(parameters)))(x)
        return result

    def steps(self) -> Mapping[str, Step]:
        """`loop` and `vectorized` claim the same tensor; `per-sample` only its block diagonal."""
        return {"loop": self.step, "vectorized": self.vectorized, "per-sample": self.per_sample}

    def reference(self, variant: str, doubles: tuple[Any, ...]) -> Any:
        """Return the float64 tensor that a variant claims: the full one, vectorized, or its diagonal."""
        from torch.func import jacrev

        x, *parameters = doubles
        if variant == "per-sample":
            return self.per_sample(x, *parameters)
        # 400 rows at a time: at b = 77 all at once needs 9 GB, and `loop`, which is checked against this, 0.06.
        return jacrev(network(tuple(parameters)), chunk_size=OUTPUTS)(x)

    def written(self, variant: str, n: int, dtype: torch.dtype, device: str, report: Report) -> Mapping[str, float]:
        """Run P3's cell; in a second one move model and input again, which are there already."""
        del variant
        import torch
        from torch import nn

        layers = [nn.Linear(wide, narrow, dtype=dtype) for wide, narrow in pairwise(WIDTHS)]
        model = nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2], nn.Tanh()).to(device)
        x = torch.rand(n, 1, dtype=dtype).to(device)
        row_by_row(model, x, lambda done, of: report(done, of, f"row {done:,} of {of:,}"))
        started_ns = report.stopwatch_ns()
        model.to(device)
        x.to(device)
        return {MOVING: report.stopwatch_ns() - started_ns}

    def flops(self, n: int) -> float:
        """One forward and 400·b backward passes, each through the whole batch of b; additions of biases left out.

        A multiplication and an addition per weight and sample forward; backward as many again, since only the
        input's gradient is asked for. Of each backward pass all samples but one are zeros, computed all the same.
        """
        return 2.0 * WEIGHTS * n * (1 + OUTPUTS * n)

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Input and parameters read once, the full Jacobian written once."""
        biases = sum(WIDTHS[1:])
        return float(n + WEIGHTS + biases + n * OUTPUTS * n) * itemsize_bytes

    def costs(self, variant: str, n: int, itemsize_bytes: int) -> Costs:
        """Return a variant's costs; what runs many backward passes at once holds all their gradients at once."""
        result_bytes = float(n * OUTPUTS * n) * itemsize_bytes
        moved_bytes = self.bytes_moved(n, itemsize_bytes)
        if variant == "per-sample":
            # Each sample goes backward alone: 400 passes of one instead of 400·b passes of b.
            diagonal_bytes = result_bytes / n
            moved_bytes += diagonal_bytes - result_bytes
            return Costs(2.0 * WEIGHTS * n * (1 + OUTPUTS), moved_bytes, moved_bytes + PER_SAMPLE_PEAK * diagonal_bytes)
        if variant == "vectorized":
            return Costs(self.flops(n), moved_bytes, moved_bytes + VECTORIZED_PEAK * result_bytes)
        # What 400 rows leave in the heap, see `row_by_row`.
        held_bytes = float(OUTPUTS * n * OUTPUTS) * itemsize_bytes
        return Costs(self.flops(n), moved_bytes, moved_bytes + held_bytes)


def network(parameters: tuple[torch.Tensor, ...]) -> Forward:
    """Return the network with these weights and biases."""
    from torch.nn.functional import linear

    first, first_bias, second, second_bias, last, last_bias = parameters

    def forward(x: torch.Tensor) -> torch.Tensor:
        hidden = linear(linear(x, first, first_bias).tanh(), second, second_bias).tanh()
        return linear(hidden, last, last_bias).tanh()

    return forward


def row_by_row(forward: Forward, x: torch.Tensor, told: Callable[[int, int], None] = lambda *_: None) -> torch.Tensor:
    """Return the Jacobian [b, 400, b, 1] as `torch.autograd.functional.jacobian(forward, x)` makes it.

    Its loop is spelled out: the same call of `autograd.grad` per row, as often. It differs in when rows are stacked,
    those of each sample, not all at the end. `told(done, of)` hears of it, so that minutes can be watched and stopped.
    """
    # Why: torch's own keeps 400·b small rows, and on the CPU glibc's heap then keeps a hole as large as one backward
    # pass's widest gradient, [b, 400], before each. Measured: 157 kB a row at b = 100, 1.5 MB at b = 1000, so
    # 6 GB and 600 GB for results of 16 MB and 1.6 GB. Without the holes' page faults a first call is faster
    # (b = 50: 165 µs a row instead of 270), later ones by 5 %.
    from torch import autograd, stack

    x = x.detach().requires_grad_()
    outputs = forward(x)
    result = outputs.new_empty(*outputs.shape, *x.shape)
    rows, rows_each = outputs.numel(), outputs[0].numel()
    for sample, block in enumerate(result):
        start = sample * rows_each
        ends = range(start, start + rows_each)
        # [0]: the only input's gradient. `outputs` is flattened anew for each row, as torch does.
        stack([autograd.grad(outputs.reshape(-1)[row], x, retain_graph=True)[0] for row in ends], out=block)
        told(start + rows_each, rows)
    return result
