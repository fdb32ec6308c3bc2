"""What an agent says, its end included, and where that waits until somebody listens."""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.model import Event, Hello, Plan


@dataclass(frozen=True)
class Gone:
    """The agent ended or can no longer be understood; nothing comes after this."""

    exit_code: int
    """Negative for a signal, as in `subprocess`."""
    last_lines: tuple[str, ...] = ()
    """What it said last on stderr, made printable."""
    error: CpuGpuError | None = None
    """Why it could not be understood."""

    @property
    def manner(self) -> str:
        """How it ended, in words."""
        if self.exit_code < 0:
            with contextlib.suppress(ValueError):
                return f"was killed by {signal.Signals(-self.exit_code).name}"
        return f"ended with exit code {self.exit_code}"

    @property
    def last_words(self) -> str:
        """The last line that it said, as a sentence."""
        return f'Its last line: "{self.last_lines[-1]}".' if self.last_lines else ""


Message = Event | Gone

WAITING_EVENTS = 1_000
"""Events of an agent that may wait for whoever listens; then its reader waits, so that memory stays bounded."""

LOOK_AGAIN_S = 0.005
"""How often that one looks whether there is room again."""
Listener = Callable[[Hello | CpuGpuError], None]


class Agent(Protocol):
    """Something that takes one plan and sends events."""

    def listen(self, inbox: queue.SimpleQueue[Message]) -> None:
        """Send everything, also what was said before, to `inbox`."""

    def send_plan(self, plan: Plan) -> None:
        """Start the plan."""

    def command(self, word: str) -> None:
        """Send `stop`, `pause` or `resume`."""

    def end(self, *, at_once: bool) -> None:
        """Make it end: terminate, or kill."""

    @property
    def pid(self) -> int:
        """Its process."""


class Inbox:
    """Holds what an agent says until somebody listens."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._early: deque[Message] = deque()
        self._target: queue.SimpleQueue[Message] | None = None

    def put(self, message: Message) -> None:
        """Deliver, or keep for the listener to come."""
        with self._lock:
            if self._target is None:
                self._early.append(message)
            else:
                self._target.put(message)

    @property
    def is_full(self) -> bool:
        """Whether so much waits that nothing more should be put."""
        target = self._target
        return target is not None and target.qsize() > WAITING_EVENTS

    def listen(self, target: queue.SimpleQueue[Message]) -> None:
        """Deliver to `target` from now on, what was kept first."""
        with self._lock:
            for message in self._early:
                target.put(message)
            self._early.clear()
            self._target = target
