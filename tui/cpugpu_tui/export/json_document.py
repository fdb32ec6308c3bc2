"""The JSON export: results for scripts, and the events, from which `import` restores the run. Also its JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib import resources
from typing import Any

from cpugpu_tui import __version__
from cpugpu_tui.export.stream import ExportedRun, case_results
from cpugpu_tui.model.event import to_plain
from cpugpu_tui.model.quantities import with_micro
from cpugpu_tui.render.answers import as_data
from cpugpu_tui.render.gpus import gpus_data, peers_data
from cpugpu_tui.timing.channel import clean, encode

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
    head = {**run_data(run), "answers": with_micro(as_data(run.state))}
    yield f'{_text(head)[:-1]},\n"results":['.encode()
    for index, result in enumerate(case_results(run.state)):
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
        "peers": peers_data(run.state), "gpus": gpus_data(run.state),
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
