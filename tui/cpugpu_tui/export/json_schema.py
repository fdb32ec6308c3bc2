"""The JSON Schema of the JSON export, made from the classes that the export is made of; shipped as a file."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import msgspec

from cpugpu_tui.export.json_document import FORMAT, SCHEMA_VERSION
from cpugpu_tui.export.results import CaseResult
from cpugpu_tui.export.stream import KEPT
from cpugpu_tui.model import WIRE_TAGS, Device

FILE = "export.schema.json"
"""Beside this module, and what `export --schema` prints."""


def schema_text() -> str:
    """Return the shipped schema."""
    return resources.files(__package__).joinpath(FILE).read_text("utf-8")


def made_schema() -> str:
    """Return the schema as it is now; a test holds the shipped one to it."""
    _, parts = msgspec.json.schema_components([*KEPT, CaseResult, Device], ref_template="#/$defs/{name}")
    for kind in KEPT:
        _name(parts[kind.__name__], WIRE_TAGS[kind])
    tags = {kind.__name__: WIRE_TAGS[kind] for kind in KEPT}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An export of cpugpu-tui",
        "description": "Times are ns of one call; null is unknown. `events` make the run again, the rest is derived.",
        **_object(
            format={"const": FORMAT},
            schema_version={"const": SCHEMA_VERSION},
            version={"type": "string", "description": "Of the cpugpu-tui that wrote it."},
            runs={"type": "array", "items": {"$ref": "#/$defs/Run"}},
        ),
        "$defs": {"Run": _run(), **{tags.get(name, name): part for name, part in parts.items()}},
    }
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def _run() -> dict[str, Any]:
    text: dict[str, Any] = {"type": "string"}
    return _object(
        run_id=text,
        series_id={**text, "description": "Runs of the same plan taken together share it."},
        name=text,
        status={"enum": ["done", "stopped", "failed", "unfinished"]},
        simulated={"type": "boolean", "description": "Whether the numbers are made up."},
        started={**text, "format": "date-time"},
        finished={"type": ["string", "null"], "format": "date-time"},
        environment={"type": "object"},
        devices={"type": "array", "items": {"$ref": "#/$defs/Device"}},
        peers={"type": "array", "items": {"type": "object"}, "description": "Copies from one GPU to another."},
        gpus={"type": "array", "items": {"type": "object"}, "description": "Each beside those of its model."},
        answers={"type": "array", "items": {"type": "object"}},
        results={"type": "array", "items": {"$ref": "#/$defs/CaseResult"}},
        events={"type": "array", "items": {"anyOf": [{"$ref": f"#/$defs/{WIRE_TAGS[kind]}"} for kind in KEPT]}},
    )


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _name(part: dict[str, Any], tag: str) -> None:
    """Add the field that tells events apart."""
    part["title"] = tag
    part["properties"] = {"event": {"const": tag}, **part["properties"]}
    part["required"] = ["event", *part.get("required", [])]
