"""Check a GPU's event clock before it is used: does it grow, never step back, resolve enough, and agree with the host?

`judge` decides from readings alone. `take` gets them from a source of events (a GPU, a simulated one, or one of a test)
and never waits without a limit. A busy host only makes the check less exact: the wall clock gives two bounds for each
block, and the event clock has to lie between them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol

from cpugpu_tui.machine.procfs import boot_id
from cpugpu_tui.model import ClockChecked, Device, EventClock
from cpugpu_tui.timing.timers.cuda import spin, timing_event

BLOCK_NS = 100e6
"""Length of the block that is compared with the wall clock, ns."""

TOLERANCE = 0.01
"""How far the event clock may lie outside the bounds of the wall clock, as a share of them."""

LATEST_PAIR_NS = 25_000.0
"""Longest reading of an empty pair, ns; 1,250 on an H200."""

COARSEST_STEP_NS = 5_000.0
"""Longest step between readings, ns; 30 on an H200. Small kernels take 2,000."""

LARGEST_BEND = 0.1
"""Largest relative distance of a reading from the straight line through the empty pair and the most calls."""

BEND_SLACK_NS = 4_000.0
"""Distance from that line that is never judged, ns: launches of single kernels vary by microseconds."""

LIMIT_NS = 1e9
"""Longest wait for one event, ns. A block takes 0.6 s if the clock of the GPU falls from 1,980 to 345 MHz in it."""

COUNTS = (0, 1, 2, 4, 8, 16, 32)
"""Numbers of calls between two events."""

REPEATS = 5
"""Readings for each number of calls. The shortest counts, because other programs only make it longer."""

CALL_NS = 20_000.0
"""Length of one call, ns."""

CHAIN = 64
"""Events in a row, a tenth of a call apart, that must not step back."""

QUEUE_NS = 20_000.0
"""Upper estimate of the host time to queue a spin or an event, ns. A hold that was too short is doubled."""

LONGEST_HOLD_NS = 20e6

FIRST_CYCLES = 2_000_000
"""Cycles of the spin that tells how long a cycle is: 1 ms at 1,980 MHz, 6 ms at 345 MHz."""

TRIES = 2
"""A fault counts if it is there in every try: a neighbour on the GPU may disturb one."""


class Source(Protocol):
    """A GPU's events, its spin, and the host's clock."""

    def event(self) -> Any:
        """Return an event with `record`, `query` and `elapsed_time` (ms), as in torch."""

    def spin(self, cycles: int) -> None:
        """Queue a kernel that spins for so many cycles."""

    def now_ns(self) -> float:
        """Return the host's monotonic clock, ns."""

    def rest(self) -> None:
        """Wait for some microseconds between two queries of an event."""


@dataclass(frozen=True)
class Readings:
    """What the event clock and the wall clock showed."""

    pairs: Mapping[int, tuple[float, ...]]
    """Number of calls between two events → readings, ns."""
    chain_ns: tuple[float, ...]
    """Readings of events in a row since the first of them, ns."""
    block_ns: float
    """Reading of the long block, ns."""
    wall_least_ns: float
    wall_most_ns: float
    """Bounds of that block by the wall clock, ns."""


class SilentError(Exception):
    """An event did not occur within the limit."""


# ------------------------------------------------------------------ judging


def judge(readings: Readings) -> EventClock:
    """Return what the readings show, with the first fault in the order of the checks."""
    lines = {count: min(taken) for count, taken in readings.pairs.items() if taken}
    everything = [*readings.chain_ns, *(each for taken in readings.pairs.values() for each in taken), readings.block_ns]
    back_ns = max((before - after for before, after in pairwise(readings.chain_ns)), default=0.0)
    found = EventClock(
        pair_ns=lines.get(0), step_ns=_step_ns(everything), back_ns=max(0.0, back_ns, -min(everything)),
        bend=_bend(lines), block_ns=readings.block_ns, wall_least_ns=readings.wall_least_ns,
        wall_most_ns=readings.wall_most_ns,
    )  # fmt: skip
    return replace(found, fault=_fault(found, is_zero=not any(everything)))


def _fault(found: EventClock, *, is_zero: bool) -> str:
    block_ns, least_ns, most_ns = found.block_ns or 0.0, found.wall_least_ns or 0.0, found.wall_most_ns or 0.0
    if is_zero:
        return "zero"
    if found.back_ns:
        return "back"
    if not (1 - TOLERANCE) * least_ns <= block_ns <= (1 + TOLERANCE) * most_ns:
        return "wall"
    if found.step_ns is None or found.step_ns > COARSEST_STEP_NS:
        return "coarse"
    if found.pair_ns is None or found.pair_ns > LATEST_PAIR_NS:
        return "late"
    return "" if found.bend is not None and found.bend <= LARGEST_BEND else "bend"


def _step_ns(readings: list[float]) -> float | None:
    """Return the shortest difference between two different readings, ns; None if all are equal."""
    distinct = sorted({round(each, 1) for each in readings})
    return min((after - before for before, after in pairwise(distinct)), default=None)


def _bend(lines: Mapping[int, float]) -> float | None:
    """Return the largest relative distance from the line through the readings of the fewest and the most calls."""
    least, most = min(lines, default=0), max(lines, default=0)
    if least == most:
        return None
    slope_ns = (lines[most] - lines[least]) / (most - least)
    if slope_ns <= 0:
        return 1.0
    off = {count: abs(taken - lines[least] - slope_ns * (count - least)) for count, taken in lines.items()}
    return max(max(0.0, off[count] - BEND_SLACK_NS) / (slope_ns * (count - least)) for count in lines if count > least)


# ------------------------------------------------------------------ reading


def check(source: Source, limit_ns: float = LIMIT_NS) -> EventClock:
    """Return the outcome for a GPU that is idle, without its identity. Takes 0.15 s for a sound clock."""
    started_ns = source.now_ns()
    found = EventClock(fault="hang", limit_ns=limit_ns)
    try:
        for _ in range(TRIES):
            found = judge(take(source, limit_ns))
            if found.is_sound:
                break
    except SilentError:
        found = EventClock(fault="hang", limit_ns=limit_ns)
    return replace(found, elapsed_ns=source.now_ns() - started_ns, checked_wall_ns=time.time_ns())


def take(source: Source, limit_ns: float) -> Readings:
    """Take all readings.

    Raises:
        SilentError: an event did not occur within `limit_ns`.
    """
    reader = _Reader(source, limit_ns)
    for _ in range(2):  # the first spin loads its kernel
        _, least_ns, most_ns = reader.block(FIRST_CYCLES)
    cycles_per_ns = 2 * FIRST_CYCLES / (least_ns + most_ns)
    block = reader.block(int(BLOCK_NS * cycles_per_ns))
    if block[2] < BLOCK_NS / 2:  # the GPU's clock rose meanwhile
        block = reader.block(int(BLOCK_NS / block[2] * BLOCK_NS * cycles_per_ns))
    call = max(1, int(CALL_NS * cycles_per_ns))
    chain_ns = reader.chain([max(1, call // 10)] * CHAIN, cycles_per_ns)
    pairs: dict[int, tuple[float, ...]] = {}
    for count in COUNTS:
        taken = (reader.chain([call] * count, cycles_per_ns, inner=False) for _ in range(REPEATS))
        pairs[count] = tuple(each[-1] for each in taken)
    return Readings(pairs, chain_ns, *block)


class _Reader:
    """Queues spins between events, and reads them."""

    def __init__(self, source: Source, limit_ns: float) -> None:
        self._source = source
        self._limit_ns = limit_ns

    def _recorded(self) -> Any:
        event = self._source.event()
        event.record()
        return event

    def _wait(self, event: Any) -> float:
        """Return the host's time of the last query before the event occurred.

        Raises:
            SilentError: it did not occur in time.
        """
        source = self._source
        started_ns = before_ns = source.now_ns()
        while not event.query():
            if source.now_ns() - started_ns > self._limit_ns:
                raise SilentError
            source.rest()
            before_ns = source.now_ns()
        return before_ns

    def block(self, cycles: int) -> tuple[float, float, float]:
        """Return the reading of one spin, and bounds of its time by the wall clock, ns."""
        source = self._source
        earliest_ns = source.now_ns()
        start = self._recorded()
        source.spin(cycles)
        end = self._recorded()
        self._wait(start)
        begun_ns = source.now_ns()
        last_ns = self._wait(end)
        ended_ns = source.now_ns()
        return start.elapsed_time(end) * 1e6, max(0.0, last_ns - begun_ns), ended_ns - earliest_ns

    def chain(self, spins: list[int], cycles_per_ns: float, *, inner: bool = True) -> tuple[float, ...]:
        """Return the readings after each spin since the event before them, ns; without `inner` only the last one.

        They are queued behind a hold, so that the host's launches are not between them.
        """
        hold_ns = QUEUE_NS * (3 + len(spins) * (2 if inner else 1))
        while True:
            self._source.spin(int(hold_ns * cycles_per_ns))
            start, events = self._recorded(), []
            for cycles in spins:
                self._source.spin(cycles)
                events += [self._recorded()] if inner else []
            events += [] if inner else [self._recorded()]
            was_held = not start.query()
            self._wait(events[-1])
            if was_held or hold_ns >= LONGEST_HOLD_NS:
                return tuple(start.elapsed_time(each) * 1e6 for each in events)
            hold_ns *= 2


class CudaEvents:
    """Events of a GPU on its current stream."""

    def __init__(self, device: Device) -> None:
        """Make the GPU the current device. Its context is created before the check, which has a time limit."""
        import torch

        torch.cuda.set_device(device.name)
        torch.zeros(1, device=device.name)
        torch.cuda.synchronize()

    def event(self) -> Any:
        """Return a CUDA event."""
        return timing_event()

    def spin(self, cycles: int) -> None:
        """Queue a kernel that spins."""
        spin(cycles)

    def now_ns(self) -> float:
        """Return the host's monotonic clock, ns."""
        return float(time.perf_counter_ns())

    def rest(self) -> None:
        """Let other threads work; sleeping takes about 60 µs."""
        time.sleep(10e-6)


class EventClocks:
    """The event clocks of a machine's GPUs. Each is checked when it is first needed, unless its outcome is known."""

    def __init__(
        self, known: Iterable[EventClock], source: Callable[[Device], Source], *, torch: str = "",
        driver: str | None = None,
    ) -> None:  # fmt: skip
        """`source` returns the events of a GPU, whose context exists; `known` are earlier outcomes."""
        self._known = tuple(known)
        self._source = source
        self._torch, self._driver = torch, driver
        self._found: dict[str, EventClock] = {}
        self._untold: list[ClockChecked] = []

    def of(self, device: Device) -> EventClock:
        """Return the outcome for a GPU."""
        if device.name not in self._found:
            identity = EventClock(uuid=device.uuid, driver=self._driver, torch=self._torch, boot_id=boot_id())
            found = next((each for each in self._known if each.holds_for(identity)), None)
            if found is None:
                found = replace(
                    check(self._source(device)), uuid=identity.uuid, driver=identity.driver, torch=identity.torch,
                    boot_id=identity.boot_id,
                )  # fmt: skip
            self._found[device.name] = found
            self._untold.append(ClockChecked(device=device.name, clock=found))
        return self._found[device.name]

    def untold(self) -> list[ClockChecked]:
        """Return the outcomes since the last call."""
        found, self._untold = self._untold, []
        return found
