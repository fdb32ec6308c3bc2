"""What all events share: their clocks, and their conversion to plain data."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Base class of all events. Both clocks are read when the event is emitted."""

    seq: int = 0
    """Position in the run's stream, from 1."""
    wall_ns: int = 0
    """CLOCK_REALTIME, ns."""
    mono_ns: int = 0
    """CLOCK_MONOTONIC of the machine that emitted the event, ns."""


_NAMES: dict[type, tuple[str, ...]] = {}
"""Cached field names by class: calling `dataclasses.fields` each time doubled the cost of an event."""


def to_plain(value: Any) -> Any:
    """Return nested dicts, lists and scalars for a dataclass of `model` (or a container of them).

    Unlike `dataclasses.asdict` it makes no deep copies and turns tuples into lists.
    """
    if isinstance(value, (str, int, float, type(None))):
        return value
    if isinstance(value, (tuple, list)):
        return [to_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): to_plain(item) for key, item in value.items()}
    names = _NAMES.get(type(value))
    if names is None:
        names = _NAMES[type(value)] = tuple(field.name for field in fields(value))
    return {name: to_plain(getattr(value, name)) for name in names}
