"""Requests of the controller to a running plan: stop, pause, resume. They take effect between blocks."""

from __future__ import annotations

import threading
import time

FILE, INSTALLED = "--workloads", "--installed"
"""Options of the agent's command line for user-defined workloads; a file follows the first."""

CODE = "--code"
"""Word of an agent's command that allows it to run the typed code of its plan. Without it, plans cannot bring code."""

ALIVE = "--alive"
"""Option of the agent's command line: seconds of silence after which the agent assumes that its controller is dead."""

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
