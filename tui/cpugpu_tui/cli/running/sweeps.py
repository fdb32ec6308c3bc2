"""Sweeps over the machine, one after the other: of this machine, of a simulated one, of a trace; and recording them."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace

from cpugpu_tui.model import Simulation, TelemetryRead
from cpugpu_tui.telemetry.recording import Recorder, header_of

WAITING = 16
"""Sweeps kept for a reader that does not read; then they are dropped, so that memory stays bounded."""


@dataclass(frozen=True)
class Origin:
    """Where sweeps come from, as every output says it."""

    source: str
    tag: str = ""
    """Empty for this machine, now."""
    trace: str | None = None
    """Name of the trace."""
    driver: str | None = None
    nvml: str | None = None


OriginOf = Callable[[TelemetryRead], Origin]
"""What is known of the origin when a sweep comes: a driver that hangs tells its version late."""


def live_origin() -> OriginOf:
    """Return what says of each live sweep which driver it comes from, as soon as the driver has told."""
    from cpugpu_tui.telemetry.driver import PATIENCE_S, Versions

    versions = Versions()
    versions.known(PATIENCE_S)  # before another session opens, unless the driver hangs

    def origin_of(read: TelemetryRead) -> Origin:
        # GPUs without a version: the driver was loaded, or woke up, after we asked.
        return Origin("live", "", None, *versions.known(again=bool(read.gpus)))

    return origin_of


def numbered(sweeps: Iterable[TelemetryRead]) -> Generator[TelemetryRead, None, None]:
    """Yield sweeps with their position from 1, unless they have one: a trace keeps the holes of its recording."""
    for seq, read in enumerate(sweeps, 1):
        yield read if read.seq else replace(read, seq=seq)


def paced(timed: Iterable[tuple[float, TelemetryRead]]) -> Iterator[TelemetryRead]:
    """Yield sweeps at their times."""
    due_s = time.monotonic()
    for pause_s, read in timed:
        due_s += pause_s
        time.sleep(max(0.0, due_s - time.monotonic()))
        yield read


def made_up(interval_s: float, simulated: Simulation) -> Generator[TelemetryRead, None, None]:
    """Yield what a simulated machine reads, for ever."""
    from cpugpu_tui.telemetry.simulated import simulated_sample

    start_s = due_s = time.monotonic()
    while True:
        time.sleep(max(0.0, due_s - time.monotonic()))
        yield simulated_sample(due_s - start_s, simulated.gpus)
        due_s += interval_s


def sampled(interval_s: float, *, gpm: bool) -> Generator[TelemetryRead, None, None]:
    """Yield what this machine reads, for ever, from the moment at which the driver has said what there is."""
    from cpugpu_tui.telemetry.sampler import Sampler

    waiting: queue.Queue[TelemetryRead] = queue.Queue(WAITING)
    seq = 0

    def emit(read: TelemetryRead) -> None:
        nonlocal seq
        if not read.gpus and read.problem is None:
            return  # neither a GPU nor a reason why there is none: the driver is still waking up
        seq += 1  # also of one that is dropped: the hole tells that it was
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
    """Yield the sweeps after each was written."""
    for number, read in enumerate(sweeps):
        if number == 0:
            origin = origin_of(read)
            recorder.header(header_of(read, origin.source, interval_s, (origin.driver, origin.nvml)))
        recorder.sample(read)
        yield read
