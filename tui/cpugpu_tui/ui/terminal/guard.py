"""Checks whether the app can be drawn on the terminal, keeps other output off it, and restores it after a signal.

Textual draws on `sys.__stderr__`. Native code (CUDA, cuBLAS, torch's C++ warnings) writes to file descriptors 1 and 2,
which would appear in the middle of the screen: `private_terminal` redirects both to a log file. Nothing here imports
Textual, which takes 200 ms, so that an unfit terminal is refused at once.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from cpugpu_tui.errors import UnfitError
from cpugpu_tui.render.capabilities import Capabilities
from cpugpu_tui.transport.signal_watch import CTRL_C, loop_answers, watch_signals

if TYPE_CHECKING:
    import asyncio

_STDOUT_FD, _STDERR_FD = 1, 2


def refuse(found: Capabilities) -> UnfitError | None:
    """Return why the app cannot be drawn on this terminal; None if it can. Small terminals are accepted."""
    remedy = "Use `cpugpu-tui run`, which prints the same results as text."
    if not found.interactive:
        return UnfitError("Cannot open the app: standard input or standard error is not a terminal.", remedy)
    if found.dumb:
        term = os.environ.get("TERM", "")
        return UnfitError(f"Cannot open the app: this terminal (TERM={term}) cannot move its cursor.", remedy)
    return None


# ------------------------------------------------------------------ the guard


@contextmanager
def private_terminal(log_path: Path, *, utf8: bool = True) -> Iterator[TextIO]:
    """Keep other output off the terminal: build and run the App inside this block.

    Yields a text stream on the real terminal. Textual's `error_console` must print there, not into the log.

    Inside, `sys.__stderr__` (on which Textual draws) and `sys.__stdout__` (whose size it reads) are the terminal.
    Everything written to file descriptors 1 and 2, by `print`, native code or a child, is appended to `log_path`. If
    that file cannot be written, for example on a full disk, the output is dropped.

    `utf8=False` writes ASCII with one `?` for every other character, so that columns stay aligned.
    """
    try:
        log_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        log_fd = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:
        log_fd = os.open(os.devnull, os.O_WRONLY)
    saved_fds = os.dup(_STDOUT_FD), os.dup(_STDERR_FD)
    encoding, errors = ("utf-8", "backslashreplace") if utf8 else ("ascii", "replace")
    terminal = open(os.dup(_STDERR_FD), "w", encoding=encoding, errors=errors)  # noqa: SIM115 (closed below)
    before = {"__stdout__": sys.__stdout__, "__stderr__": sys.__stderr__}
    try:
        vars(sys).update(__stdout__=terminal, __stderr__=terminal)
        _redirect(log_fd, log_fd)
        yield terminal
    finally:
        import ctypes  # 1 ms before the first frame, where no native code has printed yet

        vars(sys).update(before)
        # C's own buffer: otherwise a printf of native code appears on the restored terminal at exit.
        ctypes.CDLL(None).fflush(None)
        _redirect(*saved_fds)
        for fd in (*saved_fds, log_fd):
            os.close(fd)
        with suppress(OSError):  # the terminal may be closed
            terminal.close()


def _redirect(stdout_fd: int, stderr_fd: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with suppress(OSError, ValueError):  # the terminal may be closed
                stream.flush()
    os.dup2(stdout_fd, _STDOUT_FD)
    os.dup2(stderr_fd, _STDERR_FD)


NORMAL = (
    b"\x1b[?2026l\x1b[?2004l\x1b[?7h\x1b[?2048l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l"
    b"\x1b[<u\x1b[0m\x1b[?1049l\x1b[?25h\x1b[?1004l"
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
        import asyncio

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
