"""Run a process from start to exit and time it from outside."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from cpugpu_tui.machine.processes import exit_descriptor
from cpugpu_tui.machine.text import printable

LOOK_MS = 20
"""Interval of looks at a process while it runs. They do not delay the notice of its end."""

TAIL_BYTES = 8192
"""How much of the end of a process's stderr is read for its last line."""

_READ, _WRITE = os.O_RDONLY, os.O_WRONLY | os.O_CREAT | os.O_TRUNC
_RESET = [signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


class Ended(NamedTuple):
    """How a process ended."""

    elapsed_ns: int
    """From before it was started until it had exited."""
    exit_code: int
    """Negative: the number of the signal that killed it."""

    @property
    def manner(self) -> str:
        """Return how it ended, as the end of a sentence."""
        if self.exit_code >= 0:
            return f"ended with exit code {self.exit_code}"
        return f"was killed by {signal.Signals(-self.exit_code).name}"


def run_process(
    words: list[str], environment: Mapping[str, str], output: str, look: Callable[[int], bool]
) -> Ended | None:
    """Run a program, with stdout in `output`.out and stderr in `output`.err; None if it was abandoned and still runs.

    It stays in this process's group, so that what kills this process also kills it. `look(pid)` is called every
    `LOOK_MS`, and returns True to abandon it.

    Raises:
        OSError: the program cannot be started.
    """
    files = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, _READ, 0),
        (os.POSIX_SPAWN_OPEN, 1, f"{output}.out", _WRITE, 0o600),
        (os.POSIX_SPAWN_OPEN, 2, f"{output}.err", _WRITE, 0o600),
    ]
    started_ns = time.perf_counter_ns()
    pid = os.posix_spawnp(words[0], words, environment, file_actions=files, setsigdef=_RESET)
    exited = exit_descriptor(pid)
    try:
        while not _has_ended(pid, exited):
            if look(pid):
                return None
        elapsed_ns = time.perf_counter_ns() - started_ns
    finally:
        if exited is not None:
            os.close(exited)
    _, status = os.waitpid(pid, 0)
    return Ended(elapsed_ns, os.waitstatus_to_exitcode(status))


def _has_ended(pid: int, exited: int | None) -> bool:
    """Wait up to `LOOK_MS`, and return whether the process has ended; it is not reaped."""
    if exited is not None:
        ends = select.poll()
        ends.register(exited, select.POLLIN)
        return bool(ends.poll(LOOK_MS))
    until_s = time.monotonic() + LOOK_MS / 1e3
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() > until_s:
            return False
        time.sleep(0.0005)
    return True


def last_line(path: str) -> str:
    """Return the last line with text of a file, at most 200 characters; empty without one."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return printable(next((line.strip() for line in reversed(lines) if line.strip()), ""), 200)
