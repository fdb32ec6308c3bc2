"""What a workload is: two functions and a few facts. The harness does everything else.

No clock is in sight here: timing, moving, memory, comparison and rates belong to `bench`.
Nothing imports torch at module level, so that listing workloads costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from cpugpu_tui.errors import UsageError
from cpugpu_tui.model import DTYPES, ITEMSIZE_BYTES, WorkloadInfo

if TYPE_CHECKING:
    import torch

Step = Callable[..., Any]
"""Takes the input tensors, returns the result tensor on their device; may take `out=`."""

TOLERANCE = {"float64": 1e-9, "float32": 1e-3, "bfloat16": 1e-2, "float16": 1e-2}
"""Largest error relative to the workload's scale (METHOD.md, step 2)."""


@dataclass(frozen=True)
class AsWritten:
    """A publication's clock, as facts: the harness reproduces it in scope and order."""

    publication: str
    """Key of WORKLOADS.md: `P1` … `P5`."""
    judgement: str
    """`clock wrong` (the device was not waited for), `scope`, or `clock fair`."""
    variants: tuple[str, ...]
    """Variants that are what the publication ran."""
    calls: int = 1
    """Calls between the two readings of the clock; the printed number is their total."""
    calls_before: int = 0
    """Calls made before, outside the clock."""
    makes_inputs: bool = False
    """Whether the clock also covers making the inputs, on the device."""


class Workload:
    """Base of every workload, built-in or a person's own.

    A subclass sets the facts and writes `inputs` and `step`. Its docstring's first line is its summary.
    """

    name: str = ""
    """Unique; what is typed on the command line."""
    axis: str = "n"
    """What a size means, in a few words."""
    sizes: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    """Default sizes."""
    dtypes: tuple[str, ...] = DTYPES
    """Element types that make sense."""
    as_written: AsWritten | None = None
    """The publication's clock, if there is a publication."""

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return the host tensors of size `n`, drawn from `generator`, never all zeros."""
        raise NotImplementedError

    def step(self, *tensors: Any, **keywords: Any) -> Any:
        """Do the work once on the inputs' device and return the result tensor; nothing else inside.

        Takes what `inputs` returned; may take `out=`, a tensor to write the result to.
        """
        raise NotImplementedError

    def steps(self) -> Mapping[str, Step]:
        """Return the variants by name; the first one is the default."""
        return {"default": self.step}

    def written_call(self, n: int, dtype: torch.dtype, device: str) -> object:
        """Do what the publication does between its clock readings, where that includes making the inputs."""
        raise NotImplementedError

    def flops(self, n: int) -> float:
        """Return the floating-point operations of one step; 0 where the count has no meaning."""
        raise NotImplementedError

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return the least traffic of one step: each input read once, each result written once."""
        raise NotImplementedError

    def memory_bytes(self, n: int, itemsize_bytes: int) -> float:
        """Return the memory that inputs and result of one step occupy."""
        return self.bytes_moved(n, itemsize_bytes)

    def scale(self, reference: torch.Tensor, *_inputs: torch.Tensor) -> float:
        """Return what an error is measured against, from the float64 reference and float64 inputs."""
        return float(reference.norm())

    def tolerance(self, dtype: str) -> float:
        """Return the largest accepted error relative to `scale`."""
        return TOLERANCE[dtype]

    def variant(self, name: str) -> Step:
        """Return the step of a variant; `default` names the first one.

        Raises:
            UsageError: there is no such variant.
        """
        steps = self.steps()
        if name == "default":
            return next(iter(steps.values()))
        if name not in steps:
            raise UsageError(f"Workload {self.name!r} has no variant {name!r}.", f"It has: {', '.join(steps)}.")
        return steps[name]

    def info(self) -> WorkloadInfo:
        """Return the facts for the catalogue."""
        summary = (type(self).__doc__ or "").strip().splitlines()
        return WorkloadInfo(self.name, self.axis, tuple(self.steps()), self.sizes, summary[0] if summary else "")


REGISTRY: dict[str, Workload] = {}
"""Every workload by name, in the order in which they are listed."""

W = TypeVar("W", bound=type[Workload])


def workload(cls: W) -> W:
    """Register a `Workload` subclass; use as a class decorator.

    Raises:
        UsageError: the name is missing or taken.
    """
    instance = cls()
    if not instance.name:
        raise UsageError(f"The workload class {cls.__name__} has no name.", "Set `name` in its body.")
    if instance.name in REGISTRY:
        raise UsageError(f"There are two workloads named {instance.name!r}.", "Rename one of them.")
    REGISTRY[instance.name] = instance
    return cls


def itemsize_bytes(dtype: str) -> int:
    """Return the bytes of one element."""
    return ITEMSIZE_BYTES[dtype]
