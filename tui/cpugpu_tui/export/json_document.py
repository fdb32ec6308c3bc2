"""The JSON export: results for scripts, and the events, from which `import` restores the run. Also its JSON Schema.

Files that are read are untrusted: all values are checked, and text is made printable.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from importlib import resources
from itertools import chain
from typing import Any

import msgspec

from cpugpu_tui import __version__
from cpugpu_tui.analysis.ceilings import clock_data
from cpugpu_tui.errors import ProtocolError, UsageError
from cpugpu_tui.export.stream import CASE_EVENTS, ExportedRun, case_results, exported
from cpugpu_tui.model import Case, CasesChosen, DeviceSampled, Event, PeerMeasured, RunStarted
from cpugpu_tui.model.event import to_plain
from cpugpu_tui.render.answers import as_data
from cpugpu_tui.render.gpus import gpus_data, peers_data
from cpugpu_tui.timing.channel import clean, encode
from cpugpu_tui.transport.agent_output import Garbage, decode
from cpugpu_tui.transport.event_checks import wrong_fact

FORMAT = "cpugpu-tui export"
"""Name of the format in the document."""

SCHEMA_VERSION = 1
"""Increased when readers of the previous version could fail; additions do not change it."""


def json_document(runs: Sequence[ExportedRun]) -> Iterator[bytes]:
    """Yield a JSON document of these runs, with one result or event per line, so that diffs are readable."""
    head = {"format": FORMAT, "schema_version": SCHEMA_VERSION, "version": __version__}
    yield f'{_text(head)[:-1]},"runs":['.encode()
    for index, run in enumerate(runs):
        yield b",\n" if index else b"\n"
        yield from _run(run)
    yield b"\n]}\n"


def _run(run: ExportedRun) -> Iterator[bytes]:
    head = {**run_data(run), "answers": as_data(run.state)}
    yield f'{_text(head)[:-1]},\n"results":['.encode()
    for index, result in enumerate(case_results(run.state, run.differing)):
        yield (",\n" if index else "\n").encode() + _text(to_plain(result)).encode()
    yield b'\n],\n"events":['
    for index, event in enumerate(run.events):
        yield (b",\n" if index else b"\n") + encode(event).rstrip(b"\n")
    yield b"\n]}"


def run_data(run: ExportedRun) -> dict[str, Any]:
    """Return the facts of a run as a whole, as JSON values."""
    started, finished = run.started, run.state.finished
    return {
        "run_id": started.run_id, "series_id": started.series_id, "name": run.name,
        "status": finished.status if finished is not None else "unfinished", "simulated": run.state.simulated,
        "started": utc(started.wall_ns), "finished": utc(finished.wall_ns) if finished is not None else None,
        "environment": to_plain(started.environment), "devices": to_plain(run.state.devices),
        "peers": peers_data(run.state), "gpus": gpus_data(run.state), "clocks": clock_data(run.state.clocks),
    }  # fmt: skip


def utc(wall_ns: int) -> str:
    """Return a time as ISO 8601 in UTC, to the microsecond."""
    second, rest_ns = divmod(wall_ns, 10**9)
    return f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}.{rest_ns // 1000:06}Z"


def _text(value: Any) -> str:
    return json.dumps(clean(value), allow_nan=False, ensure_ascii=False, separators=(",", ":"))


# ------------------------------------------------------------------ json schema


FILE = "export.schema.json"
"""File beside this module; `export --schema` prints it."""


def schema_text() -> str:
    """Return the shipped schema."""
    return resources.files(__package__).joinpath(FILE).read_text("utf-8")


# ------------------------------------------------------------------ reading


_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.-]{0,63}")
"""Form of a series id. A run id is also longer than a run number."""

_LEAST_ID = 6

_MOST = 2**63 - 1
"""Largest integer in SQLite."""

_BEGINNING = re.compile(rb'\s*\{\s*"format"\s*:\s*"' + FORMAT.encode())
"""Beginning of a JSON export, which may be cut off."""

_REMEDY = "Give the path of a json or ndjson file written by `cpugpu-tui export`."
_AGAIN = "Export the run again."


def read_runs(data: bytes, name: str) -> list[ExportedRun]:
    """Return the runs in a JSON or NDJSON export; `name` is the file, for errors.

    Raises:
        UsageError: the data is not an export, is damaged, or comes from a newer version.
    """
    data = data.removeprefix(codecs.BOM_UTF8)  # some editors and shells add it
    document = _document(data)
    if document is None and _BEGINNING.match(data):
        raise UsageError(f"{name} is damaged: the JSON is invalid or cut off.", _AGAIN)
    if document is None:
        return _runs(_events_of_lines(data.splitlines(), name), name)
    if document.get("format") != FORMAT:
        raise UsageError(f"{name} is not a json or ndjson export of cpugpu-tui.", _REMEDY)
    version = document.get("schema_version")
    if type(version) is not int or version < 1:
        raise UsageError(f"{name} is damaged: invalid schema_version {version!r}.", _AGAIN)
    if version > SCHEMA_VERSION:
        raise UsageError(
            f"A newer cpugpu-tui wrote {name} (schema version {version}, supported {SCHEMA_VERSION}).",
            "Update cpugpu-tui.",
        )
    runs = document.get("runs")
    if not isinstance(runs, list):
        raise UsageError(f"{name} is damaged: `runs` is not a list.", _AGAIN)
    lines = []
    for run in runs:
        events = run.get("events") if isinstance(run, dict) else None
        if not isinstance(events, list) or not events:
            raise UsageError(f"{name} is damaged: a run has no events.", _AGAIN)
        lines += [msgspec.json.encode(event) for event in events]
    return _runs(_events_of_lines(lines, name), name)


def _document(data: bytes) -> dict[str, Any] | None:
    """Return the file as one JSON object; None if it may be lines of events instead."""
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if isinstance(document, dict):
        return None if isinstance(document.get("event"), str) else document
    return {}


def _events_of_lines(lines: Iterable[bytes], name: str) -> list[Event]:
    events: list[Event] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            event = decode(line)
        except Garbage as error:
            if not events:
                raise UsageError(f"{name} is not a json or ndjson export of cpugpu-tui.", _REMEDY) from error
            raise UsageError(f"{name} is damaged: event {number} is {error}.", _AGAIN) from error
        except ProtocolError as error:
            raise UsageError(f"Another version wrote {name}: {error.message}", _REMEDY) from error
        if event is not None:  # None for events of newer versions
            events.append(event)
    return events


def _runs(events: Iterable[Event], name: str) -> list[ExportedRun]:
    streams: list[list[Event]] = []
    for event in events:
        if isinstance(event, RunStarted):
            streams.append([])
        if not streams:
            raise UsageError(f"{name} is damaged: the first event must be RunStarted.", _AGAIN)
        streams[-1].append(event)
    if not streams:
        raise UsageError(f"{name} holds no run.", _REMEDY)
    runs = [exported(stream) for stream in streams]
    for run in runs:
        fault = _fault(run)
        if fault:
            raise UsageError(f"{name} is damaged: {fault}.", _AGAIN)
    ids = [run.started.run_id for run in runs]
    if len(set(ids)) < len(ids):
        raise UsageError(f"{name} is damaged: it holds a run twice.", _AGAIN)
    return runs


def _fault(run: ExportedRun) -> str | None:
    """Return what is impossible in a run; None if all is well."""
    started = run.started
    ids = started.run_id, started.series_id
    if not all(map(_ID.fullmatch, ids)) or len(started.run_id) < _LEAST_ID:
        return "invalid id of a run or series"
    if not all(0 <= clock <= _MOST for each in run.events for clock in (each.seq, each.wall_ns, each.mono_ns)):
        return "a time stamp is out of range"
    for event in run.events:
        if isinstance(event, DeviceSampled) and min(chain([event.watched_ns], *event.samples.values())) < 0:
            return "a time is negative"
        if isinstance(event, PeerMeasured) and min(chain([event.size_bytes], event.latencies_ns, event.elapsed_ns)) < 0:
            return "a copy between GPUs has a negative time or size"
    fact = wrong_fact(started.environment)
    if fact is not None:
        return f"{fact!r} in the environment has the wrong type"
    return _stray_case(run, started.plan.cases)


def _stray_case(run: ExportedRun, cases: tuple[Case, ...]) -> str | None:
    """Return that a case has events but is not in the plan; None if there is no such case."""
    known = {case.key for case in cases}
    for event in run.events:
        if isinstance(event, CasesChosen):
            known.update(case.key for case in event.cases)
    stray = (event.case for event in run.events if isinstance(event, CASE_EVENTS) and event.case not in known)
    found = next(stray, None)
    return None if found is None else f"the case {found!r} is not in the plan"
