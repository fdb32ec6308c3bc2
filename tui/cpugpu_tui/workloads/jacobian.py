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
"""P3's network: 1→20→20→400, tanh after each layer."""

OUTPUTS = WIDTHS[-1]

_WEIGHTS = sum(wide * narrow for wide, narrow in pairwise(WIDTHS))
"""Multiplications of one forward pass of one input."""


@workload
class Jacobian(Workload):
    """Jacobian [b,400,b,1] of an MLP 1→20→20→400: row by row (P3), vectorized, and its diagonal per sample."""

    name = "jacobian"
    axis = "batch b"
    sizes = (1, 10, 100, 1000)
    dtypes = ("float64", "float32")
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
        """Return x [n, 1], uniform, then weight and bias of each layer, uniform in ±1/√in as torch.nn has them."""
        import torch

        tensors = [torch.rand(n, 1, generator=generator, dtype=dtype)]
        for wide, narrow in pairwise(WIDTHS):
            bound = wide**-0.5
            shapes = ((narrow, wide), (narrow,))
            tensors += [(torch.rand(*s, generator=generator, dtype=dtype) * 2 - 1) * bound for s in shapes]
        return tuple(tensors)

    def step(self, x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        """Return the Jacobian [b, 400, b, 1] one row after the other: 400 b backward passes."""
        return self._full(x, parameters, vectorize=False)

    def vectorized(self, x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        """Return the same tensor by one flag: all backward passes at once."""
        return self._full(x, parameters, vectorize=True)

    def _full(self, x: torch.Tensor, parameters: tuple[torch.Tensor, ...], *, vectorize: bool) -> torch.Tensor:
        from torch.autograd import functional

        autograd: Any = functional  # it is not annotated
        result: torch.Tensor = autograd.jacobian(network(parameters), x, vectorize=vectorize)
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
        """Return the float64 tensor: the vectorized one, or its diagonal."""
        return self.per_sample(*doubles) if variant == "per-sample" else self.vectorized(*doubles)

    def written(self, variant: str, n: int, dtype: torch.dtype, device: str, report: Report) -> Mapping[str, float]:
        """Run P3's cell; in a second one move model and input again, which are there already.

        `torch.autograd.functional.jacobian` cannot be asked how far it is: its loop, one backward pass per row of
        the result and a stack at the end, is spelled out here, so that a run of minutes can be watched and stopped.
        """
        del variant
        import torch
        from torch import nn

        layers = [nn.Linear(wide, narrow, dtype=dtype) for wide, narrow in pairwise(WIDTHS)]
        model = nn.Sequential(*(module for layer in layers for module in (layer, nn.Tanh()))).to(device)
        x = torch.rand(n, 1, dtype=dtype).to(device).requires_grad_()
        outputs = model(x).reshape(-1)
        rows = []
        for index in range(outputs.numel()):
            rows.append(torch.autograd.grad(outputs[index], x, retain_graph=True)[0])
            report(index + 1, outputs.numel(), f"row {index + 1:,} of {outputs.numel():,}")
        torch.stack(rows).view(n, OUTPUTS, n, 1)
        started_ns = report.stopwatch_ns()
        model.to(device)
        x.to(device)
        return {MOVING: report.stopwatch_ns() - started_ns}

    def flops(self, n: int) -> float:
        """A forward pass of b inputs, then for each of 400 b outputs a backward pass through all b inputs.

        Two operations per weight and input forward; backward by the input alone, as much again.
        """
        return 2.0 * _WEIGHTS * n * (1 + OUTPUTS * n)

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """The result is written once; everything else is small beside it."""
        return float(n) * OUTPUTS * n * itemsize_bytes

    def costs(self, variant: str, n: int, itemsize_bytes: int) -> Costs:
        """Return a variant's costs; what runs all backward passes at once holds all their gradients at once."""
        if variant == "per-sample":
            result_bytes = float(n) * OUTPUTS * itemsize_bytes
            # Measured, b = 200: 250 MB, 780 times the result: unit rows [b, 400, 400] and their gradient.
            return Costs(2.0 * _WEIGHTS * n * (1 + OUTPUTS), result_bytes, result_bytes * 2 * OUTPUTS)
        result_bytes = self.bytes_moved(n, itemsize_bytes)
        if variant == "vectorized":
            # Measured, b = 20 and 40: 1200 times the result: unit rows [400 b, b, 400] and two gradients of them.
            return Costs(self.flops(n), result_bytes, result_bytes * 3 * OUTPUTS)
        # The rows, and the tensor that they are stacked into.
        return Costs(self.flops(n), result_bytes, 2 * result_bytes)


def network(parameters: tuple[torch.Tensor, ...]) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return the network as a function of its input alone."""
    from torch.nn.functional import linear

    layers = list(zip(parameters[::2], parameters[1::2], strict=True))

    def forward(x: torch.Tensor) -> torch.Tensor:
        for weight, bias in layers:
            x = linear(x, weight, bias).tanh()
        return x

    return forward
