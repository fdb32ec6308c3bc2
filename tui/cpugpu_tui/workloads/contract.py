"""What a workload is: two functions and a few facts. The harness does everything else.

No clock is in sight here: timing, moving, memory, comparison and rates belong to `timing`.
Nothing imports torch at module level, so that listing workloads costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from cpugpu_tui.errors import UsageError
from cpugpu_tui.model import DTYPES, WorkloadInfo
from cpugpu_tui.workloads.containers import moved

if TYPE_CHECKING:
    import torch

Step = Callable[..., Any]
"""Takes what `Workload.place` returned, returns the result tensor on its device; may take `out=`."""

TOLERANCE = {"float64": 1e-9, "float32": 1e-3, "tf32": 1e-2, "bfloat16": 1e-2, "float16": 1e-2}
"""Largest error relative to the workload's scale (method.md, step 2)."""

CLOCK_WRONG, SCOPE, CLOCK_FAIR = "clock wrong", "scope", "clock fair"
"""Classes of a publication's clock: the device was not waited for; something else was inside; neither."""


@dataclass(frozen=True)
class AsWritten:
    """A publication's clock, as facts: the harness reproduces it in scope and order."""

    publication: str
    """Key of docs/publications.md: `P1` … `P5`."""
    classes: tuple[str, ...]
    """Of `CLOCK_WRONG`, `SCOPE`, `CLOCK_FAIR`, those that apply."""
    variants: tuple[str, ...]
    """Variants that are what the publication ran."""
    scope: str = "the call alone"
    """What lies between its two readings of the clock, in words."""
    whole: bool = False
    """Whether more than the call is inside: `Workload.written` does it, before anything else touches the device."""
    calls: int = 1
    """Where `whole`: how often `written` runs between the two readings; the printed number is their total."""
    calls_before: int = 0
    """Runs made before, outside the clock."""
    imports: bool = False
    """Whether importing the framework is inside too: its time is added once a process, as in a fresh notebook."""
    cpu_seconds: bool = False
    """Whether user and system seconds are printed beside the wall time."""
    sizes: tuple[int, ...] = ()
    """Sizes that the publication ran; empty for every size."""
    small_sizes: tuple[int, ...] = ()
    """What stands for them at `--scale small`."""

    def covers(self, variant: str, size: int, scale: str) -> bool:
        """Whether the publication ran this."""
        sizes = self.small_sizes if scale == "small" else self.sizes
        return variant in self.variants and (not sizes or size in sizes)


@dataclass(frozen=True)
class Setting:
    """What a plan tells the workloads of its process."""

    scale: str = "full"
    """One of `model.SCALES`."""
    mnist: str | None = None
    """Folder of the person's own idx files; None draws digits."""


@dataclass(frozen=True)
class Costs:
    """What one call of a variant needs."""

    flops: float
    """Floating-point operations; 0 where the count has no meaning."""
    bytes_moved: float
    """Least memory traffic: each input read once, each result written once; 0 where it has no meaning."""
    memory_bytes: float
    """What inputs, state, temporaries and result occupy at most on one device."""


class Report(Protocol):
    """Told by a long `Workload.written` how far it is; costs next to nothing, so call it often."""

    def __call__(self, done: int, of: int, note: str = "") -> None:
        """Say that `done` of `of` parts are over. Raises what ends the case if a stop was asked for."""

    def epoch(
        self, epoch: int, epochs: int, loss: float, accuracy: float | None, elapsed_ns: float, steps: int
    ) -> None:
        """Say how an epoch went (`model.EpochFinished`)."""

    def stopwatch_ns(self) -> float:
        """Return a reading of the harness's clock: no workload reads one itself."""


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
    has_end_to_end: bool = True
    """Whether inputs can start and the result can end on the host; not where moving is the work itself."""
    setting: Setting = Setting()
    """Set by the harness before anything is asked for."""

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Return the host tensors of size `n`, drawn from `generator`, never all zeros."""
        raise NotImplementedError

    def step(self, *tensors: Any, **keywords: Any) -> Any:
        """Do the work once on the inputs' device and return the result tensor; nothing else inside.

        Takes what `place` returned; may take `out=`, a tensor to write the result to.
        """
        raise NotImplementedError

    def steps(self) -> Mapping[str, Step]:
        """Return the variants by name; the first one is the default."""
        return {"default": self.step}

    def place(self, variant: str, inputs: tuple[torch.Tensor, ...], device: str) -> tuple[Any, ...]:
        """Return what a step takes on `device`, from the host inputs; models and captured graphs are made here."""
        del variant
        return tuple(moved(each, device) for each in inputs)

    @property
    def is_placed_plainly(self) -> bool:
        """Whether `place` does nothing but move each input."""
        return type(self).place is Workload.place

    def reset(self, variant: str, placed: tuple[Any, ...]) -> None:
        """Put state that steps have changed (weights, optimiser) back to the start; called between half-rounds."""

    def checked(self, variant: str, placed: tuple[Any, ...]) -> Any:
        """Return the tensor that is compared between devices and variants; a step's result unless overridden."""
        return self.variant(variant)(*placed)

    def comparable(self, result: Any) -> Any:
        """Return the tensor of a step's result that is compared; the result itself unless overridden."""
        return result

    def reference(self, variant: str, doubles: tuple[Any, ...]) -> Any:
        """Return what `checked` should be, from float64 host inputs: by default with the first variant."""
        del variant
        first = next(iter(self.steps()))
        return self.checked(first, self.place(first, doubles, "cpu"))

    def prepare_written(self, variant: str, n: int, device: str) -> None:
        """Do what the publication did before its clock started; called outside the clock, before `written`."""

    def written(self, variant: str, n: int, dtype: torch.dtype, device: str, report: Report) -> Mapping[str, float]:
        """Do what the publication does between its clock readings, where that is more than the call.

        Returns further numbers that it prints, by metric name, ns; usually none.
        """
        raise NotImplementedError

    def written_operations(self, n: int) -> int:
        """Return how many steps' worth of work lie between the publication's two readings."""
        del n
        return self.as_written.calls if self.as_written is not None else 0

    def flops(self, n: int) -> float:
        """Return the floating-point operations of one step; 0 where the count has no meaning."""
        raise NotImplementedError

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return the least traffic of one step: each input read once, each result written once."""
        raise NotImplementedError

    def memory_bytes(self, n: int, itemsize_bytes: int) -> float:
        """Return the memory that inputs and result of one step occupy."""
        return self.bytes_moved(n, itemsize_bytes)

    def costs(self, variant: str, n: int, itemsize_bytes: int) -> Costs:
        """Return the costs of a variant; override where variants differ."""
        del variant
        return Costs(self.flops(n), self.bytes_moved(n, itemsize_bytes), self.memory_bytes(n, itemsize_bytes))

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

    def step_for(self, variant: str, placed: tuple[Any, ...]) -> Step:
        """Return the step of a variant for placed inputs.

        Raises:
            UsageError: the workload has no such variant.
        """
        del placed
        return self.variant(variant)

    def info(self) -> WorkloadInfo:
        """Return the facts for the catalogue."""
        summary = (type(self).__doc__ or "").strip().splitlines()
        return WorkloadInfo(
            self.name, self.axis, tuple(self.steps()), self.sizes, summary[0] if summary else "", self.dtypes
        )


REGISTRY: dict[str, Workload] = {}
"""Every workload by name, in the order in which they are listed."""

SOURCES: dict[str, str] = {}
"""Where each workload that is not built in comes from, by its name."""

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
        other = SOURCES.get(instance.name, "built in")
        raise UsageError(f"There are two workloads named {instance.name!r}: the other is {other}.", "Rename this one.")
    REGISTRY[instance.name] = instance
    return cls
