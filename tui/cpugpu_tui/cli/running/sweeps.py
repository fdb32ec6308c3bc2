"""Streams of telemetry readings: of this machine, a simulated one or a trace. Also records them."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace

from cpugpu_tui.model import Simulation, TelemetryRead
from cpugpu_tui.telemetry.recording import Recorder, header_of

WAITING = 16
"""Maximum number of readings that wait to be printed. Further ones are dropped to bound the memory."""


@dataclass(frozen=True)
class Origin:
    """The origin of readings, as every output shows it."""

    source: str
    tag: str = ""
    """Empty for live readings of this machine."""
    trace: str | None = None
    """Name of the trace."""
    driver: str | None = None
    nvml: str | None = None


OriginOf = Callable[[TelemetryRead], Origin]
"""Returns the origin of a reading. It is asked each time, because a slow driver reports its version late."""


def live_origin() -> OriginOf:
    """Return the function that adds the driver's version to live readings, once the driver has reported it."""
    from cpugpu_tui.telemetry.driver import PATIENCE_S, Versions

    versions = Versions()
    versions.known(PATIENCE_S)  # ask before another NVML session opens; a driver that hangs must not block

    def origin_of(read: TelemetryRead) -> Origin:
        # Ask again if there are GPUs but no version: the driver was loaded, or woke up, after the first question.
        return Origin("live", "", None, *versions.known(again=bool(read.gpus)))

    return origin_of


def numbered(sweeps: Iterable[TelemetryRead]) -> Generator[TelemetryRead, None, None]:
    """Yield readings numbered from 1. Those of a trace keep their numbers, and with them its gaps."""
    for seq, read in enumerate(sweeps, 1):
        yield read if read.seq else replace(read, seq=seq)


def paced(timed: Iterable[tuple[float, TelemetryRead]]) -> Iterator[TelemetryRead]:
    """Yield readings after their pauses."""
    due_s = time.monotonic()
    for pause_s, read in timed:
        due_s += pause_s
        time.sleep(max(0.0, due_s - time.monotonic()))
        yield read


def simulated_sweeps(interval_s: float, simulated: Simulation) -> Generator[TelemetryRead, None, None]:
    """Yield readings of a simulated machine, without end."""
    from cpugpu_tui.telemetry.simulated import simulated_sample

    start_s = due_s = time.monotonic()
    while True:
        time.sleep(max(0.0, due_s - time.monotonic()))
        yield simulated_sample(due_s - start_s, simulated.gpus)
        due_s += interval_s


def sampled(interval_s: float, *, gpm: bool) -> Generator[TelemetryRead, None, None]:
    """Yield readings of this machine, without end, once the driver has listed its GPUs."""
    from cpugpu_tui.telemetry.sampler import Sampler

    waiting: queue.Queue[TelemetryRead] = queue.Queue(WAITING)
    seq = 0

    def emit(read: TelemetryRead) -> None:
        nonlocal seq
        if not read.gpus and read.problem is None:
            return  # neither a GPU nor a problem: the driver is still waking up
        seq += 1  # also if the reading is dropped, so that the gap shows it
        if not waiting.full():
            waiting.put(replace(read, seq=seq))

    sampler = Sampler(interval_s, emit, gpm=gpm)
    sampler.start()
    try:
        while True:
            yield waiting.get()
    finally:
        sampler.stop()


def recorded(
    sweeps: Iterable[TelemetryRead], recorder: Recorder, origin_of: OriginOf, interval_s: float
) -> Iterator[TelemetryRead]:
    """Write each reading to the recorder, then yield it."""
    for number, read in enumerate(sweeps):
        if number == 0:
            origin = origin_of(read)
            recorder.header(header_of(read, origin.source, interval_s, (origin.driver, origin.nvml)))
        recorder.sample(read)
        yield read
