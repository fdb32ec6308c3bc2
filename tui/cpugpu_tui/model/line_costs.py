"""The lines of a person's own code that cost most, from profiled calls."""

from __future__ import annotations

from dataclasses import dataclass

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
