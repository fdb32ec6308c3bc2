"""Checks whether the app can be drawn on the terminal, and keeps other output off it.

Textual draws on `sys.__stderr__`. Native code (CUDA, cuBLAS, torch's C++ warnings) writes to file descriptors 1 and 2,
which would appear in the middle of the screen: `private_terminal` redirects both to a log file. Nothing here imports
Textual, which takes 200 ms, so that an unfit terminal is refused at once.
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
    """Return why the app cannot be drawn on this terminal; None if it can. Small terminals are accepted."""
    remedy = "Use `cpugpu-tui run`, which prints the same results as text."
    if not found.interactive:
        return UnfitError("Cannot open the app: standard input or standard error is not a terminal.", remedy)
    if found.dumb:
        term = os.environ.get("TERM", "")
        return UnfitError(f"Cannot open the app: this terminal (TERM={term}) cannot move its cursor.", remedy)
    return None


# ------------------------------------------------------------------ the guard


class PrivateTerminal:
    """The terminal while only the app writes to it; made by `private_terminal`."""

    def __init__(self, terminal: TextIO, log_fd: int, log_path: Path | None) -> None:
        """Store the terminal's stream and the log; nothing is redirected before `acquire`."""
        self.stream = terminal
        """Text stream on the real terminal. Textual's `error_console` must print here, not into the log."""
        self.log_path = log_path
        """File for stray output; None if it cannot be written and the output is dropped."""
        self._log_fd = log_fd
        self._saved_fds = (os.dup(_STDOUT_FD), os.dup(_STDERR_FD))
        self._held = False

    def acquire(self) -> None:
        """Redirect file descriptors 1 and 2 to the log, unless they are already."""
        if not self._held:
            self._redirect(self._log_fd, self._log_fd)
            self._held = True

    def release(self) -> None:
        """Restore file descriptors 1 and 2, for `App.suspend` and an editor; `acquire` redirects them again.

        Subscribe both to the app's suspend and resume signals with `immediate=True`: otherwise Textual calls them after
        the editor has ended.
        """
        if self._held:
            self._redirect(*self._saved_fds)
            self._held = False

    def close(self) -> None:
        """Restore everything for good."""
        self.release()
        for fd in self._saved_fds:
            os.close(fd)

    @staticmethod
    def _redirect(stdout_fd: int, stderr_fd: int) -> None:
        _flush_all()
        os.dup2(stdout_fd, _STDOUT_FD)
        os.dup2(stderr_fd, _STDERR_FD)


def _flush_all() -> None:
    """Flush the buffers of fds 1 and 2 before these are redirected."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with suppress(OSError, ValueError):  # the terminal may be closed
                stream.flush()
    # C's own buffer: otherwise a printf of native code appears on the restored terminal at exit.
    ctypes.CDLL(None).fflush(None)


@contextmanager
def private_terminal(log_path: Path, *, utf8: bool = True) -> Iterator[PrivateTerminal]:
    """Keep other output off the terminal: build and run the App inside this block.

    Inside, `sys.__stderr__` (on which Textual draws) and `sys.__stdout__` (whose size it reads) are the terminal.
    Everything written to file descriptors 1 and 2, by `print`, native code or a child, is appended to `log_path`. If
    that file cannot be written, for example on a full disk, the output is dropped.

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
        with suppress(OSError):  # the terminal may be closed
            terminal.close()


def _open_log(path: Path) -> tuple[int, Path | None]:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), path
    except OSError:
        return os.open(os.devnull, os.O_WRONLY), None
