"""The base class of events, and words in their fields."""

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


EDGES = ("begin", "end")
"""Values of `MachineRead.edge`: before the first call of a case on a device, and after its last."""

CORES = "cores"
"""Value of `MachineRead.edge`: waiting of the threads for cores, after a case in which cores were missing."""

NO_CORE = "no-core"
"""Mark of a half-round whose threads waited for a core in every repetition. It is not a valid result."""

TURN = "turn"
"""Phase in which the agent of a duet waits until it may prepare a case (round 0), time a round, or end (no case)."""

CALIBRATION = "calibration"
"""Phase in which peak rates and overheads of a device are measured."""
