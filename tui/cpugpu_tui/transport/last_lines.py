"""What an agent said last, which is kept for the row of a crash."""

from __future__ import annotations

from collections import deque

from cpugpu_tui.machine.text import printable
from cpugpu_tui.transport.wire import LineReader

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
        """Return them."""
        self._take_flood()
        return tuple(self._lines)
