"""Signals in an app: handled by the event loop; if that is busy, the terminal is restored without it."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from cpugpu_tui.transport.signal_watch import CTRL_C, loop_answers, watch_signals

NORMAL = (
    b"\x1b[?2026l\x1b[?2004l\x1b[?7h\x1b[?2048l\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l\x1b[<u\x1b[0m"
    b"\x1b[?1049l\x1b[?25h\x1b[?1004l"
)
"""Resets every terminal mode that an app sets: pastes, mouse, keyboard, alternate screen, cursor, focus."""

WRITABLE_MS = 100
"""How long to wait for a terminal that is stopped (ctrl+s)."""


class LoopSignals:
    """Passes signals on to an app's event loop once it runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leave: Callable[[int], object] = lambda _code: None
        self._early = 0

    def answer(self, leave: Callable[[int], object]) -> None:
        """Call `leave` with an exit code for each signal from now on, on the running loop."""
        with self._lock:
            self._loop, self._leave, early = asyncio.get_running_loop(), leave, self._early
        if early:
            leave(early)

    @contextmanager
    def obeyed(self) -> Iterator[Terminal]:
        """Handle signals and a closed terminal inside this block; restore the terminal if the loop does not."""
        terminal = Terminal()
        with watch_signals(self._obey, terminal.put_back, terminal.descriptor):
            yield terminal

    def _obey(self, number: int) -> None:
        with self._lock:
            loop = self._loop
            if loop is None and number != CTRL_C:
                self._early = 128 + number
        if loop is None:
            return
        with suppress(RuntimeError):  # the loop is closed: the app is about to end anyway
            if number == CTRL_C:
                loop.call_soon_threadsafe(loop_answers)
            else:
                loop.call_soon_threadsafe(self._leave, 128 + number)


class Terminal:
    """The terminal's original state."""

    def __init__(self) -> None:
        self.is_back = False
        """Whether the app has already restored it."""
        self.descriptor: int | None = None
        """Opened separately, so that writes do not block; None if that is impossible."""
        self._attributes = None
        with suppress(OSError, termios.error):
            self._attributes = termios.tcgetattr(0)
            self.descriptor = os.open(os.ttyname(0), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)

    def put_back(self) -> None:
        """Restore the terminal, from any thread and without locks."""
        if self.is_back or self.descriptor is None:
            return
        # Otherwise the kernel stops this process if it is in the background.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
        with suppress(OSError, termios.error):
            termios.tcsetattr(0, termios.TCSANOW, self._attributes)  # type: ignore[arg-type]
        writable = select.poll()
        writable.register(self.descriptor, select.POLLOUT)
        writable.poll(WRITABLE_MS)
        with suppress(OSError):
            os.write(self.descriptor, NORMAL)
