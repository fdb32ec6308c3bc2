"""`cpugpu-tui telemetry`: readings of the machine as a table or JSON lines, recorded and replayed."""

from __future__ import annotations

import queue
import shutil
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cpugpu_tui.cli import options as opt
from cpugpu_tui.cli.output.printing import plain, print_json, tell
from cpugpu_tui.errors import CpuGpuError, UsageError

if TYPE_CHECKING:
    from cpugpu_tui.cli.output.telemetry_table import Table
    from cpugpu_tui.model import Simulation, TelemetryRead
    from cpugpu_tui.telemetry.recording import Recorder

DEFAULT_INTERVAL_S = 1.0
LEAST_INTERVAL_S = 0.1
"""Power and energy change only every 100 ms (method.md). Reading more often would only disturb the GPU."""
MOST_INTERVAL_S = 86_400.0
MOST_COUNT = 1_000_000_000

commands = typer.Typer()


class TelemetryGiven(opt.Given):
    """The options of `telemetry`."""

    interval: Annotated[float | None, opt.seconds(
        "Time between two readings, at least 0.1.", usual="1, or with --replay as recorded"
    )] = None  # fmt: skip
    count: Annotated[int | None, opt.count_of("Number of readings.", usual="until ctrl+c")] = None
    gpm: Annotated[bool, opt.flag(
        "--gpm", "Also read occupancy, and the activity of tensor cores and DRAM (Hopper and later)."
    )] = False  # fmt: skip
    record: Annotated[Path | None, opt.file_of("Also write the readings to a new file, for --replay.")] = None


@opt.takes(commands.command(), TelemetryGiven, "json interval count gpm record replay simulate")
def telemetry(given: TelemetryGiven) -> None:
    """Print readings of the GPUs and the host, once a second."""
    count, replay, interval = given.count, given.replay, given.interval
    try:
        _check(given)
        if replay is not None:
            _replay(replay, interval, count, as_json=given.json)
        else:
            every_s = interval or DEFAULT_INTERVAL_S
            _watch(given.simulation, every_s, count, given.record, gpm=given.gpm, as_json=given.json)
    except CpuGpuError as error:
        if given.json:
            from cpugpu_tui.telemetry.trace import SCHEMA

            facts = {"message": error.message, "remedy": error.remedy, "exit_code": error.exit_code}
            print_json({"event": "Error", "schema": SCHEMA, **facts})
            sys.stdout.flush()
        raise


def _check(given: TelemetryGiven) -> None:
    """Check the options.

    Raises:
        UsageError: a value is out of range, or options exclude each other.
    """
    count, replay, interval_s = given.count, given.replay, given.interval
    if count is not None and not 1 <= count <= MOST_COUNT:
        raise UsageError(f"Invalid --count {str(count)[:20]}: out of range.", f"Use a number from 1 to {MOST_COUNT:,}.")
    if replay is not None:
        for name, is_given in {"--record": given.record, "--simulate": given.simulate, "--gpm": given.gpm}.items():
            if is_given:
                more = ", or unset CPUGPU_SIMULATE" if name == "--simulate" else ""
                raise UsageError(f"{name} cannot be combined with --replay.", f"Leave one out{more}.")
    if interval_s is None or (replay is not None and interval_s == 0):
        return
    if not LEAST_INTERVAL_S <= interval_s <= MOST_INTERVAL_S:
        too_short = "sensors change only every 100 ms" if 0 < interval_s < LEAST_INTERVAL_S else "out of range"
        raise UsageError(
            f"Invalid --interval {interval_s:g}: {too_short}.",
            f"Use {LEAST_INTERVAL_S:g} to {MOST_INTERVAL_S:,.0f} seconds.",
        )


def _replay(path: Path, interval_s: float | None, count: int | None, *, as_json: bool) -> None:
    from cpugpu_tui.telemetry.recording import load, pauses

    trace = load(path)
    header = trace.header
    if not as_json:
        tell(plain(f"{header.tag} {trace.name}: {header.summary}"))
    origin = Origin(header.source, header.tag, trace.name, header.driver, header.nvml)
    sweeps = islice(numbered(paced(pauses(trace, interval_s))), count)
    _print(sweeps, lambda _: origin, interval_s or header.interval_s, gpm=False, as_json=as_json)


def _watch(
    simulated: Simulation | None, interval_s: float, count: int | None, record: Path | None, *, gpm: bool, as_json: bool
) -> None:
    from cpugpu_tui.telemetry.recording import Recorder

    if simulated is None:
        # Asking for the driver's version takes 0.1 s, and a table does not show it.
        origin_of = live_origin() if as_json or record else lambda _: Origin("live")
    else:
        origin_of = lambda _: Origin("simulated", "SIMULATED")  # noqa: E731 - one of three
    recorder = Recorder(record) if record is not None else None
    sweeps = sampled(simulated, interval_s, gpm=gpm)
    try:
        with closing(sweeps):
            some = islice(sweeps, count)
            printed = recorded(some, recorder, origin_of, interval_s) if recorder is not None else some
            _print(printed, origin_of, interval_s, gpm=gpm, as_json=as_json)
    finally:
        if recorder is not None:
            recorder.close()


def _print(
    sweeps: Iterable[TelemetryRead], origin_of: OriginOf, interval_s: float, *, gpm: bool, as_json: bool
) -> None:
    from cpugpu_tui.cli.output.telemetry_table import Table
    from cpugpu_tui.model.event import to_plain
    from cpugpu_tui.telemetry.trace import SCHEMA

    # A terminal repeats the header when its lines are full.
    page_lines = max(10, shutil.get_terminal_size().lines - 3) if sys.stdout.isatty() else None
    table: Table | None = None
    for read in sweeps:
        origin = origin_of(read)
        if as_json:
            print_json({"event": "TelemetryRead", "schema": SCHEMA, **vars(origin), **to_plain(read)})
        else:
            if table is None:
                table = Table(interval_s, origin.tag, gpm=gpm or has_gpm(read), page_lines=page_lines)
            tell("\n".join(map(plain, table.lines(read))))
        sys.stdout.flush()  # a pipe would otherwise hold readings back


def has_gpm(read: TelemetryRead) -> bool:
    """Whether a trace was recorded with GPM."""
    from cpugpu_tui.cli.output.telemetry_table import GPM_COLUMNS

    known = (gpu.readings.get(column.gpu_key) for gpu in read.gpus for column in GPM_COLUMNS)
    return any(reading is not None and reading.value is not None for reading in known)


# ------------------------------------------------------------------ streams of readings


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


OriginOf = Callable[["TelemetryRead"], Origin]
"""Returns the origin of a reading. It is asked each time, because a slow driver reports its version late."""


def live_origin() -> OriginOf:
    """Return the function that adds the driver's version to live readings, once the driver has reported it."""
    from cpugpu_tui.telemetry.nvml_thread import PATIENCE_S, Versions

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


def sampled(simulated: Simulation | None, interval_s: float, *, gpm: bool) -> Generator[TelemetryRead, None, None]:
    """Yield readings of this machine or a simulated one, without end, once the driver has listed its GPUs."""
    from cpugpu_tui.telemetry.sampler import Sampler, SimulatedSampler, Telemetry

    waiting: queue.Queue[TelemetryRead] = queue.Queue(WAITING)
    seq = 0

    def emit(read: TelemetryRead) -> None:
        nonlocal seq
        if not read.gpus and read.problem is None:
            return  # neither a GPU nor a problem: the driver is still waking up
        seq += 1  # also if the reading is dropped, so that the gap shows it
        if not waiting.full():
            waiting.put(replace(read, seq=seq))

    sampler: Telemetry = (
        Sampler(interval_s, emit, gpm=gpm) if simulated is None else SimulatedSampler(interval_s, emit, simulated.gpus)
    )
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
    from cpugpu_tui.telemetry.recording import header_of

    for index, read in enumerate(sweeps):
        if index == 0:
            origin = origin_of(read)
            recorder.header(header_of(read, origin.source, interval_s, (origin.driver, origin.nvml)))
        recorder.sample(read)
        yield read
