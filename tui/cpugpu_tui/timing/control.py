"""What the controller may ask of a running plan: stop, pause, resume. Obeyed between blocks."""

from __future__ import annotations

import threading
import time

FILE, INSTALLED = "--workloads", "--installed"
"""Words of an agent's command that name a person's own workloads: a file follows the first."""

CODE = "--code"
"""Word of an agent's command that allows it to run the typed code of its plan. Without it, plans cannot bring code."""

ALIVE = "--alive"
"""Word of an agent's command before the seconds after which silence means that its controller is gone."""

BEAT = b"alive"
"""Line by which a controller says that it lives, whenever it likes, before the plan too."""


class Control:
    """Flags set by one thread and obeyed by another."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._run = threading.Event()
        self._run.set()
        self.was_suspended = False
        """Set when the process was stopped and continued (ctrl+z, fg): the half-round in flight is void."""

    def suspended_meanwhile(self) -> bool:
        """Whether the process was suspended since `was_suspended` was last cleared.

        The flag is set by the main thread, which may be behind: give it a turn before looking.
        """
        time.sleep(0)
        return self.was_suspended

    @property
    def stopping(self) -> bool:
        """Whether a stop was asked for."""
        return self._stop.is_set()

    @property
    def paused(self) -> bool:
        """Whether a pause is in force."""
        return not self._run.is_set()

    def obey(self, command: str) -> None:
        """Take one command: `stop`, `pause` or `resume`; others are ignored."""
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
