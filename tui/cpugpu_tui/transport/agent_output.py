"""What a process writes, until that process has ended (its children may hold the pipes open), and its last lines."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections import deque
from collections.abc import Iterator

from cpugpu_tui.agent.guardian import exit_descriptor
from cpugpu_tui.machine.text import printable
from cpugpu_tui.transport.wire import LineReader

LOOK_MS = 200
"""Between two looks for the end where the kernel (before 5.3) has no descriptor for it."""

CLOSED_LIMIT_S = 10.0
"""How long a process that has closed its stdout may take to end: a GPU's memory is given back in between."""

REST_LIMIT_S = 1.0
"""How long what is left in the pipes is read: somebody else may go on writing into them."""

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
        """Yield whether it is stdout, and bytes, until the process has ended or has had no stdout for a while."""
        closed_s: float | None = None
        while not has_ended(self._pid):
            wait_ms = LOOK_MS if self._exited is None or closed_s is not None else None
            yield from self._read(wait_ms)
            if self._stdout not in self._open:
                closed_s = closed_s or time.monotonic()
                if time.monotonic() - closed_s > CLOSED_LIMIT_S:
                    return

    def rest(self) -> Iterator[tuple[bool, bytes]]:
        """Yield what the process had written before it ended."""
        ends_s = time.monotonic() + REST_LIMIT_S
        while self._open and time.monotonic() < ends_s:
            found = list(self._read(0))
            yield from found
            if not found:
                return

    def close(self) -> None:
        """Watch no more; the pipes stay as they are."""
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
    """Whether a child has ended; it is not reaped, so that its id and its group's remain its own."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


# ------------------------------------------------------------------ the last lines


LAST_LINES, LONGEST = 8, 300
"""Lines that are kept, and characters of each."""

LAST_BYTES = 4096
"""The last lines are looked for in these, where more comes at once: cutting up a gigabyte would take minutes."""


class LastLines:
    """The last lines of stderr, and of stdout those that are no events; made printable."""

    def __init__(self) -> None:
        self._reader = LineReader()
        self._flood = b""
        self._lines: deque[str] = deque(maxlen=LAST_LINES)

    def feed(self, chunk: bytes) -> None:
        """Take a piece of stderr."""
        if len(chunk) > LAST_BYTES:
            self._flood = chunk[-LAST_BYTES:]  # looked at once something else comes, or somebody asks
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
        """Keep a line, unless there is nothing to see in it."""
        text = printable(line.decode("utf-8", "replace"))[:LONGEST]
        if text.strip():
            self._lines.append(text)

    def __call__(self) -> tuple[str, ...]:
        """Return the last lines, oldest first."""
        self._take_flood()
        return tuple(self._lines)
