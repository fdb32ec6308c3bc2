"""Converts events to lines and back. Received data is checked by type and never trusted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from cpugpu_tui.config.validation import convert
from cpugpu_tui.errors import ProtocolError
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import EVENTS, PROTOCOL, Event, Hello
from cpugpu_tui.timing.channel import encode

__all__ = ["MAX_LINE_BYTES", "BadEvent", "Garbage", "LineReader", "decode", "encode"]

MAX_LINE_BYTES = 1_000_000
"""A longer line is not an event. It is dropped while it arrives, so memory stays bounded."""

MAX_TEXT = 10_000
"""Most characters kept of one text, such as the message of an exception."""

_BEGINNING = b'{"event":'
"""Beginning of each event line."""


class Garbage(ValueError):
    """A line that is not an event, such as a log line."""


class BadEvent(Garbage):
    """A line that begins like an event but is cut off, or has fields that do not fit."""


def decode(line: bytes) -> Event | None:
    """Return the event on one line, or None if the event's name is unknown.

    Raises:
        Garbage: the line is not a JSON object.
        BadEvent: it begins like an event, but is cut off, or its fields do not fit the event's.
        ProtocolError: the agent speaks another protocol version.
    """
    try:
        data = msgspec.json.decode(line)
        # Nearly every line is short ASCII without escapes, which cannot hold control characters.
        if b"\\" in line or b"\x7f" in line or len(line) > MAX_TEXT or not line.isascii():
            data = _printable(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        kind = BadEvent if line.startswith(_BEGINNING) else Garbage
        raise kind(f"not JSON: {error}") from error
    if not isinstance(data, dict) or not isinstance(data.get("event"), str):
        raise Garbage("no event name")
    name = data.pop("event")
    cls = EVENTS.get(name)
    if cls is None:
        return None
    # Check the version first: a Hello of another version may have other fields.
    if cls is Hello and data.get("protocol") != PROTOCOL:
        raise ProtocolError(
            f"The agent speaks protocol {data.get('protocol')!r}, this app speaks {PROTOCOL}.",
            "Use the same version of cpugpu-tui on both sides.",
        )
    try:
        return convert(data, cls)
    except (msgspec.ValidationError, OverflowError) as error:
        raise BadEvent(f"{name}: {error}") from error


def _printable(value: Any) -> Any:
    """Return JSON data with all text made printable: workloads choose their names and error messages freely."""
    if isinstance(value, str):
        return printable(value, MAX_TEXT)
    if isinstance(value, list):
        return [_printable(item) for item in value]
    if isinstance(value, dict):
        return {printable(key, MAX_TEXT): _printable(item) for key, item in value.items()}
    return value


class LineReader:
    """Cuts a byte stream into lines and drops over-long ones without storing them."""

    def __init__(self) -> None:
        self._partial = bytearray()
        self._dropping = False
        self.dropped_lines = 0
        """Lines dropped for their length."""

    @property
    def partial(self) -> bytes:
        """The bytes of an incomplete line so far."""
        return bytes(self._partial)

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that `chunk` completes, without their ends."""
        *complete, rest = chunk.split(b"\n")
        for piece in complete:
            if self._dropping:
                self._dropping = False
                continue
            if len(self._partial) + len(piece) > MAX_LINE_BYTES:
                self.dropped_lines += 1
                self._partial.clear()
                continue
            yield bytes(self._partial) + piece
            self._partial.clear()
        if self._dropping:
            return
        self._partial += rest
        if len(self._partial) > MAX_LINE_BYTES:
            self._partial.clear()
            self._dropping = True
            self.dropped_lines += 1
