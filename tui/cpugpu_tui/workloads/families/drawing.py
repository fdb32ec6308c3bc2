"""Random inputs of the built-in workloads, on the host: the same bytes for the same seed."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def normals(dtype: torch.dtype, generator: torch.Generator, *shapes: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
    """Return a tensor of standard normals for each shape."""
    import torch

    return tuple(torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes)


def uniforms(dtype: torch.dtype, generator: torch.Generator, *shapes: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
    """Return a tensor of numbers uniform in [0, 1) for each shape."""
    import torch

    return tuple(torch.rand(shape, generator=generator, dtype=dtype) for shape in shapes)


def layers(dtype: torch.dtype, generator: torch.Generator, *widths: int) -> tuple[torch.Tensor, ...]:
    """Return weight [out, in] and bias [out] of each layer, uniform in ±1/√in.

    `torch.nn.Linear` does the same: kaiming_uniform_ with a = √5 has the bound 1/√in.
    """
    found: list[torch.Tensor] = []
    for wide, narrow in pairwise(widths):
        drawn = uniforms(dtype, generator, (narrow, wide), (narrow,))
        found += [(each * 2 - 1) * wide**-0.5 for each in drawn]
    return tuple(found)
