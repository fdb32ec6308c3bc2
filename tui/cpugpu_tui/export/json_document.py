"""The JSON export: results for scripts, and the events, from which `import` restores the run. Also its JSON Schema."""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib import resources
from itertools import pairwise
from typing import Any

import msgspec

from cpugpu_tui import __version__, model
from cpugpu_tui.export import stream
from cpugpu_tui.export.stream import KEPT, CaseResult, ExportedRun, case_results
from cpugpu_tui.model import WIRE_TAGS, Device
from cpugpu_tui.model.plain_data import to_plain
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


def made_schema() -> str:
    """Generate the schema from the current classes. A test compares the shipped one with it."""
    _, parts = msgspec.json.schema_components([*KEPT, CaseResult, Device], ref_template="#/$defs/{name}")
    for name, part in parts.items():
        _describe(part, getattr(stream, name, None) or getattr(model, name))
    for kind in KEPT:
        _name(parts[kind.__name__], WIRE_TAGS[kind])
    tags = {kind.__name__: WIRE_TAGS[kind] for kind in KEPT}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An export of cpugpu-tui",
        "description": "Runs with their results. Times are in ns per call, and null means unknown. "
        "`events` hold all data of a run, and `cpugpu-tui import` restores it from them.",
        **_object(
            format={"const": FORMAT},
            schema_version={"const": SCHEMA_VERSION},
            version={"type": "string", "description": "Version of cpugpu-tui that wrote the file."},
            runs={"type": "array", "items": {"$ref": "#/$defs/Run"}},
        ),
        "$defs": {"Run": _run_schema(), **{tags.get(name, name): part for name, part in parts.items()}},
    }
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def _run_schema() -> dict[str, Any]:
    text = {"type": "string"}
    events = {"anyOf": [{"$ref": f"#/$defs/{WIRE_TAGS[kind]}"} for kind in KEPT]}
    return _object(
        run_id={**text, "description": "Unique id of the run; begins with its date."},
        series_id={**text, "description": "Id shared by runs of the same plan that belong together."},
        name={**text, "description": "Preset or workload."},
        status={
            "enum": ["done", "stopped", "failed", "unfinished"],
            "description": "How the run ended; `unfinished` if it has no end.",
        },
        simulated={"type": "boolean", "description": "Whether a simulated machine made the numbers."},
        started={**text, "format": "date-time", "description": "Start of the run, in UTC."},
        finished={
            "type": ["string", "null"],
            "format": "date-time",
            "description": "End of the run, in UTC; null if it has no end.",
        },
        environment={"type": "object", "description": "Facts about machine, software and settings, by name."},
        devices=_list({"$ref": "#/$defs/Device"}, "Devices of the run, in the order of timing."),
        peers=_list({"type": "object"}, "Copies from one GPU to another."),
        gpus=_list({"type": "object"}, "Each GPU compared with the other GPUs of its model."),
        answers=_list({"type": "object"}, "At which sizes the GPU wins, one answer per sweep."),
        results=_list({"$ref": "#/$defs/CaseResult"}, "Results of all cases, in the plan's order."),
        events=_list(events, "All events of the run, in order."),
    )


def _list(items: dict[str, Any], description: str) -> dict[str, Any]:
    return {"type": "array", "items": items, "description": description}


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _name(part: dict[str, Any], tag: str) -> None:
    """Add the field `event`, which holds the type of the event."""
    part["title"] = tag
    part["properties"] = {"event": {"const": tag, "description": "Type of the event."}, **part["properties"]}
    part["required"] = ["event", *part.get("required", [])]


def _describe(part: dict[str, Any], kind: type) -> None:
    """Add the docstrings of fields, which msgspec leaves out, as their descriptions."""
    for base in kind.__mro__[:-1]:
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0].body  # type: ignore[attr-defined]
        for field, note in pairwise(body):
            match field, note:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str() as text)):
                    # JSON has null where the classes have None.
                    part["properties"][name]["description"] = re.sub(r"\bNone\b", "null", " ".join(text.split()))
