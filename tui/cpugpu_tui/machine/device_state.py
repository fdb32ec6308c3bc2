"""What a GPU says of itself between timed blocks, and what its counters, masks and process lists mean. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cpugpu_tui.model import GpuProcess, Reading

UNKNOWN = Reading(None, "not-supported")


@dataclass(frozen=True)
class Edge:
    """The cheap things, at one side of a half-round: a clock, a mask, three counters."""

    at_ns: float
    """When the counters were read, by the clock that they count with."""
    sm_clock_mhz: float | None = None
    throttle: tuple[str, ...] = ()
    """Reasons in force, in words."""
    throttled_ns: Mapping[str, float] = field(default_factory=dict)
    """Reason → time throttled by it since the driver was loaded; only what the driver counts."""
    power_mw: Reading = UNKNOWN
    """Power at the sensor's last look, with its age."""
    is_average_power: bool = False
    """Whether that is an average over a second: drivers before 535 or so have no other."""


@dataclass(frozen=True)
class State:
    """The costly things, at one side of a case."""

    readings: Mapping[str, Reading]
    """Keys of `EDGE_KEYS`, all of them."""
    processes: tuple[GpuProcess, ...] | None = None
    """None when they cannot be listed."""


EDGE_KEYS = (
    "sm_clock_mhz",
    "temperature_c",
    "memory_used_bytes",
    "energy_mj",
    "throttled_power_cap_ns",
    "throttled_sync_boost_ns",
    "throttled_thermal_ns",
    "throttled_hw_thermal_ns",
    "throttled_power_brake_ns",
)
"""What a case's edges hold; the energy counter takes 2.8 to 16 ms on an H200, the last two 0.7 ms (method.md)."""

THROTTLED_KEYS = {
    "power-capped": "throttled_power_cap_ns",
    "sync-boost": "throttled_sync_boost_ns",
    "thermal": "throttled_thermal_ns",
    "hw-thermal": "throttled_hw_thermal_ns",
    "power-brake": "throttled_power_brake_ns",
}
"""Throttle word → its counter at a case's edges."""


MARKED_SHARE = 0.01
"""From this share of a half-round's time on it is marked as throttled: less than that is less than its noise."""

COUNTER_STEP_NS = 100e6
"""The throttle counters go on in steps of this (an H200 gave 499.99 of 594 ms and 599.99 of 597 ms at its power limit):
within less than one step they say nothing."""

LEAST_COUNTED_NS = 10 * COUNTER_STEP_NS
"""Time that half-rounds must have together for a share by counter: then a step more or less is a tenth."""

UNEXPLAINED_BYTES = 200 << 20
"""Memory in use that no listed process has is somebody's from here on; the driver's own bookkeeping is below."""

SENSOR_NS = 100e6
"""A GPU's power sensor is refreshed this often: over less time there is no power (method.md)."""

AVERAGE_NS = 1e9
"""A power that is an average is one over the second before it."""

NORMAL, WARNING, ALARMING = "normal", "warning", "alarming"

SEVERITY = {
    "power-capped": NORMAL,  # what full load looks like
    "sync-boost": NORMAL,
    "thermal": WARNING,
    "throttled": WARNING,
    "hw-slowdown": ALARMING,
    "hw-thermal": ALARMING,
    "power-brake": ALARMING,
}
"""Throttle word → how bad it is. `idle`, `app-clocks` and `display` are no throttling and never get here."""

BY_COUNTER, BY_CASE, BY_MASK = "counter", "counter, whole case", "seen at half-rounds"
"""Where a share comes from: time counted within the half-rounds; counted from the begin to the end of the case, with
everything that was not timed; or in how many half-rounds it was in force when asked, which is no time."""


def counted(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float] | None:
    """Return how far each counter went, None without a counter on both sides.

    One that went back was reset in between and says nothing. What stood on it before does not matter.
    """
    both = [word for word in after if word in before]
    return {word: after[word] - before[word] for word in both if after[word] >= before[word]} if both else None


@dataclass(frozen=True)
class Throttle:
    """One reason for low clocks."""

    word: str
    share: float
    """Of the time that `basis` names, 0 to 1."""
    basis: str
    """`BY_COUNTER`, `BY_CASE` or `BY_MASK`."""

    @property
    def severity(self) -> str:
        """`NORMAL`, `WARNING` or `ALARMING`."""
        return SEVERITY.get(self.word, WARNING)


def throttles(throttled_ns: Mapping[str, float], elapsed_ns: float, basis: str) -> tuple[Throttle, ...]:
    """Return the reasons that took any time, largest share first."""
    if elapsed_ns <= 0:
        return ()
    # The counters are kept by another processor than the clock: their steps can overlap a window by a little.
    found = [Throttle(word, min(ns / elapsed_ns, 1.0), basis) for word, ns in throttled_ns.items() if ns > 0]
    return tuple(sorted(found, key=lambda throttle: -throttle.share))


def throttles_seen(marks: Mapping[str, int], half_rounds: int) -> tuple[Throttle, ...]:
    """Return the same from marks (word → half-rounds that had it), where the driver counts nothing."""
    words = ("power-capped", "throttled")
    return tuple(Throttle(w, marks[w] / half_rounds, BY_MASK) for w in words if half_rounds and marks.get(w))


# ------------------------------------------------------------------ power


@dataclass(frozen=True)
class PowerPoint:
    """The power at one moment."""

    at_ns: float
    """When it was true."""
    power_mw: float
    is_average: bool = False
    """Whether it is one over the second before."""


def power_inside(points: Iterable[PowerPoint], started_ns: float, ended_ns: float) -> Reading:
    """Return the mean power of a window, mW, from the points that lie wholly inside.

    A point tells of the time before it: what is younger than its sensor's window still knows what was before. So a
    window shorter than that has none.
    """
    inside = [
        point.power_mw
        for point in points
        if started_ns + (AVERAGE_NS if point.is_average else SENSOR_NS) <= point.at_ns <= ended_ns
    ]
    return Reading(sum(inside) / len(inside)) if inside else Reading(None, "window-too-short")


# ------------------------------------------------------------------ company


@dataclass(frozen=True)
class Company:
    """Who else was on a GPU."""

    others: tuple[GpuProcess, ...]
    """Processes that are not ours, each once."""
    unexplained_bytes: Reading
    """Memory that no listed process has; unknown where a process does not tell, or ours is not listed."""

    @property
    def is_shared(self) -> bool:
        """Whether somebody else's work may be in the result."""
        unexplained = self.unexplained_bytes.value
        return bool(self.others) or (unexplained is not None and unexplained > UNEXPLAINED_BYTES)


def company(lists: Sequence[tuple[Sequence[GpuProcess] | None, Reading]]) -> Company | None:
    """Return the company on a GPU from (processes, memory in use) at each edge; None where nobody could be listed."""
    listed = [(processes, used) for processes, used in lists if processes is not None]
    if not listed:
        return None
    others = {process.pid: process for processes, _ in listed for process in processes if not process.own}
    unexplained = [unexplained_bytes(processes, used) for processes, used in listed]
    known = [reading for reading in unexplained if reading.value is not None]
    return Company(tuple(others.values()), max(known, key=lambda r: r.value or 0.0) if known else unexplained[0])


def unexplained_bytes(processes: Sequence[GpuProcess], used: Reading) -> Reading:
    """Return the memory in use that no listed process has."""
    if used.value is None:
        return used
    sizes = [process.memory_bytes for process in processes]
    if not any(process.own for process in processes) or None in sizes:
        return Reading(None, "not-supported")
    return Reading(max(0.0, used.value - sum(size for size in sizes if size is not None)))


def process_text(process: GpuProcess) -> str:
    """Return who a process is: `pid 4711 (alice, train.py)` or `pid 99999 (outside namespace)`."""
    who = ", ".join(text for text in (process.user, process.command) if text)
    return f"pid {process.pid} ({who or 'outside namespace'})"
