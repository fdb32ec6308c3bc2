"""The person's terminal: whether the app can be drawn on it, and how it stays the app's alone meanwhile.

Textual draws on `sys.__stderr__`. Native code (CUDA, cuBLAS, torch's C++ warnings) writes to file descriptors 1 and 2
without asking Python, which would land in the middle of the screen: `private_terminal` moves those two to a log file.
Nothing here imports Textual, so that a terminal can be refused, or its colours chosen, before 200 ms of imports.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from cpugpu_tui.errors import UnfitError
from cpugpu_tui.render.capabilities import Capabilities, Colours, capabilities, this_terminal

__all__ = ["Capabilities", "Colours", "PrivateTerminal", "capabilities", "private_terminal", "refuse", "this_terminal"]

_STDOUT_FD, _STDERR_FD = 1, 2


def refuse(found: Capabilities) -> UnfitError | None:
    """Return why the app cannot be drawn on this terminal, None if it can. Small terminals are not refused."""
    remedy = "Use `cpugpu-tui run`, which prints the same results as text."
    if not found.interactive:
        return UnfitError("The app needs a terminal as standard input and standard error.", remedy)
    if found.dumb:
        return UnfitError("This terminal cannot move its cursor (TERM says so), and the app needs that.", remedy)
    return None


# ------------------------------------------------------------------ the guard


class PrivateTerminal:
    """The terminal while it is the app's alone; made by `private_terminal`."""

    def __init__(self, terminal: TextIO, log_fd: int, log_path: Path | None) -> None:
        """Take note of the terminal's stream and of the log; nothing is redirected before `acquire`."""
        self.stream = terminal
        """Text stream on the real terminal. Textual's `error_console` must print here, or tracebacks go to the log."""
        self.log_path = log_path
        """Where stray output goes; None when that file cannot be written and the output is dropped."""
        self._log_fd = log_fd
        self._saved_fds = (os.dup(_STDOUT_FD), os.dup(_STDERR_FD))
        self._held = False

    def acquire(self) -> None:
        """Send file descriptors 1 and 2 to the log; does nothing when they already go there."""
        if not self._held:
            self._move(self._log_fd, self._log_fd)
            self._held = True

    def release(self) -> None:
        """Give file descriptors 1 and 2 back, for `App.suspend` and an editor; `acquire` takes them again.

        Subscribe both to the app's suspend and resume signals with `immediate=True`: otherwise Textual calls them when
        the editor has gone.
        """
        if self._held:
            self._move(*self._saved_fds)
            self._held = False

    def close(self) -> None:
        """Give everything back for good."""
        self.release()
        for fd in self._saved_fds:
            os.close(fd)

    @staticmethod
    def _move(stdout_fd: int, stderr_fd: int) -> None:
        _flush_all()
        os.dup2(stdout_fd, _STDOUT_FD)
        os.dup2(stderr_fd, _STDERR_FD)


def _flush_all() -> None:
    """Write out what is buffered for fds 1 and 2, so that it arrives where it was meant to go."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with suppress(OSError, ValueError):  # a closed terminal must not keep the app from leaving
                stream.flush()
    # C's own buffer: a printf made inside would otherwise appear on the restored terminal when the process ends.
    ctypes.CDLL(None).fflush(None)


@contextmanager
def private_terminal(log_path: Path, *, utf8: bool = True) -> Iterator[PrivateTerminal]:
    """Keep the terminal for the app: build and run the App inside this block.

    Inside, `sys.__stderr__` (on which Textual draws) and `sys.__stdout__` (whose size it asks for) are the terminal,
    and everything written to file descriptors 1 and 2, by this process or a child, is appended to `log_path`. `print`
    goes there too. A log that cannot be written is replaced by the null device: a full disk stops no run.

    `utf8=False` writes ASCII with one `?` for every other character, so that columns stay aligned.
    """
    log_fd, written_path = _open_log(log_path)
    terminal_fd = os.dup(_STDERR_FD)
    encoding, errors = ("utf-8", "backslashreplace") if utf8 else ("ascii", "replace")
    terminal = open(terminal_fd, "w", encoding=encoding, errors=errors)  # noqa: SIM115 (closed below, if it can be)
    guard = PrivateTerminal(terminal, log_fd, written_path)
    before = {"__stdout__": sys.__stdout__, "__stderr__": sys.__stderr__}
    try:
        vars(sys).update(__stdout__=terminal, __stderr__=terminal)
        guard.acquire()
        yield guard
    finally:
        vars(sys).update(before)
        guard.close()
        os.close(log_fd)
        with suppress(OSError):  # the person may have closed the terminal
            terminal.close()


def _open_log(path: Path) -> tuple[int, Path | None]:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), path
    except OSError:
        return os.open(os.devnull, os.O_WRONLY), None
