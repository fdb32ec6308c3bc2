"""One section of the facts, asked on a thread of its own with a deadline.

A wedged driver and a dead network file system have in common that a call never returns, and cannot be ended: its
thread is left behind (a daemon, it does not keep the program from exiting), and its section is said to be missing.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from cpugpu_tui.errors import UsageError

_ASKED = {
    "driver": "The NVIDIA driver", "agent": "The agent", "host": "The kernel", "own_runs": "The list of processes",
    "history": "The file system of the history", "terminal": "The terminal",
}  # fmt: skip


class Section:
    """One section's facts, under way."""

    def __init__(self, name: str, call: Callable[[], Any], deadline_s: float) -> None:
        """Begin at once; `name` is that of the field of `Facts`, or what the sentence of its silence calls it."""
        self.name = name
        self._deadline_s = deadline_s
        self._ends_s = time.monotonic() + deadline_s
        self._answer: queue.SimpleQueue[tuple[Any, Exception | None]] = queue.SimpleQueue()
        self._call = call
        threading.Thread(target=self._work, name=f"checkup-{name}", daemon=True).start()

    def _work(self) -> None:
        try:
            self._answer.put((self._call(), None))
        except Exception as error:  # noqa: BLE001 - it becomes a line of the report
            self._answer.put((None, error))

    def result(self) -> tuple[Any, str]:
        """Return the facts, or None and one sentence why there are none.

        Raises:
            UsageError: what the person asked for cannot be: that is no finding.
        """
        try:
            value, error = self._answer.get(timeout=max(0.0, self._ends_s - time.monotonic()))
        except queue.Empty:
            return None, f"{_ASKED.get(self.name, self.name)} has not answered for {self._deadline_s:g} s."
        if isinstance(error, UsageError):
            raise error
        return value, "" if error is None else f"Asking failed with {type(error).__name__}: {error}"
