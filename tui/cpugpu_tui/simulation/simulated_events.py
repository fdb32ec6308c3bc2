"""The virtual clock of a simulated host, and events of its GPU, on a clock that is right or wrong in a known way."""

from __future__ import annotations

import time
from collections.abc import Callable


class VirtualClock:
    """The virtual clock of the host, ns; with `pace`, virtual time takes real time."""

    def __init__(self, pace: float) -> None:
        self.now_ns = 0.0
        self._pace = pace
        self._owed_ns = 0.0

    def advance(self, elapsed_ns: float) -> None:
        """Let virtual time pass; sleep once the owed real time is worth a system call."""
        self.now_ns += elapsed_ns
        self._owed_ns += elapsed_ns * self._pace
        if self._owed_ns > 1e6:
            time.sleep(self._owed_ns / 1e9)
            self._owed_ns = 0.0


CYCLES_PER_NS = 2.0
RECORD_NS = 1_000.0
"""Time that the host takes to queue an event or a spin, ns."""
QUERY_NS = 500.0
REST_NS = 100_000.0
EVENT_NS = 1_200.0
"""Time between two events with nothing between them, ns."""
SPIN_NS = 1_500.0
"""Time of the shortest spin, ns."""

WRONG: dict[str, Callable[[float, float], float]] = {
    "": lambda start, end: end - start,
    "slow5": lambda start, end: 5 * (end - start),
    "late": lambda start, end: end - start + 120_000,
    "back": lambda start, end: _stepping(end) - _stepping(start),
    "coarse": lambda start, end: end // 1e6 * 1e6 - start // 1e6 * 1e6,
    "bend": lambda start, end: end - start + 100_000 * (end - start > 300_000),
    "zero": lambda start, end: 0 * (end - start),
    "hang": lambda start, end: end - start,
}
"""Name of a clock in `Simulation.event_clock` → its reading of two times, ns."""


def _stepping(at_ns: float) -> float:
    """Return a time on a clock that steps back by 60 µs every 600 µs, and later forward again."""
    return at_ns - 60_000 * (at_ns % 600_000 > 300_000)


class SimulatedEvent:
    """An event of the simulated stream."""

    def __init__(self, stream: SimulatedEvents) -> None:
        self._stream = stream
        self._at_ns = 0.0

    def record(self) -> None:
        """Queue the event."""
        self._at_ns = self._stream.queue(EVENT_NS)

    def query(self) -> bool:
        """Return whether the event has occurred."""
        self._stream.host_ns += QUERY_NS
        return self._stream.wrong != "hang" and self._at_ns <= self._stream.host_ns

    def elapsed_time(self, end: SimulatedEvent) -> float:
        """Return the time between this event and a later one by the simulated clock, ms."""
        return WRONG[self._stream.wrong](self._at_ns, end._at_ns) / 1e6


class SimulatedEvents:
    """A stream with a virtual time of its own, so that a check changes no other simulated time."""

    def __init__(self, wrong: str = "") -> None:
        self.wrong = wrong
        self.host_ns = 0.0
        self._free_ns = 0.0

    def queue(self, work_ns: float) -> float:
        """Queue work; return when it ends on the GPU, ns."""
        self.host_ns += RECORD_NS
        self._free_ns = max(self._free_ns, self.host_ns) + work_ns
        return self._free_ns

    def event(self) -> SimulatedEvent:
        """Return an event of this stream."""
        return SimulatedEvent(self)

    def spin(self, cycles: int) -> None:
        """Queue a kernel that spins."""
        self.queue(SPIN_NS + cycles / CYCLES_PER_NS)

    def now_ns(self) -> float:
        """Return the host's virtual time, ns."""
        return self.host_ns

    def rest(self) -> None:
        """Let virtual time pass."""
        self.host_ns += REST_NS
