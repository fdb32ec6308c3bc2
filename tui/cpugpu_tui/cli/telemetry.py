"""`cpugpu-tui telemetry`: what the machine does, as a table or as JSON lines; recorded, and replayed."""

from __future__ import annotations

import math
import queue
import shutil
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from cpugpu_tui.cli.listing import print_json
from cpugpu_tui.cli.options import simulation
from cpugpu_tui.cli.table_style import tell
from cpugpu_tui.cli.tables import plain
from cpugpu_tui.cli.telemetry_table import GPM_COLUMNS, Table
from cpugpu_tui.errors import EXIT_OK, CpuGpuError, UsageError
from cpugpu_tui.model import Simulation, TelemetryRead
from cpugpu_tui.plain import to_plain
from cpugpu_tui.telemetry.recording import Recorder, Trace, header_of, load, pauses
from cpugpu_tui.telemetry.trace import SCHEMA

DEFAULT_INTERVAL_S = 1.0
LEAST_INTERVAL_S = 0.1
"""Power and energy are refreshed every 100 ms (method.md): asking more often tells nothing new and disturbs."""
MOST_INTERVAL_S = 86_400.0
MOST_COUNT = 1_000_000_000
WAITING = 16
"""Sweeps kept for a reader that does not read; then they are dropped, so that memory stays bounded."""


@dataclass(frozen=True)
class Wanted:
    """The command line."""

    interval_s: float | None = None
    """None for a second, or for a replay's own pace."""
    count: int | None = None
    """Sweeps; None for as many as come."""
    gpm: bool = False
    record: Path | None = None
    replay: Path | None = None
    simulate: str | None = None


@dataclass(frozen=True)
class _Origin:
    """Where sweeps come from, as every output says it."""

    source: str
    tag: str = ""
    """Empty for this machine, now."""
    trace: str | None = None
    """Name of the trace."""
    driver: str | None = None
    nvml: str | None = None


OriginOf = Callable[[TelemetryRead], _Origin]
"""What is known of the origin when a sweep comes: a driver that hangs tells its version late."""


def print_telemetry(wanted: Wanted, *, as_json: bool) -> int:
    """Print sweeps until there are enough, or for ever; return the exit code.

    Raises:
        CpuGpuError: an option or a file cannot be used (with `--json` it is a line on stdout as well).
    """
    try:
        check(wanted)
        if wanted.replay is not None:
            _replay(wanted, load(wanted.replay), as_json=as_json)
        else:
            _watch(wanted, simulation(wanted.simulate), as_json=as_json)
    except CpuGpuError as error:
        if as_json:
            facts = {"message": error.message, "remedy": error.remedy, "exit_code": error.exit_code}
            print_json({"event": "Error", "schema": SCHEMA, **facts})
            sys.stdout.flush()
        raise
    return EXIT_OK


def check(wanted: Wanted) -> None:
    """Check what was asked for.

    Raises:
        UsageError: options that are impossible, alone or together.
    """
    if wanted.count is not None and not 1 <= wanted.count <= MOST_COUNT:
        raise UsageError(
            f"--count {str(wanted.count)[:20]} is not possible.",
            f"Write a number from 1 to {MOST_COUNT:,}, or leave it out.",
        )
    if wanted.replay is not None:
        as_recorded = "A trace is shown as it was recorded."
        unset = "Leave one out, or unset CPUGPU_SIMULATE."
        for name, given, remedy in (
            ("--record", wanted.record, as_recorded), ("--simulate", wanted.simulate, unset),
            ("--gpm", wanted.gpm, as_recorded),
        ):  # fmt: skip
            if given:
                raise UsageError(f"{name} and --replay exclude each other.", remedy)
    interval_s = wanted.interval_s
    if interval_s is None or (wanted.replay is not None and interval_s == 0):
        return
    if not LEAST_INTERVAL_S <= interval_s <= MOST_INTERVAL_S:
        if 0 < interval_s < LEAST_INTERVAL_S:
            why = (
                f"--interval {interval_s:g} is above 10 Hz: sensors change every 100 ms, asking only disturbs the GPU."
            )
        else:
            why = f"--interval {interval_s:g} is not possible."
        raise UsageError(why, f"Write seconds from {LEAST_INTERVAL_S:g} on, a day at most.")
    assert math.isfinite(interval_s)


# ------------------------------------------------------------------ where sweeps come from


def _replay(wanted: Wanted, trace: Trace, *, as_json: bool) -> None:
    header = trace.header
    if not as_json:
        tell(plain(f"{header.tag} {trace.name}: {header.summary}"))
    interval_s = wanted.interval_s or header.interval_s
    origin = _Origin(header.source, header.tag, trace.name, header.driver, header.nvml)
    sweeps = islice(numbered(paced(pauses(trace, wanted.interval_s))), wanted.count)
    _print(sweeps, wanted, lambda _: origin, interval_s, as_json=as_json)


def _watch(wanted: Wanted, simulated: Simulation | None, *, as_json: bool) -> None:
    interval_s = wanted.interval_s or DEFAULT_INTERVAL_S
    if simulated is None:
        # A session of its own takes 0.1 s, which a table need not wait for.
        origin_of = live_origin() if as_json or wanted.record else lambda _: _Origin("live")
    else:
        origin_of = lambda _: _Origin("simulated", "SIMULATED")  # noqa: E731 - one of three
    recorder = Recorder(wanted.record) if wanted.record is not None else None
    sweeps = sampled(interval_s, gpm=wanted.gpm) if simulated is None else numbered(made_up(interval_s, simulated))
    try:
        with closing(sweeps):
            some = islice(sweeps, wanted.count)
            kept = recorded(some, recorder, origin_of, interval_s) if recorder is not None else some
            _print(kept, wanted, origin_of, interval_s, as_json=as_json)
    finally:
        if recorder is not None:
            recorder.close()


def live_origin() -> OriginOf:
    """Return what says of each live sweep which driver it comes from, as soon as the driver has told."""
    from cpugpu_tui.telemetry.driver import PATIENCE_S, Versions

    versions = Versions()
    versions.known(PATIENCE_S)  # before another session opens, unless the driver hangs

    def origin_of(read: TelemetryRead) -> _Origin:
        # GPUs without a version: the driver was loaded, or woke up, after we asked.
        return _Origin("live", "", None, *versions.known(again=bool(read.gpus)))

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
    from cpugpu_tui.telemetry.simulated import simulated_sweep

    start_s = due_s = time.monotonic()
    while True:
        time.sleep(max(0.0, due_s - time.monotonic()))
        yield simulated_sweep(due_s - start_s, simulated.gpus)
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
        recorder.sweep(read)
        yield read


# ------------------------------------------------------------------ what is printed


def _print(
    sweeps: Iterable[TelemetryRead], wanted: Wanted, origin_of: OriginOf, interval_s: float, *, as_json: bool
) -> None:
    table: Table | None = None
    for read in sweeps:
        origin = origin_of(read)
        if as_json:
            print_json(json_line(read, origin))
        else:
            if table is None:
                table = Table(interval_s, origin.tag, gpm=wanted.gpm or has_gpm(read), page_lines=page_lines())
            tell("\n".join(map(plain, table.lines(read))))
        sys.stdout.flush()  # whoever pipes it into a file or another program wants it now


def json_line(read: TelemetryRead, origin: _Origin) -> dict[str, object]:
    """Return one sweep for JSON: the event, and where it comes from."""
    return {
        "event": "TelemetryRead", "schema": SCHEMA, "source": origin.source, "tag": origin.tag, "trace": origin.trace,
        "driver": origin.driver, "nvml": origin.nvml, **to_plain(read),
    }  # fmt: skip


def has_gpm(read: TelemetryRead) -> bool:
    """Whether a trace was recorded with GPM."""
    known = (gpu.readings.get(column.gpu_key) for gpu in read.gpus for column in GPM_COLUMNS)
    return any(reading is not None and reading.value is not None for reading in known)


def page_lines() -> int | None:
    """Return how many lines fit below a header, None where nobody scrolls."""
    return max(10, shutil.get_terminal_size().lines - 3) if sys.stdout.isatty() else None
