"""A recording of whole runs in one gzip file: a header, then every event of the history, one per line.

xz files would be a third smaller, but some builds of Python lack xz.
"""

from __future__ import annotations

import gzip
import io
import zlib
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from cpugpu_tui.config.paths import read_at_most
from cpugpu_tui.errors import UsageError
from cpugpu_tui.export.reading import read_runs
from cpugpu_tui.export.stream import ExportedRun
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import Ceilings

SCHEMA = 1
"""Version of the file; other versions are rejected."""

SHIPPED = "recorded.ndjson.gz"
"""The recording in the package, beside this file."""

_MAX_PLAIN_BYTES = 100_000_000
"""Largest unpacked size, because a malicious file could fill the memory."""

KIND = "cpugpu-tui demo"
_REINSTALL = "Reinstall cpugpu-tui."
_REMEDY = "Give a file of recorded runs, or omit it to play the built-in runs."


@dataclass(frozen=True)
class Recording:
    """Runs of one machine, in recorded order."""

    runs: tuple[ExportedRun, ...]
    """At least one run; every run has an end."""

    @property
    def environment(self) -> dict[str, Any]:
        """Facts of the machine, from its agent."""
        return self.runs[0].started.environment

    @property
    def ceilings(self) -> tuple[Ceilings, ...]:
        """Peak rates of its devices, for the machine card."""
        return self.runs[0].started.plan.ceilings

    @property
    def tag(self) -> str:
        """Word that marks every screen and output: `REPLAY` or `REPLAY SIMULATED`."""
        return "REPLAY SIMULATED" if any(run.state.simulated for run in self.runs) else "REPLAY"

    @property
    def machine(self) -> tuple[str, ...]:
        """GPU, CPU, driver, torch and date, the most important first."""
        state, facts = self.runs[0].state, self.environment
        gpu = state.gpu.label if state.gpu is not None else "no GPU"
        parts = [gpu, str(facts.get("cpu") or "unknown CPU")]
        parts += [f"driver {facts['driver']}"] if facts.get("driver") else []
        parts += [f"torch {facts['torch']}"] if facts.get("torch") else []
        recorded = datetime.fromtimestamp(self.runs[0].started.wall_ns / 1e9, tz=timezone.utc)
        return (*(printable(part) for part in parts), f"{recorded:%Y-%m-%d}")

    @property
    def summary(self) -> str:
        """The same in one line, separated by `·`."""
        return " · ".join(self.machine)


def shipped() -> Recording:
    """Return the recording in the package; takes 0.1 s.

    Raises:
        UsageError: the file is missing or damaged.
    """
    try:
        return unpacked(resources.files("cpugpu_tui.demo").joinpath(SHIPPED).read_bytes(), "The demo's recording")
    except OSError as error:
        raise UsageError(f"The demo's recording cannot be read: {error.strerror}.", _REINSTALL) from error
    except UsageError as error:
        raise UsageError(error.message, _REINSTALL) from error


def load(path: Path) -> Recording:
    """Return the recording in a file.

    Raises:
        UsageError: the file cannot be read, is not a recording, is damaged, or has another version.
    """
    name = printable(path.name) or str(path)
    try:
        data = read_at_most(path, _MAX_PLAIN_BYTES)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{name} cannot be read: {reason}.", _REMEDY) from None
    return unpacked(data, name)


def unpacked(data: bytes, name: str) -> Recording:
    """Return the recording in these bytes, of the file called `name`.

    Raises:
        UsageError: the data is not a recording, is damaged, or has another version.
    """
    if not data.startswith(b"\x1f\x8b"):
        raise UsageError(f"{name} is not a demo recording.", _REMEDY)
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            plain = file.read(_MAX_PLAIN_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"{name} is damaged: {error}.", _REMEDY) from None
    if len(plain) > _MAX_PLAIN_BYTES:
        raise UsageError(f"{name} is larger than {_MAX_PLAIN_BYTES // 10**6} MB.", _REMEDY)
    first, _, events = plain.partition(b"\n")
    _check_header(first, name)
    return whole(Recording(tuple(read_runs(events, name))), name)


def _check_header(line: bytes, name: str) -> None:
    try:
        header = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        header = None
    if not isinstance(header, dict) or header.get("recording") != KIND:
        raise UsageError(f"{name} is not a demo recording.", _REMEDY)
    schema = header.get("schema")
    if schema != SCHEMA:
        newer = isinstance(schema, int) and schema > SCHEMA
        remedy = "Update cpugpu-tui." if newer else "Record it again (see docs/contributing.md)."
        raise UsageError(f"{name} has schema {schema!r}, but this version reads {SCHEMA}.", remedy)


def whole(recording: Recording, name: str) -> Recording:
    """Return a recording with runs that all have an end; otherwise raise UsageError."""
    if not recording.runs:
        raise UsageError(f"{name} contains no runs.", _REMEDY)
    for run in recording.runs:
        if run.state.finished is None:
            raise UsageError(f"{name} is damaged: run {run.name!r} has no end.", _REMEDY)
    return recording
