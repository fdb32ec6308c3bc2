"""FLOPs, bytes and memory of a step, learnt on torch's meta device from shapes alone. No numbers are computed.

A setup runs with the dtype of its case as torch's default, and on the meta device where only shapes are wanted. A
module that is imported meanwhile and makes tensors as constants would keep these for the whole process: after
torchdiffeq's tables of coefficients were made on the meta device, no solver could run. So modules that code imports
are executed with torch's own defaults.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import TYPE_CHECKING, Any

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

    install_plain_imports()
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


class PlainLoader(SourceFileLoader):
    """Loads a module on the CPU, with float32 as the default dtype."""

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module."""
        import torch

        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float32)
        try:
            with torch.device("cpu"):
                super().exec_module(module)
        finally:
            # A module that sets another default dtype is found by the check of the setup.
            if torch.get_default_dtype() == torch.float32:
                torch.set_default_dtype(before)


class PlainImports:
    """Finds modules as the other finders do, and lets `PlainLoader` load those that are Python files."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return how to load a module, or None if nobody finds it. Torch and what it imports load as always."""
        spec = getattr(sys.modules.get("torch"), "__spec__", None)
        if name.partition(".")[0] == "torch" or spec is None or getattr(spec, "_initializing", False):
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if type(spec.loader) is SourceFileLoader:
                    spec.loader = PlainLoader(spec.loader.name, spec.loader.path)
                return spec
        return None


def install_plain_imports() -> None:
    """Let all later imports of this process be plain; once is enough."""
    if not any(isinstance(finder, PlainImports) for finder in sys.meta_path):
        sys.meta_path.insert(0, PlainImports())
