"""Messages of an agent, its end included, and the queue that holds them until somebody listens."""

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


Message = Event | Gone

WAITING_EVENTS = 1_000
"""Most events of an agent in the listener's queue. The agent's reader waits beyond that, so memory stays bounded."""

LOOK_AGAIN_S = 0.005
"""How often the waiting reader checks for room."""

Listener = Callable[[Hello | CpuGpuError], None]


class Agent(Protocol):
    """Something that takes one plan and sends events."""

    def listen(self, inbox: queue.SimpleQueue[Message]) -> None:
        """Send all messages to `inbox`, earlier ones included."""

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


class Inbox:
    """Holds an agent's messages until somebody listens."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._early: deque[Message] = deque()
        self._target: queue.SimpleQueue[Message] | None = None

    def put(self, message: Message) -> None:
        """Deliver a message, or keep it until `listen`."""
        with self._lock:
            if self._target is None:
                self._early.append(message)
            else:
                self._target.put(message)

    @property
    def is_full(self) -> bool:
        """Whether so many messages wait that no more should be put."""
        target = self._target
        return target is not None and target.qsize() > WAITING_EVENTS

    def listen(self, target: queue.SimpleQueue[Message]) -> None:
        """Deliver the kept messages, and all later ones, to `target`."""
        with self._lock:
            for message in self._early:
                target.put(message)
            self._early.clear()
            self._target = target
