"""Base class of workloads: `inputs`, `step` and a few facts. The harness does everything else.

Nothing here reads a clock: timing, copies, memory checks and comparison of results belong to `timing`.
Nothing imports torch at module level, so that listing workloads stays fast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from cpugpu_tui import model
from cpugpu_tui.errors import UsageError, did_you_mean
from cpugpu_tui.workloads.containers import moved

if TYPE_CHECKING:
    import torch

    from cpugpu_tui.workloads.outline import Outline


Step = Callable[..., Any]
"""Takes the values that `Workload.place` returned and returns the result on its device; may take `out=`."""

TOLERANCE = {"float64": 1e-9, "float32": 1e-3, "tf32": 1e-2, "bfloat16": 1e-2, "float16": 1e-2}
"""Largest error relative to the workload's scale (method.md, step 2)."""

CLOCK_WRONG, SCOPE, CLOCK_FAIR = "clock wrong", "scope", "clock fair"
"""Classes of a publication's clock: it did not wait for the device; it timed more than the call; neither."""


class AsWritten(NamedTuple):
    """The timing code of a publication, described so that the harness can reproduce its scope and order."""

    publication: str
    """Key in docs/publications.md: `P1` … `P5`."""
    classes: tuple[str, ...]
    """Those of `CLOCK_WRONG`, `SCOPE` and `CLOCK_FAIR` that apply."""
    variants: tuple[str, ...]
    """Variants that match the publication's code."""
    scope: str = "the call alone"
    """The code between its two clock readings, in words."""
    whole: bool = False
    """Whether more than the call is timed: `Workload.written` then runs it, before anything else uses the device."""
    calls: int = 1
    """With `whole`: how often `written` runs between the two readings; the reported time is the total."""
    calls_before: int = 0
    """Runs of `written` before the first clock reading."""
    imports: bool = False
    """Whether the framework's import is timed too: it is added once per process, as in a fresh notebook."""
    cpu_seconds: bool = False
    """Whether user and system CPU time are reported beside the wall time."""
    sizes: tuple[int, ...] = ()
    """Sizes that the publication ran; empty for all sizes."""
    small_sizes: tuple[int, ...] = ()
    """Sizes used in their place at `--scale small`."""

    def covers(self, variant: str, size: int, scale: str) -> bool:
        """Return whether the publication ran this variant at this size."""
        sizes = self.small_sizes if scale == "small" else self.sizes
        return variant in self.variants and (not sizes or size in sizes)


class Setting(NamedTuple):
    """Settings of a plan that every workload of the process can read."""

    scale: str = "full"
    """One of `model.SCALES`."""
    mnist: str | None = None
    """Folder with the user's MNIST idx files; None generates digits."""


class Costs(NamedTuple):
    """FLOPs, memory traffic and memory of one call of a variant."""

    flops: float
    """Floating-point operations; 0 if the count has no meaning."""
    bytes_moved: float
    """Least memory traffic: each input read once, each result written once; 0 if it has no meaning."""
    memory_bytes: float
    """Peak memory of inputs, state, temporaries and result on one device."""
    launches: float = 1.0
    """Kernels that a call launches one after the other, if their launches take most of its time; for its estimate."""


class Report(Protocol):
    """Progress callback of a long `Workload.written`; cheap, so call it often."""

    def __call__(self, done: int, of: int, note: str = "") -> None:
        """Report that `done` of `of` parts are complete. Raises `Stopped` once the run must end."""

    def epoch(
        self, epoch: int, epochs: int, loss: float, accuracy: float | None, elapsed_ns: float, steps: int
    ) -> None:
        """Report a finished epoch (`model.EpochFinished`)."""

    def stopwatch_ns(self) -> float:
        """Return the harness's monotonic clock, ns; workloads must not read any other clock."""


class Workload:
    """Base class of all workloads, built-in and user-defined.

    A subclass sets `name` and implements `inputs` and `step`; the harness places, checks and times. A built-in one also
    implements `flops` and `bytes_moved`, which the app needs without torch. The first line of the docstring is the
    summary in lists.
    """

    name: str = ""
    """Unique name, as typed on the command line."""
    axis: str = "n"
    """Meaning of the size, in a few words."""
    sizes: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    """Default sizes."""
    dtypes: tuple[str, ...] = model.DTYPES
    """Supported element types."""
    as_written: AsWritten | None = None
    """The publication's clock; None without a publication."""
    has_end_to_end: bool = True
    """Whether latency with copies can be timed; False if copying is the work itself."""
    stays: int = 0
    """Number of first inputs that stay on the device between calls (weights, tables): no call copies them."""
    draws: bool = False
    """Whether the step draws random numbers, so that no two results agree. They are checked only by `error`."""
    compiles: bool = False
    """Whether to offer the variant `compiled`: the first variant, compiled by `torch.compile`."""
    setting: Setting = Setting()
    """Set by the harness before it calls any method."""

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[Any, ...]:
        """Return the arguments of a step of size `n`, on the host, drawn from `generator`; never all zeros.

        Tensors and modules, alone or in lists, tuples and dictionaries. Integers stay integers in the float64 check.
        """
        raise NotImplementedError

    def step(self, *tensors: Any, **keywords: Any) -> Any:
        """Do the work once on the inputs' device and return its result: a tensor, or several. Do nothing else.

        Takes the values that `place` returned; may take `out=`, a tensor to write the result to.
        """
        raise NotImplementedError

    def steps(self) -> Mapping[str, Step]:
        """Return the steps by variant name; the first one is the default."""
        return {"default": self.step}

    def place(self, variant: str, inputs: tuple[Any, ...], device: str) -> tuple[Any, ...]:
        """Return the arguments of a step on `device`, from the host inputs. Create what only lives there here."""
        return tuple(moved(each, device) for each in inputs)

    @property
    def is_placed_plainly(self) -> bool:
        """Whether `place` does nothing but move each input."""
        return type(self).place is Workload.place

    def reset(self, variant: str, placed: tuple[Any, ...]) -> None:
        """Restore state that steps have changed (weights, optimiser); called between half-rounds."""

    def checked(self, variant: str, placed: tuple[Any, ...]) -> Any:
        """Return what to compare between devices and variants; by default a step's result."""
        return self.step_for(variant, placed)(*placed)

    def reference(self, variant: str, doubles: tuple[Any, ...]) -> Any:
        """Return the correct value of `checked`, from float64 host inputs; by default with the first variant."""
        first = next(iter(self.steps()))
        return self.checked(first, self.place(first, doubles, "cpu"))

    def error(self, variant: str, result: tuple[Any, ...], doubles: tuple[Any, ...]) -> float | None:
        """Return the error of a result that is right in more than one form, to be compared with `tolerance`.

        For example the residual of a solution, or the deviation of a mean. Takes the result's tensors and the inputs,
        in float64 on the host. None (default) compares the result with `reference`.
        """

    def prepare_written(self, variant: str, n: int, device: str) -> None:
        """Run the publication's preparation; called before `written`, outside the timed section."""

    def written(self, variant: str, n: int, dtype: torch.dtype, device: str, report: Report) -> Mapping[str, float]:
        """Run the code between the publication's clock readings, if that is more than the call.

        Returns further times that it prints, metric name → ns; usually none.
        """
        raise NotImplementedError

    def written_operations(self, n: int) -> int:
        """Return the number of steps between the publication's two clock readings."""
        return self.as_written.calls if self.as_written is not None else 0

    def outline(self, n: int, itemsize_bytes: int, variant: str = "default") -> Outline | None:
        """Return what the shapes of a step's tensors tell; None if it cannot run on shapes alone."""
        return _outline(self, n, itemsize_bytes, variant)

    def flops(self, n: int) -> float:
        """Return the floating-point operations of one step; 0 if the count has no meaning.

        By default those of matrix products, convolutions and attention, which torch counts from shapes.
        """
        found = self.outline(n, model.ITEMSIZE_BYTES["float32"])
        return found.flops if found is not None else 0.0

    def bytes_moved(self, n: int, itemsize_bytes: int) -> float:
        """Return the least memory traffic of one step, bytes: each input read once, each result written once.

        By default the bytes of inputs and result, from their shapes; 0 if they are unknown.
        """
        found = self.outline(n, itemsize_bytes)
        return found.bytes_moved if found is not None else 0.0

    def memory_bytes(self, n: int, itemsize_bytes: int) -> float:
        """Return the memory of inputs, temporaries and result of one step, bytes.

        By default `bytes_moved`, or if that is not defined, the same and the largest temporary of all variants.
        """
        if type(self).bytes_moved is not Workload.bytes_moved:
            return self.bytes_moved(n, itemsize_bytes)
        found = (self.outline(n, itemsize_bytes, variant) for variant in self.steps())
        return max((each.memory_bytes for each in found if each is not None), default=0.0)

    def costs(self, variant: str, n: int, itemsize_bytes: int) -> Costs:
        """Return the costs of a variant; override this if variants differ."""
        return Costs(self.flops(n), self.bytes_moved(n, itemsize_bytes), self.memory_bytes(n, itemsize_bytes))

    def scale(self, reference: torch.Tensor, *_inputs: torch.Tensor) -> float:
        """Return the magnitude that errors are relative to, from the float64 reference and float64 inputs."""
        return float(reference.norm())

    def tolerance(self, dtype: str) -> float:
        """Return the largest accepted error, relative to `scale`."""
        return TOLERANCE[dtype]

    def variants(self) -> tuple[str, ...]:
        """Return the names of all variants; the first one is the default."""
        return (*self.steps(), *((model.COMPILED,) if self.compiles else ()))

    def is_compiled(self, variant: str) -> bool:
        """Return whether the harness compiles the step of a variant."""
        return self.compiles and variant == model.COMPILED

    def variant(self, name: str) -> Step:
        """Return the step of a variant; `default` names the first one, which `compiled` compiles.

        Raises:
            UsageError: the workload has no such variant.
        """
        steps = self.steps()
        if name == "default" or self.is_compiled(name):
            return next(iter(steps.values()))
        if name not in steps:
            raise UsageError(f"Workload {self.name!r} has no variant {name!r}.", did_you_mean(name, self.variants()))
        return steps[name]

    def step_for(self, variant: str, placed: tuple[Any, ...]) -> Step:
        """Return the step of a variant for placed inputs.

        Raises:
            UsageError: the workload has no such variant.
        """
        return self.variant(variant)

    def info(self) -> model.WorkloadInfo:
        """Return the description for the catalogue."""
        summary = (type(self).__doc__ or "").strip().splitlines()
        return model.WorkloadInfo(
            self.name, self.axis, self.variants(), self.sizes, summary[0] if summary else "", self.dtypes
        )


@lru_cache(maxsize=256)
def _outline(item: Workload, n: int, itemsize_bytes: int, variant: str) -> Outline | None:
    from cpugpu_tui.workloads.outline import outlined

    def make(dtype: torch.dtype) -> tuple[Step, tuple[Any, ...]]:
        import torch

        placed = item.place(variant, as_inputs(item.inputs(n, dtype, torch.Generator())), "meta")
        return item.step_for(variant, placed), placed

    return outlined(make, itemsize_bytes)


def as_inputs(value: Any) -> tuple[Any, ...]:
    """Return what `Workload.inputs` returned as arguments: a tensor or module alone is one argument."""
    import torch

    inputs: tuple[Any, ...] = (value,) if isinstance(value, (torch.Tensor, torch.nn.Module)) else value
    return inputs


REGISTRY: dict[str, Workload] = {}
"""All workloads by name, in the order of the lists."""

SOURCES: dict[str, str] = {}
"""Workload name → file or package that defines it; without the built-in ones."""

W = TypeVar("W", bound=type[Workload])


def workload(cls: W) -> W:
    """Register a `Workload` subclass; use as a class decorator.

    Raises:
        UsageError: it is no such class, or its name is missing or taken.
    """
    if not (isinstance(cls, type) and issubclass(cls, Workload)):
        raise UsageError("@workload stands before something else than a subclass of Workload.",
                         "Write it in the line above such a class.")  # fmt: skip
    instance = cls()
    if not instance.name:
        raise UsageError(f"Workload class {cls.__name__} has no name.", "Set the class attribute `name`.")
    if instance.name in REGISTRY:
        other = SOURCES.get(instance.name, "a built-in workload")
        raise UsageError(f"The workload name {instance.name!r} is taken by {other}.", "Rename this workload.")
    REGISTRY[instance.name] = instance
    return cls


# ------------------------------------------------------------------ inputs


def normals(dtype: torch.dtype, generator: torch.Generator, *shapes: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
    """Return a tensor of standard normals for each shape."""
    import torch

    return tuple(torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes)


def same_normals(dtype: torch.dtype, generator: torch.Generator, *shapes: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
    """Return `normals` that are drawn once for all sizes; nothing may write to them.

    To draw the table of `embedding` takes 60 ms, at up to 40 sizes of a survey.
    """
    import torch

    if torch.empty(0).is_meta:  # only shapes are wanted
        return normals(dtype, generator, *shapes)
    drawn, state = _drawn(bytes(generator.get_state().tolist()), dtype, shapes)
    generator.set_state(state)
    return drawn


@lru_cache(maxsize=4)
def _drawn(
    state: bytes, dtype: torch.dtype, shapes: tuple[tuple[int, ...], ...]
) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
    """Return `normals` of a generator in this state, and its state after them."""
    import torch

    generator = torch.Generator()
    generator.set_state(torch.tensor(list(state), dtype=torch.uint8))
    return normals(dtype, generator, *shapes), generator.get_state()


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
