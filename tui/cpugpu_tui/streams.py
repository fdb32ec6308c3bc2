"""The three standard streams, made so that neither a closed one nor a full or vanished one ends a run."""

from __future__ import annotations

import errno
import io
import os
import sys

from cpugpu_tui import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TextIO


def open_streams() -> None:
    """Replace closed streams (`<&-`, `>&-`) by nothing, and keep a lost terminal or a full disk from ending a run."""
    # In this order: the lowest free descriptor is given, so that no other file becomes 0, 1 or 2.
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115 - open for the life of the process
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - as above
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - as above
    sys.stderr = _lasting(sys.stderr, lambda _: True)
    if sys.stdout.isatty():
        # Whoever closed the terminal still wants the run saved and exported. A pipe or a file still fails.
        sys.stdout = _lasting(sys.stdout, lambda error: error.errno == errno.EIO)
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a file's name may hold bytes that are no text


class _Dropping(io.FileIO):
    """A file that drops what it cannot take, for the errors that `is_dropped` accepts."""

    def __init__(self, descriptor: int, is_dropped: Callable[[OSError], bool]) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._is_dropped = is_dropped

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if not self._is_dropped(error):
                raise
            return memoryview(data).nbytes


def _lasting(stream: TextIO, is_dropped: Callable[[OSError], bool]) -> TextIO:
    """Return the same stream, with failures to write dropped."""
    if not isinstance(stream, io.TextIOWrapper):  # somebody has put another one in its place
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(_Dropping(stream.fileno(), is_dropped)), stream.encoding, "backslashreplace",
        line_buffering=True, write_through=stream.write_through,
    )  # fmt: skip
