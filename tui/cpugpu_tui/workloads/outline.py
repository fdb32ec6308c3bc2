"""FLOPs, bytes and memory of a step, learnt on torch's meta device from shapes alone. No numbers are computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cpugpu_tui.workloads import plain_imports
from cpugpu_tui.workloads.containers import bytes_in
from cpugpu_tui.workloads.operators import Operators, put_back, settings, watched_operators

if TYPE_CHECKING:
    import torch

Make = Callable[["torch.dtype"], tuple[Callable[..., Any], tuple[Any, ...]]]
"""Returns a step and its arguments in a dtype."""


@dataclass(frozen=True)
class Outline:
    """What a step does."""

    flops: float = 0.0
    """Of matrix products, convolutions and attention; 0 if unknown."""
    bytes_moved: float = 0.0
    """Inputs and result; 0 if unknown."""
    memory_bytes: float = 0.0
    makes_tensors: bool = False
    """Whether it makes tensors out of nothing: on torch's default device."""
    draws: bool = False
    """Whether it draws random numbers."""


def outlined(make: Make, itemsize_bytes: int) -> Outline | None:
    """Make a step and its arguments on the meta device, which has shapes and no numbers, and call it there.

    Returns None if that fails: code that looks at numbers cannot run without them.
    """
    try:
        before = settings()
    except ImportError:  # a simulated run needs no torch
        return None
    try:
        return _called_on_meta(make, itemsize_bytes)
    except (Exception, SystemExit):  # noqa: BLE001 - a person's code may raise anything
        return None
    finally:
        put_back(before)


def prepare() -> None:
    """Import what the first outline needs: on two cores 2 s, as long as torch itself."""
    import torch

    outlined(lambda dtype: (torch.sin, (torch.ones(2, dtype=dtype),)), 4)


def _called_on_meta(make: Make, itemsize_bytes: int) -> Outline:
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    counter = FlopCounterMode(display=False)
    dtype = {8: torch.float64, 4: torch.float32, 2: torch.bfloat16}[itemsize_bytes]
    with torch.device("meta"), default_dtype(dtype):
        step, inputs = make(dtype)
        with watched_operators("meta") as seen, counter:
            result = step(*inputs)
    return outline_of(inputs, result, seen, float(counter.get_total_flops()))


def outline_of(inputs: Any, result: Any, seen: Operators, flops: float = 0.0) -> Outline:
    """Return the outline of a call that was watched."""
    moved_bytes = float(bytes_in(inputs) + bytes_in(result))
    return Outline(flops, moved_bytes, moved_bytes + seen.largest_bytes, seen.makes_tensors, seen.draws)


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Make a floating-point dtype torch's default, so that `torch.rand(n)` has it; imported modules do not."""
    import torch

    plain_imports.install()
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
