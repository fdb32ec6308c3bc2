"""Traces on disk: written line by line, so that a kill loses nothing, and checked completely before a replay."""

from __future__ import annotations

import errno
import io
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from cpugpu_tui.config.paths import read_at_most
from cpugpu_tui.errors import UnfitError, UsageError, kind_of
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import TelemetryRead
from cpugpu_tui.telemetry.sampler import Telemetry
from cpugpu_tui.telemetry.trace import Header, TraceError, header_line, parse, sample_line

MAX_TRACE_BYTES = 256_000_000
"""Largest trace to read: a day of one GPU at 1 Hz takes 70 MB, and /dev/zero has no end."""
MAX_PAUSE_S = 60.0
"""Longest pause of a replay, because a laptop may have slept between two samples."""


OLD_SILENCE = "The NVIDIA driver has not answered"
"""How `problem` begins in samples without `is_silent`, from older recordings and agents."""

_REMEDIES = {
    errno.ENOSPC: "Free some disk space",
    errno.EDQUOT: "Free some space in your quota",
    errno.EFBIG: "Raise the limit on file sizes (ulimit -f)",
}
_REMEDY = "Check the disk"


class Recorder:
    """A new file of samples behind one header; each line is written at once and completely."""

    def __init__(self, path: Path) -> None:
        """Create the file.

        Raises:
            UsageError: the file exists already, or cannot be created.
        """
        if not path.name:  # `--record ""`, and folders like . and /
            raise UsageError("The file name to record to is empty.", "Give the path of a new file.")
        self._path = path
        try:
            # A trace holds command lines of other users, so only its owner may read it.
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        except FileExistsError:
            if (kind := kind_of(path)) in ("", "a file"):  # nothing is where a link leads
                raise UsageError(
                    f"{path} already exists.", "Choose a new file, or delete the existing one first."
                ) from None
            raise UsageError(f"{path} is {kind}.", "Give the path of a file that does not exist yet.") from None
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise UsageError(
                f"{path} cannot be created: {reason}.", "Choose a file in a folder that you may write to."
            ) from None
        self._whole_bytes = 0

    def header(self, header: Header) -> None:
        """Write the first line.

        Raises:
            UnfitError: the line cannot be written, for example to a full disk.
        """
        self._write(header_line(header))

    def sample(self, read: TelemetryRead) -> None:
        """Write one sample.

        Raises:
            UnfitError: the line cannot be written; all lines before are kept.
        """
        self._write(sample_line(read))

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _write(self, line: str) -> None:
        data = line.encode("ascii")
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError as error:
            # Remove the part of this line that was written, or the file would end in the middle of a line.
            os.ftruncate(self._descriptor, self._whole_bytes)
            remedy, rest = _REMEDIES.get(error.errno or 0, _REMEDY), f"; {self._path} keeps all samples before"
            if not self._whole_bytes:  # an empty file would have to be deleted before the next try
                self._path.unlink(missing_ok=True)
                rest = ""
            raise UnfitError(f"The trace cannot be written: {error.strerror}.", f"{remedy}{rest}.") from None
        self._whole_bytes += len(line)


def header_of(read: TelemetryRead, source: str, interval_s: float, versions: tuple[str | None, str | None]) -> Header:
    """Return the header of a trace that begins with this sample; `versions` are those of driver and NVML.

    The header does not wait for the driver, so that a hang can be recorded too.
    """
    recorded = datetime.fromtimestamp(read.wall_ns / 1e9).astimezone().isoformat(timespec="seconds")
    return Header(source, recorded, interval_s, _names(read), *versions)


def _names(read: TelemetryRead) -> tuple[str, ...] | None:
    """Return the names of the GPUs; None while the driver has not answered."""
    is_silent = read.problem is None or read.is_silent or read.problem.startswith(OLD_SILENCE)
    return None if is_silent and not read.gpus else tuple(gpu.name for gpu in read.gpus)


@dataclass(frozen=True)
class Trace:
    """A trace that was read and checked."""

    name: str
    """Name of the file, without its folder."""
    header: Header
    samples: int
    """Number of samples, at least 1."""
    lines: tuple[str, ...]
    """Lines of the file, parsed again for each replay, because objects take ten times the memory."""

    def __iter__(self) -> Iterator[TelemetryRead]:
        """Yield the samples in order."""
        return parse(self.lines, self.name)[1]


def load(path: Path) -> Trace:
    """Read and check a whole trace, in 0.2 ms per sample of one GPU.

    Raises:
        TraceError: the file cannot be read or is not a complete trace.
    """
    name = printable(path.name)
    if not name:  # `--replay ""`, and folders like . and /
        raise TraceError(
            "The file name to replay is empty.", "Name a file that `cpugpu-tui telemetry --record FILE` wrote."
        )
    try:
        data = read_at_most(path, MAX_TRACE_BYTES)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise TraceError(
            f"{name} cannot be read: {reason}.", "Give the path of a file that `telemetry --record` wrote."
        ) from None
    if len(data) > MAX_TRACE_BYTES:
        raise TraceError(
            f"{name} is larger than {MAX_TRACE_BYTES // 1_000_000} MB.",
            "Record a shorter trace, or use a longer interval.",
        )
    # Not `splitlines`: names may contain U+2028, which does not end a line of JSON.
    lines = tuple(io.StringIO(data.decode("utf-8", "replace"), newline="\n"))
    header, samples = parse(lines, name)
    count, gpus = 0, header.gpus
    for read in samples:
        count += 1
        if gpus is None:  # the driver was silent at first: take the GPUs of a later sample
            gpus = _names(read)
    return Trace(name, replace(header, gpus=gpus), count, lines)


def pauses(trace: Trace, interval_s: float | None = None) -> Iterator[tuple[float, TelemetryRead]]:
    """Yield each sample with the pause before it, s: as recorded, or `interval_s`."""
    before: TelemetryRead | None = None
    for read in trace:
        recorded_s = (read.mono_ns - before.mono_ns) / 1e9 if before is not None else 0.0
        wanted_s = recorded_s if interval_s is None or before is None else interval_s
        yield min(max(wanted_s, 0.0), MAX_PAUSE_S), read
        before = read


class Player(Telemetry):
    """Emit the samples of a trace once, at their own pace, in place of a `Sampler`."""

    def __init__(
        self, trace: Trace, emit: Callable[[TelemetryRead], None], on_end: Callable[[], None], *,
        interval_s: float | None = None,
    ) -> None:  # fmt: skip
        """`emit` and, after the last sample, `on_end` are called on the thread `telemetry`."""
        super().__init__(emit)
        self._trace = trace
        self._on_end = on_end
        self._interval_s = interval_s

    def _emit_until_stopped(self) -> None:
        due_s = time.monotonic()
        for pause_s, read in pauses(self._trace, self._interval_s):
            due_s += pause_s
            if self._stopping.wait(max(0.0, due_s - time.monotonic())):
                return
            self._emit(read)
        self._on_end()
