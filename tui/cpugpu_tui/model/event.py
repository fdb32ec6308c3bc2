"""The base class of events."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Base class of all events. Both clocks are read when the event is emitted."""

    seq: int = 0
    """Position in the run's stream, from 1."""
    wall_ns: int = 0
    """CLOCK_REALTIME, ns."""
    mono_ns: int = 0
    """CLOCK_MONOTONIC of the machine that emitted the event, ns."""
