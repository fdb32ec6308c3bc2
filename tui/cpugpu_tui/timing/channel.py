"""What a running plan exchanges with its controller: requests (stop, pause, resume), and events, a JSON line each."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from cpugpu_tui import model

E = TypeVar("E", bound="model.Event")


class Emit(Protocol):
    """Receiver of the protocol's events."""

    def __call__(self, event: model.Event) -> None:
        """Stamp and buffer one event. Cheap, but call it only outside timed blocks."""

    def flush(self) -> None:
        """Deliver the buffered events. Call it only between half-rounds."""


def clean(value: Any) -> Any:
    """Replace lone surrogates in all texts of JSON-ready data, because UTF-8 cannot encode them."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [clean(item) for item in value]
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    return value


def encode(event: model.Event) -> bytes:
    """Return the event as one line of JSON with its tag under `event`.

    Raises:
        ValueError: a number is NaN or infinite, which JSON cannot represent.
    """
    data = {"event": model.WIRE_TAGS[type(event)], **clean(model.to_plain(event))}
    return json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def stamped(event: E, seq: int) -> E:
    """Return the event with its position in the stream and both clocks."""
    return replace(event, seq=seq, wall_ns=time.time_ns(), mono_ns=time.monotonic_ns())


class LineEmitter:
    """Buffers encoded events and writes them to a file descriptor on `flush`."""

    def __init__(self, descriptor: int, root: str = "") -> None:
        """Write to `descriptor`. Files that were sent here lie below `root`; events name them as the person did."""
        self._descriptor, self.root = descriptor, root
        self._pid = os.getpid()
        self._buffer = bytearray()
        self._seq = 0

    def __call__(self, event: model.Event) -> None:
        """Stamp, encode and buffer one event. A copy of the agent that a person's code forked ends here."""
        if os.getpid() != self._pid:
            os._exit(1)  # it would write into the stream of the agent
        self._seq += 1
        line = encode(stamped(event, self._seq))
        self._buffer += line.replace(self.root.encode(), b"") if self.root else line

    def flush(self) -> None:
        """Write the whole buffer. A reader that has died is detected elsewhere (end of stdin)."""
        view = memoryview(bytes(self._buffer))
        self._buffer.clear()
        while view:
            view = view[os.write(self._descriptor, view) :]


class CallEmitter:
    """Delivers stamped events to a callable at once, for the worker thread inside the app."""

    def __init__(self, deliver: Callable[[model.Event], None]) -> None:
        self._deliver = deliver
        self._seq = 0

    def __call__(self, event: model.Event) -> None:
        """Stamp and deliver one event."""
        self._seq += 1
        self._deliver(stamped(event, self._seq))

    def flush(self) -> None:
        """Do nothing, because nothing is buffered."""


# ------------------------------------------------------------------ control


SENT = "sent"
"""Folder of the agent's zip with the files of typed code, by their absolute paths on the machine of the controller."""

ALIVE = "--alive"
"""Option of the agent's command line: seconds of silence after which the agent assumes that its controller is dead."""

REACHED = b'{"event":"HostReached"}'
"""First output of the shell line on a host, and of an agent that nothing is between: its Python works."""

BEAT = b"alive"
"""Heartbeat line that the controller may send at any time, also before the plan."""


class Control:
    """Flags that one thread sets and another one polls."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._run = threading.Event()
        self._run.set()
        self.was_suspended = False
        """Set after the process was suspended and continued (ctrl+z, fg); the current half-round is then invalid."""

    def suspended_meanwhile(self) -> bool:
        """Return whether the process was suspended since `was_suspended` was last cleared.

        The main thread sets the flag and may be late, so yield to it before reading the flag.
        """
        time.sleep(0)
        return self.was_suspended

    @property
    def stopping(self) -> bool:
        """Return whether a stop was requested."""
        return self._stop.is_set()

    @property
    def paused(self) -> bool:
        """Return whether the run is paused."""
        return not self._run.is_set()

    def obey(self, command: str) -> None:
        """Execute one command: `stop`, `pause` or `resume`. Ignore others."""
        if command == "stop":
            self._stop.set()
            self._run.set()
        elif command == "pause":
            self._run.clear()
        elif command == "resume":
            self._run.set()

    def wait_while_paused(self) -> None:
        """Block until resumed or stopped."""
        self._run.wait()
