"""What a person's own code costs: its most expensive lines, what it executed, and what compiling a step took."""

from __future__ import annotations

from dataclasses import dataclass

from cpugpu_tui.model.devices import CommandUse
from cpugpu_tui.model.event import Event

WAIT, COPY, FALLBACK, LOOP, SMALL, OUTSIDE, WORK = LINE_REASONS = (
    "synchronisation", "copy", "cpu-fallback", "python-loop", "small-operators", "outside-torch", "operators",
)  # fmt: skip
"""Why a line costs what it does, `LineCost.reason`. `operators` is ordinary work."""

SETUP, STATEMENT = "<setup>", "<statement>"
"""File names of typed code in tracebacks."""

MOST_LINES = 10
"""Most lines of a case on a device."""

LONGEST_LINE = 120
"""Most characters of a line's text."""


@dataclass(frozen=True, slots=True)
class LineCost:
    """What one line of a person's own code cost in a profiled call."""

    file: str
    """Name of the file without its folder, or `statement` or `setup`."""
    line: int
    """Number of the line, from 1."""
    source_line: str
    """The line itself, without indentation, possibly cut."""
    reason: str
    """One of `LINE_REASONS`: where most of the line's time goes."""
    elapsed_ns: float
    """Time that the host spent on this line, waits included, ns. Called lines of own code count for themselves."""
    device_ns: float = 0.0
    """Time that the GPU needed for the line's operators after they were launched, ns. Approximate."""
    share: float = 0.0
    """The larger of both times divided by the profiled call's. Host and GPU overlap, so the sum may exceed 1."""
    visits: int = 0
    """How many times the line ran."""
    operators: int = 0
    """Operators of torch that the line called, views and copies between devices left out."""
    on_cpu: int = 0
    """Those that ran on the CPU although the device is a GPU."""
    synchronisations: int = 0
    """Operators that bring numbers to the host, such as `item`: on a GPU, the host waits for them."""
    bytes_to_gpu: int = 0
    bytes_to_host: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class LinesProfiled(Event):
    """The most expensive lines of own code in a case. Taken after all cases; its times are never the case's times."""

    case: str
    device: str
    lines: tuple[LineCost, ...]
    """At most `MOST_LINES`, the largest share first."""
    profiled_ns: float
    """Time of the profiled call until the device had finished, ns; shares refer to it."""
    unprofiled_ns: float
    """Time of a call without the profiler just before, ns."""


# ------------------------------------------------------------------ events about the whole code


@dataclass(frozen=True, kw_only=True, slots=True)
class CodeTraced(Event):
    """What one call of a person's own code executed on a device, operator by operator. It is not a timed call."""

    case: str
    device: str
    operators: int
    """Operators that ran on this device."""
    on_cpu: tuple[str, ...] = ()
    """Operators that ran on the CPU although the device is a GPU, each name once."""
    copies_to_gpu: int = 0
    bytes_to_gpu: int = 0
    copies_to_host: int = 0
    bytes_to_host: int = 0
    synchronisations: int = 0
    """Operators that made the host wait for the GPU, such as `item`."""
    peak_bytes: int | None = None
    """Most memory that torch held on the GPU during the call; None for the CPU."""
    peak_host_bytes: int | None = None
    """Most memory that the process has had on the host so far."""
    sets_default_device: bool = False
    """The code makes tensors without naming a device, so the device was made torch's default one."""
    not_compared: str = ""
    """Why results are not compared between devices; empty if they are."""
    library: str = ""
    """Library of the result of an implementation for this device alone, such as `numpy`; empty for other code."""
    used: CommandUse | None = None
    """What the processes of a command used, which has no operators; None for other code."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CodeCompiled(Event):
    """`torch.compile` has compiled a case on one device, in an empty cache and before all timed rounds."""

    case: str
    device: str
    elapsed_ns: float
    """Cost: time of the first compiled call without that of a later one, ns."""
    variant: str
    """Variant of the workload that was compiled."""
    has_kernels: bool = True
    """Whether the compiler made code of its own; if not, a call runs nothing but torch's own operators."""
