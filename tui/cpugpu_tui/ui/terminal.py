"""The person's terminal: what it can show, and how it stays the app's alone while the app draws on it.

Textual draws on `sys.__stderr__`. Native code (CUDA, cuBLAS, torch's C++ warnings) writes to file descriptors 1 and 2
without asking Python, which would land in the middle of the screen: `private_terminal` moves those two to a log file.
Nothing here imports Textual, so that a terminal can be refused, or its colours chosen, before 200 ms of imports.
"""

from __future__ import annotations

import ctypes
import os
import sys
from codecs import lookup
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TextIO

from cpugpu_tui.errors import UsageError

Colours = Literal["truecolor", "256", "16", "none"]
"""How many colours a terminal shows."""

_STDOUT_FD, _STDERR_FD = 1, 2
_TEXTUAL_NAMES: dict[str, Colours] = {"truecolor": "truecolor", "256": "256", "standard": "16"}
_TRUECOLOR_TERMS = ("alacritty", "foot", "xterm-kitty", "xterm-ghostty", "wezterm")
"""Terminals known by name: SSH carries TERM to the server but not COLORTERM."""
_UNICODE_CODECS = {"utf-8", "utf-8-sig"}


# ------------------------------------------------------------------ what it can show


@dataclass(frozen=True)
class Capabilities:
    """What a terminal can show, as far as its environment tells."""

    colours: Colours
    """`none` when the person set NO_COLOR."""
    utf8: bool
    """Whether block elements and arrows arrive as themselves; otherwise use the ASCII glyphs."""
    dumb: bool
    """Whether it cannot move its cursor."""
    interactive: bool
    """Whether keys can be read from it and a screen drawn on it."""
    columns: int
    rows: int

    @property
    def wants_ansi_theme(self) -> bool:
        """Whether to start on `ansi-dark`: a theme of RGB values becomes mud in 16 colours, grey under NO_COLOR."""
        return self.colours in ("16", "none")

    @property
    def textual_color_system(self) -> str:
        """Value for the environment's TEXTUAL_COLOR_SYSTEM, to be set before Textual is imported."""
        return {"truecolor": "truecolor", "256": "256"}.get(self.colours, "standard")


def capabilities(environ: Mapping[str, str], encoding: str | None, isatty: bool, size: tuple[int, int]) -> Capabilities:
    """Return what a terminal can show; a pure function of what is known about it.

    `encoding` is that of the stream drawn on, `isatty` whether both keyboard and screen are a terminal, `size` is
    (columns, rows).
    """
    term = environ.get("TERM", "").strip().lower()
    columns, rows = size
    return Capabilities(
        colours=_colours(environ, term),
        utf8=_is_utf8(environ, encoding) and term != "linux",  # the kernel console's font has 1 of 8 block heights
        dumb=term in ("dumb", "unknown"),
        interactive=isatty,
        columns=columns,
        rows=rows,
    )


def _colours(environ: Mapping[str, str], term: str) -> Colours:
    if "NO_COLOR" in environ:  # even empty: Textual looks no closer, and it is Textual that draws
        return "none"
    forced = _TEXTUAL_NAMES.get(environ.get("TEXTUAL_COLOR_SYSTEM", "").strip().lower())
    if forced is not None:
        return forced
    # GNU screen 4 hands COLORTERM on to programs inside and then cannot show 24 bits.
    in_gnu_screen = "STY" in environ and "TMUX" not in environ
    if environ.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit") and not in_gnu_screen:
        return "truecolor"
    if term.endswith("-direct") or term in _TRUECOLOR_TERMS:
        return "truecolor"
    return "256" if term.endswith("-256color") else "16"


def _is_utf8(environ: Mapping[str, str], encoding: str | None) -> bool:
    try:
        name = lookup(encoding or "ascii").name
    except LookupError:
        return False
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or ""
    charset = locale.partition(".")[2].partition("@")[0].lower().replace("-", "")
    # A locale without a charset (C, POSIX, none) says nothing: containers have it, their terminals are UTF-8.
    return name in _UNICODE_CODECS and charset in ("", "utf8")


def this_terminal() -> Capabilities:
    """Return what the terminal of this process can show. Call it before `private_terminal` takes the streams."""
    streams = (sys.stdin, sys.stderr)
    isatty = all(stream is not None and not stream.closed and stream.isatty() for stream in streams)
    size = (80, 24)
    if isatty:
        with suppress(OSError):
            size = os.get_terminal_size(_STDERR_FD)
    return capabilities(os.environ, getattr(sys.stderr, "encoding", None), isatty, size)


def refuse(found: Capabilities) -> UsageError | None:
    """Return why the app cannot be drawn on this terminal, None if it can. Small terminals are not refused."""
    remedy = "Use `cpugpu-tui run`, which prints the same results as text."
    if not found.interactive:
        return UsageError("The app needs a terminal as standard input and standard error.", remedy)
    if found.dumb:
        return UsageError("This terminal cannot move its cursor (TERM says so), and the app needs that.", remedy)
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
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), path
    except OSError:
        return os.open(os.devnull, os.O_WRONLY), None
