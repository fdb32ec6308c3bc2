"""Generates the JSON Schema of exports from the classes. The package ships the result."""

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec

from cpugpu_tui import model
from cpugpu_tui.export import stream
from cpugpu_tui.export.json_document import FORMAT, SCHEMA_VERSION
from cpugpu_tui.export.stream import KEPT, CaseResult
from cpugpu_tui.model import WIRE_TAGS, Device


def made_schema() -> str:
    """Return the schema of the current classes."""
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
        clocks={
            "type": "object",
            "description": "The check of the clock that times kernels, by GPU; empty without GPU or in older runs.",
        },
        answers=_list({"type": "object"}, "At which sizes the GPU wins, one answer per sweep."),
        results=_list({"$ref": "#/$defs/CaseResult"}, "Results of all cases, in the plan's order."),
        events=_list(events, "All events of the run, in order."),
        optional=("clocks",),  # exports of older versions lack it
    )


def _list(items: dict[str, Any], description: str) -> dict[str, Any]:
    return {"type": "array", "items": items, "description": description}


def _object(*, optional: Sequence[str] = (), **properties: dict[str, Any]) -> dict[str, Any]:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


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
