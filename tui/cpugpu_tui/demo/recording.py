"""A recording of whole runs in one file: a header, then every event that the history keeps, one a line, gzipped.

Nothing of the streams is left out. gzip rather than xz, which would take two thirds of the room: some builds of Python
come without it.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from cpugpu_tui.config.files import read_at_most
from cpugpu_tui.errors import UsageError
from cpugpu_tui.export.reading import read_runs
from cpugpu_tui.export.stream import ExportedRun, ndjson
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import Ceilings

SCHEMA = 1
"""Version of the file; one of another version is refused."""

SHIPPED = "recorded.ndjson.gz"
"""The file that comes with the program, beside this one."""

MAX_BYTES = 1_000_000
"""Most bytes of the shipped file."""

_MAX_PLAIN_BYTES = 100_000_000
"""More is not unpacked: a file that names itself a recording may be made to fill the memory."""

_KIND = "cpugpu-tui demo"
_REMEDY = "Install cpugpu-tui anew, or name a recording that this version made."


@dataclass(frozen=True)
class Recording:
    """Runs of one machine, in the order in which they were made."""

    runs: tuple[ExportedRun, ...]
    """At least one; every one has an end."""

    @property
    def environment(self) -> dict[str, Any]:
        """The facts of the machine, as its agent told them."""
        return self.runs[0].started.environment

    @property
    def ceilings(self) -> tuple[Ceilings, ...]:
        """What its devices reached, for the machine card."""
        return self.runs[0].started.plan.ceilings

    @property
    def tag(self) -> str:
        """What stands on every screen and in every output: `REPLAY`."""
        return "REPLAY SIMULATED" if any(run.state.simulated for run in self.runs) else "REPLAY"

    @property
    def machine(self) -> tuple[str, ...]:
        """GPU, CPU, driver, torch and date, the most telling first."""
        state, facts = self.runs[0].state, self.environment
        gpu = state.gpu.label if state.gpu is not None else "no GPU"
        parts = [gpu, str(facts.get("cpu") or "unknown CPU")]
        parts += [f"driver {facts['driver']}"] if facts.get("driver") else []
        parts += [f"torch {facts['torch']}"] if facts.get("torch") else []
        recorded = datetime.fromtimestamp(self.runs[0].started.wall_ns / 1e9, tz=timezone.utc)
        return (*(printable(part) for part in parts), f"{recorded:%Y-%m-%d}")

    @property
    def summary(self) -> str:
        """The same in one line, in parts that `·` divides."""
        return " · ".join(self.machine)


def packed(runs: Sequence[ExportedRun]) -> bytes:
    """Return the file of these runs; the same runs give the same bytes, by the same zlib.

    Raises:
        UsageError: there is none, or one has no end.
    """
    recording = _whole(Recording(tuple(runs)), "the recording")
    header = {"recording": _KIND, "schema": SCHEMA, "tag": recording.tag, "machine": list(recording.machine),
              "runs": [run.name for run in runs]}  # fmt: skip
    plain = b"".join([msgspec.json.encode(header), b"\n", *ndjson(runs)])
    out = io.BytesIO()
    # Without a name and a time in its header the file is the same whenever and wherever it is made.
    with gzip.GzipFile(filename="", mode="wb", fileobj=out, compresslevel=9, mtime=0) as file:
        file.write(plain)
    return out.getvalue()


def shipped() -> Recording:
    """Return the recording that comes with the program: 0.1 s.

    Raises:
        UsageError: it is missing or damaged.
    """
    try:
        data = resources.files("cpugpu_tui.demo").joinpath(SHIPPED).read_bytes()
    except OSError as error:
        raise UsageError(f"The recording of the demo is missing: {error.strerror}.", _REMEDY) from error
    return unpacked(data, "The recording of the demo")


def load(path: Path) -> Recording:
    """Return the recording in a file.

    Raises:
        UsageError: it cannot be read, is none, is damaged or another version's.
    """
    name = printable(path.name) or str(path)
    try:
        data = read_at_most(path, _MAX_PLAIN_BYTES)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{name} cannot be read: {reason}.", "Name a recording that exists.") from None
    return unpacked(data, name)


def unpacked(data: bytes, name: str) -> Recording:
    """Return the recording in these bytes, of the file called `name`.

    Raises:
        UsageError: it is none, is damaged or another version's; cause and remedy.
    """
    if not data.startswith(b"\x1f\x8b"):
        raise UsageError(f"{name} is no recording of a demo.", _REMEDY)
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            plain = file.read(_MAX_PLAIN_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"{name} is damaged: {error}.", _REMEDY) from None
    if len(plain) > _MAX_PLAIN_BYTES:
        raise UsageError(f"{name} is larger than {_MAX_PLAIN_BYTES // 10**6} MB.", _REMEDY)
    first, _, events = plain.partition(b"\n")
    _check_header(first, name)
    return _whole(Recording(tuple(read_runs(events, name))), name)


def _check_header(line: bytes, name: str) -> None:
    try:
        header = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        header = None
    if not isinstance(header, dict) or header.get("recording") != _KIND:
        raise UsageError(f"{name} is no recording of a demo.", _REMEDY)
    schema = header.get("schema")
    if schema != SCHEMA:
        newer = isinstance(schema, int) and schema > SCHEMA
        remedy = "Update cpugpu-tui." if newer else "Record it anew (docs/contributing.md says how)."
        age = "a newer" if newer else "another"
        raise UsageError(f"{name} is of {age} version: its schema is {schema!r}, known is {SCHEMA}.", remedy)


def _whole(recording: Recording, name: str) -> Recording:
    if not recording.runs:
        raise UsageError(f"There is no run in {name}.", _REMEDY)
    for run in recording.runs:
        if run.state.finished is None:
            raise UsageError(f"{name} is damaged: the run {run.name!r} has no end.", _REMEDY)
    return recording
