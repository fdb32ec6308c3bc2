"""A GPU's state between timed blocks, and the meaning of its counters, masks and process lists. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cpugpu_tui import model
from cpugpu_tui.model.throttling import POWER_CAPPED, THROTTLED, severity


@dataclass(frozen=True)
class Edge:
    """Cheap values at one edge of a half-round: clock, throttle mask, counters and power."""

    at_ns: float
    """Time of the reading, on the clock of the counters."""
    sm_clock_mhz: float | None = None
    throttle: tuple[str, ...] = ()
    """Current reasons, as words."""
    throttled_ns: Mapping[str, float] = field(default_factory=dict)
    """Reason → time throttled by it since the driver was loaded, if the driver counts it."""
    power_mw: model.Reading = field(default_factory=lambda: model.Reading(None, "not-supported"))
    """Last power reading of the sensor, with its age."""
    is_average_power: bool = False
    """Whether the power is an average over 1 s, as with drivers before about 535."""


class State(NamedTuple):
    """Costly values at one edge of a case."""

    readings: Mapping[str, model.Reading]
    """A reading for each of `EDGE_KEYS`."""
    processes: tuple[model.GpuProcess, ...] | None = None
    """None if they cannot be listed."""


EDGE_KEYS = (
    "sm_clock_mhz", "temperature_c", "memory_used_bytes", "energy_mj", "throttled_power_cap_ns",
    "throttled_sync_boost_ns", "throttled_thermal_ns", "throttled_hw_thermal_ns", "throttled_power_brake_ns",
)  # fmt: skip
"""Readings at the edges of a case; on an H200 energy takes 2.8 to 16 ms, the last two 0.7 ms (method.md)."""

MARKED_SHARE = 0.01
"""Smallest throttled share of a half-round that sets a mark; less is below the noise."""

COUNTER_STEP_NS = 100e6
"""Step of the throttle counters, which say nothing about shorter times. (At its power limit an H200 reported 499.99 of
594 ms and 599.99 of 597 ms.)"""

LEAST_COUNTED_NS = 10 * COUNTER_STEP_NS
"""Shortest total time of half-rounds for a share by counter, so that one step is at most a tenth."""

UNEXPLAINED_BYTES = 200 << 20
"""Used memory without a listed process that counts as another user's; the driver itself needs less."""

SENSOR_NS = 100e6
"""Refresh interval of a GPU's power sensor; shorter windows have no power (method.md)."""

AVERAGE_NS = 1e9
"""Length of the window of an average power, which ends at its time stamp."""

BY_COUNTER, BY_CASE, BY_MASK = "counter", "counter, whole case", "seen at half-rounds"
"""Basis of a share: time counted within the half-rounds; time counted over the whole case, including untimed parts; or
the number of half-rounds with the reason, which is not a time."""


def counted(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float] | None:
    """Return the growth of each counter, or None without a counter on both sides.

    Counters that decreased were reset in between and are left out.
    """
    both = [word for word in after if word in before]
    return {word: after[word] - before[word] for word in both if after[word] >= before[word]} if both else None


class Throttle(NamedTuple):
    """One reason for low clocks."""

    word: str
    share: float
    """Share of the time that `basis` names, 0 to 1."""
    basis: str
    """`BY_COUNTER`, `BY_CASE` or `BY_MASK`."""

    @property
    def severity(self) -> str:
        """`NORMAL`, `WARNING` or `ALARMING`."""
        return severity(self.word)


def throttles(throttled_ns: Mapping[str, float], elapsed_ns: float, basis: str) -> tuple[Throttle, ...]:
    """Return the reasons with any time, largest share first."""
    if elapsed_ns <= 0:
        return ()
    # Counters and clock run on different processors, so their steps can exceed a window slightly.
    found = [Throttle(word, min(ns / elapsed_ns, 1.0), basis) for word, ns in throttled_ns.items() if ns > 0]
    return tuple(sorted(found, key=lambda throttle: -throttle.share))


def throttles_seen(marks: Mapping[str, int], half_rounds: int) -> tuple[Throttle, ...]:
    """Return the reasons from marks (word → half-rounds with it), for drivers without counters."""
    words = (POWER_CAPPED, THROTTLED)
    return tuple(Throttle(w, marks[w] / half_rounds, BY_MASK) for w in words if half_rounds and marks.get(w))


# ------------------------------------------------------------------ power


class PowerPoint(NamedTuple):
    """The power at one moment."""

    at_ns: float
    """Time of the power."""
    power_mw: float
    is_average: bool = False
    """Whether it is an average over the second before `at_ns`."""


def power_inside(points: Iterable[PowerPoint], started_ns: float, ended_ns: float) -> model.Reading:
    """Return the mean power of a window, mW, from the points whose sensor window lies inside it.

    Each point covers the time before it (`SENSOR_NS` or `AVERAGE_NS`), so shorter windows have no power.
    """
    inside = [
        point.power_mw
        for point in points
        if started_ns + (AVERAGE_NS if point.is_average else SENSOR_NS) <= point.at_ns <= ended_ns
    ]
    return model.Reading(sum(inside) / len(inside)) if inside else model.Reading(None, "window-too-short")


# ------------------------------------------------------------------ company


class Company(NamedTuple):
    """Other users of a GPU."""

    others: tuple[model.GpuProcess, ...]
    """Processes other than ours, each once."""
    unexplained_bytes: model.Reading
    """Used memory without a listed process; unknown if a process hides its memory or ours is not listed."""

    @property
    def is_shared(self) -> bool:
        """Whether another user's work may affect the result."""
        unexplained = self.unexplained_bytes.value
        return bool(self.others) or (unexplained is not None and unexplained > UNEXPLAINED_BYTES)


def company(lists: Sequence[tuple[Sequence[model.GpuProcess] | None, model.Reading]]) -> Company | None:
    """Return the other users of a GPU from (processes, used memory) at each edge; None without any list."""
    listed = [(processes, used) for processes, used in lists if processes is not None]
    if not listed:
        return None
    others = {process.pid: process for processes, _ in listed for process in processes if not process.own}
    unexplained = [unexplained_bytes(processes, used) for processes, used in listed]
    known = [reading for reading in unexplained if reading.value is not None]
    return Company(tuple(others.values()), max(known, key=lambda r: r.value or 0.0) if known else unexplained[0])


def unexplained_bytes(processes: Sequence[model.GpuProcess], used: model.Reading) -> model.Reading:
    """Return the used memory that belongs to no listed process."""
    if used.value is None:
        return used
    sizes = [process.memory_bytes for process in processes]
    if not any(process.own for process in processes) or None in sizes:
        return model.Reading(None, "not-supported")
    return model.Reading(max(0.0, used.value - sum(size for size in sizes if size is not None)))


def process_text(process: model.GpuProcess) -> str:
    """Return a process as text: `pid 4711 (alice, train.py)` or `pid 99999 (outside namespace)`."""
    who = ", ".join(text for text in (process.user, process.command) if text)
    return f"pid {process.pid} ({who or 'outside namespace'})"
