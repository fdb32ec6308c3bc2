"""Traces on disk: written line by line, so that a kill loses nothing; checked whole before they are replayed."""

from __future__ import annotations

import errno
import io
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from cpugpu_tui.config.files import read_at_most
from cpugpu_tui.errors import UnfitError, UsageError
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import TelemetryRead
from cpugpu_tui.telemetry.sampler import SILENT, STOP_S
from cpugpu_tui.telemetry.trace import Header, TraceError, header_line, parse, sweep_line

MAX_TRACE_BYTES = 256_000_000
"""A larger file is not read: a day of one GPU at 1 Hz takes 70 MB, and /dev/zero has no end."""
MAX_PAUSE_S = 60.0
"""A replay waits no longer between two sweeps: nobody waits for the night in which a laptop slept."""


_REMEDIES = {
    errno.ENOSPC: "Free some space",
    errno.EDQUOT: "Free some of your quota",
    errno.EFBIG: "Raise the limit of file sizes (ulimit -f)",
}
_REMEDY = "See what its disk is doing"


class Recorder:
    """A new file that takes sweeps; the header goes in front of the first. Each line is written at once and whole."""

    def __init__(self, path: Path) -> None:
        """Create the file.

        Raises:
            UsageError: it exists already, or cannot be created.
        """
        if not path.name:  # `--record ""`, and folders like . and /
            raise UsageError("No file is named to record to.", "Name a new file.")
        self._path = path
        try:
            # It has command lines of other users: for its owner alone.
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        except FileExistsError:
            if path.is_file():
                raise UsageError(f"{path} exists already.", "Name a new file, or remove it first.") from None
            kind = "folder" if path.is_dir() else "device or the like"
            raise UsageError(f"{path} is a {kind}, no new file.", "Name a file that does not exist yet.") from None
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise UsageError(f"{path} cannot be created: {reason}.", "Name a file in a folder you may write.") from None
        self._whole_bytes = 0

    def header(self, header: Header) -> None:
        """Write the first line.

        Raises:
            UnfitError: the disk is full, or the like.
        """
        self._write(header_line(header))

    def sweep(self, read: TelemetryRead) -> None:
        """Write one sweep.

        Raises:
            UnfitError: the disk is full, or the like; all lines before are kept.
        """
        self._write(sweep_line(read))

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _write(self, line: str) -> None:
        data = line.encode("ascii")
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError as error:
            # What a full disk took of this line would make the file one that is cut off.
            os.ftruncate(self._descriptor, self._whole_bytes)
            raise UnfitError(
                f"The trace cannot be written: {error.strerror}.",
                f"{_REMEDIES.get(error.errno or 0, _REMEDY)}; what was recorded until then is kept in {self._path}.",
            ) from None
        self._whole_bytes += len(line)


def header_of(
    read: TelemetryRead,
    source: str,
    interval_s: float,
    versions: tuple[str | None, str | None],
    torch: str | None = None,
) -> Header:
    """Return the header of a trace whose first sweep this is; `versions` are those of driver and NVML.

    It is written at once, also where the driver has not answered yet: a recording of a hang is worth having.
    """
    recorded = datetime.fromtimestamp(read.wall_ns / 1e9).astimezone().isoformat(timespec="seconds")
    return Header(source, recorded, interval_s, _names(read), *versions, torch)


def _names(read: TelemetryRead) -> tuple[str, ...] | None:
    """Return the names of the GPUs; None as long as none was seen and the driver has not said why."""
    is_open = not read.gpus and (read.problem is None or read.problem.startswith(SILENT))
    return None if is_open else tuple(gpu.name for gpu in read.gpus)


@dataclass(frozen=True)
class Trace:
    """A trace that was read and found whole."""

    name: str
    """The file's, without its folder."""
    header: Header
    sweeps: int
    """How many there are, at least 1."""
    lines: tuple[str, ...]
    """As they are in the file; parsed again when they are wanted, because objects take ten times the room."""

    def __iter__(self) -> Iterator[TelemetryRead]:
        return parse(self.lines, self.name)[1]


def load(path: Path) -> Trace:
    """Read and check a whole trace: 0.2 ms a sweep of one GPU.

    Raises:
        TraceError: the file cannot be read or is no whole trace; cause and remedy.
    """
    name = printable(path.name)
    if not name:  # `--replay ""`, and folders like . and /
        raise TraceError("No file is named to replay.", "Name a trace of `cpugpu-tui telemetry --record FILE`.")
    try:
        data = read_at_most(path, MAX_TRACE_BYTES)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise TraceError(
            f"{name} cannot be read: {reason}.", "Name a trace that exists and that you may read."
        ) from None
    if len(data) > MAX_TRACE_BYTES:
        raise TraceError(
            f"{name} is larger than {MAX_TRACE_BYTES // 1_000_000} MB.", "Record a shorter trace, or one less often."
        )
    # Not `splitlines`: a name may hold U+2028, which is no end of a line of JSON.
    lines = tuple(io.StringIO(data.decode("utf-8", "replace"), newline="\n"))
    header, sweeps = parse(lines, name)
    count, gpus = 0, header.gpus
    for read in sweeps:
        count += 1
        if gpus is None:  # the recording began in a hang: what it saw first later is what it is of
            gpus = _names(read)
    return Trace(name, replace(header, gpus=gpus), count, lines)


def pauses(trace: Trace, interval_s: float | None = None) -> Iterator[tuple[float, TelemetryRead]]:
    """Yield each sweep with the seconds to wait before it: as recorded, or `interval_s` between any two."""
    before: TelemetryRead | None = None
    for read in trace:
        recorded_s = (read.mono_ns - before.mono_ns) / 1e9 if before is not None else 0.0
        wanted_s = recorded_s if interval_s is None or before is None else interval_s
        yield min(max(wanted_s, 0.0), MAX_PAUSE_S), read
        before = read


class Player:
    """Emits the sweeps of a trace at their own pace, once. Takes the place of a `Sampler`."""

    def __init__(
        self,
        trace: Trace,
        emit: Callable[[TelemetryRead], None],
        on_end: Callable[[], None],
        *,
        interval_s: float | None = None,
    ) -> None:
        """`emit` and, after the last sweep, `on_end` are called on the thread `telemetry`."""
        self.quiet = False
        """As of a `Sampler`; a file disturbs nobody."""
        self._trace = trace
        self._emit = emit
        self._on_end = on_end
        self._interval_s = interval_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._play, name="telemetry", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End it, wherever it is; nothing is emitted afterwards."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(STOP_S)

    def _play(self) -> None:
        due_s = time.monotonic()
        for pause_s, read in pauses(self._trace, self._interval_s):
            due_s += pause_s
            if self._stopping.wait(max(0.0, due_s - time.monotonic())):
                return
            self._emit(read)
        self._on_end()
