"""What an agent says: its stdout and stderr, and its messages."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from cpugpu_tui.config.validation import convert
from cpugpu_tui.errors import CpuGpuError, ProtocolError
from cpugpu_tui.machine.processes import exit_descriptor
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import EVENTS, PROTOCOL, Event, Hello, Plan
from cpugpu_tui.timing.channel import encode

LOOK_MS = 200
"""Polling interval for the end of the process on kernels before 5.3, which have no pidfd."""

CLOSED_LIMIT_S = 10.0
"""How long a process that has closed its stdout may take to end: freeing GPU memory takes time."""

REST_LIMIT_S = 1.0
"""How long the rest of the pipes is read: another process may keep writing into them."""

CHUNK_BYTES = 1 << 16


class Output:
    """stdout and stderr of a process. Not thread-safe."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self._pid = process.pid
        self._stdout = process.stdout.fileno()
        self._exited = exit_descriptor(process.pid)
        self._changes = select.poll()
        self._open = {self._stdout, process.stderr.fileno()}
        for descriptor in self._open:
            self._changes.register(descriptor, select.POLLIN)
        if self._exited is not None:
            self._changes.register(self._exited, select.POLLIN)

    def chunks(self) -> Iterator[tuple[bool, bytes]]:
        """Yield (is it stdout, bytes) until the process ends, or its stdout has been closed for a while."""
        closed_s: float | None = None
        while not has_ended(self._pid):
            wait_ms = LOOK_MS if self._exited is None or closed_s is not None else None
            yield from self._read(wait_ms)
            if self._stdout not in self._open:
                closed_s = closed_s or time.monotonic()
                if time.monotonic() - closed_s > CLOSED_LIMIT_S:
                    return

    def rest(self) -> Iterator[tuple[bool, bytes]]:
        """Yield the output that was still unread when the process ended."""
        ends_s = time.monotonic() + REST_LIMIT_S
        while self._open and time.monotonic() < ends_s:
            found = list(self._read(0))
            yield from found
            if not found:
                return

    def close(self) -> None:
        """Stop watching; the pipes stay open."""
        if self._exited is not None:
            os.close(self._exited)

    def _read(self, wait_ms: int | None) -> Iterator[tuple[bool, bytes]]:
        for descriptor, _ in self._changes.poll(wait_ms):
            if descriptor not in self._open:
                continue
            chunk = os.read(descriptor, CHUNK_BYTES)
            if chunk:
                yield descriptor == self._stdout, chunk
            else:
                self._changes.unregister(descriptor)
                self._open.discard(descriptor)


def has_ended(pid: int) -> bool:
    """Whether a child has ended. It is not reaped, so its process id and group id cannot be reused yet."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


# ------------------------------------------------------------------ the last lines


LAST_LINES, LONGEST = 8, 300
"""Number of lines that are kept, and characters of each."""

LAST_BYTES = 4096
"""Only this much of a larger chunk is split into lines: splitting a gigabyte would take minutes."""


class LastLines:
    """The last printable lines of stderr, and of stdout lines that are not events."""

    def __init__(self) -> None:
        self._reader = LineReader()
        self._flood = b""
        self._lines: deque[str] = deque(maxlen=LAST_LINES)

    def feed(self, chunk: bytes) -> None:
        """Add a chunk of stderr."""
        if len(chunk) > LAST_BYTES:
            self._flood = chunk[-LAST_BYTES:]  # split later, with the next chunk or when the lines are wanted
            return
        self._take_flood()
        self._take(chunk)

    def _take_flood(self) -> None:
        flood, self._flood = self._flood, b""
        if flood:
            self._reader = LineReader()
            self._take(flood)

    def _take(self, chunk: bytes) -> None:
        for line in deque(self._reader.feed(chunk), LAST_LINES):
            self.note(line)

    def note(self, line: bytes) -> None:
        """Keep a line, unless it is blank."""
        text = printable(line.decode("utf-8", "replace"))[:LONGEST]
        if text.strip():
            self._lines.append(text)

    def __call__(self) -> tuple[str, ...]:
        """Return the last lines, oldest first."""
        self._take_flood()
        return tuple(self._lines)


# ------------------------------------------------------------------ messages


@dataclass(frozen=True)
class AgentExited:
    """The agent ended, or its output can no longer be understood. Always the last message."""

    exit_code: int
    """Negative for a signal, as in `subprocess`."""
    last_lines: tuple[str, ...] = ()
    """Its last lines on stderr, made printable."""
    error: CpuGpuError | None = None
    """Why its output could not be understood, or why the host failed."""

    @property
    def manner(self) -> str:
        """How it ended, in words."""
        if self.exit_code < 0:
            with contextlib.suppress(ValueError):
                return f"was killed by {signal.Signals(-self.exit_code).name}"
        return f"ended with exit code {self.exit_code}"

    @property
    def last_words(self) -> str:
        """Its last line as a sentence; empty without one."""
        return f'Its last line: "{self.last_lines[-1]}".' if self.last_lines else ""


Message = Event | AgentExited

WAITING_EVENTS = 1_000
"""Most events of an agent that wait. The agent's reader waits beyond that, so memory stays bounded."""

LOOK_AGAIN_S = 0.005
"""How often the waiting reader checks for room."""

Listener = Callable[[Hello | CpuGpuError], None]


class Agent(Protocol):
    """Something that takes one plan and sends events."""

    @property
    def messages(self) -> queue.SimpleQueue[Message]:
        """All that it sends, in order. `AgentExited` is the last one."""

    def send_plan(self, plan: Plan) -> None:
        """Start the plan."""

    def command(self, word: str) -> None:
        """Send `stop`, `pause` or `resume`."""

    def hand_over(self) -> None:
        """Send events now that it holds back while it times."""

    def end(self, *, at_once: bool) -> None:
        """Terminate it, or kill it if `at_once`."""

    @property
    def pid(self) -> int:
        """Id of its process."""


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
