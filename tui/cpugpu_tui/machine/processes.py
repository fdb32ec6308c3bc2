"""The processes of a command: found by a mark in their environment, whatever group or parent they have by now.

Also one process, timed from outside from start to exit.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass

from cpugpu_tui.machine.text import printable

SCRATCH = "cpugpu-tui-compile-"
"""Start of the names of folders for a compiler's files, followed by the agent's id and a dash."""

MARK = "CPUGPU_TUI_COMMAND"
"""Variable in the environment of every process of a command; its value is the id of the agent."""


def marked(agent_pid: int, strangers: set[int] | None = None) -> list[int]:
    """Return the processes of an agent's commands. `strangers` collects others, which are not looked at again."""
    wanted, others, found = f"{MARK}={agent_pid}".encode(), set() if strangers is None else strangers, []
    for pid in (int(name) for name in os.listdir("/proc") if name.isdecimal()):
        if pid in others:
            continue
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                is_marked = wanted in file.read().split(b"\0")
        except OSError:  # another user's, or it has just ended
            is_marked = False
        if is_marked:
            found.append(pid)
        else:
            others.add(pid)
    return found


def kill_marked(agent_pid: int) -> list[str]:
    """Kill the processes of an agent's commands until none is left; return the names of the first ones."""
    names: list[str] = []
    for _ in range(100):  # a process may fork before it is killed
        pids = [pid for pid in marked(agent_pid) if pid != os.getpid()]
        names = names or [_name(pid) for pid in pids]
        if not pids:
            break
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
    return names


def children() -> dict[int, str]:
    """Return the running children of this process with their names; empty where the kernel does not list them."""
    found: dict[int, str] = {}
    for task in os.listdir("/proc/self/task") if os.path.isdir("/proc/self/task") else ():
        with suppress(OSError), open(f"/proc/self/task/{task}/children") as file:
            found |= {int(pid): _name(int(pid)) for pid in file.read().split()}
    return {pid: name for pid, name in found.items() if not _is_zombie(pid)}


def _is_zombie(pid: int) -> bool:
    with suppress(OSError), open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[:1] == ["Z"]
    return True


def memory_bytes(pids: Collection[int]) -> int:
    """Return the resident memory of processes, bytes; those that have ended count nothing."""
    pages = 0
    for pid in pids:
        with suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/statm") as file:
            pages += int(file.read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return "unknown"


# ------------------------------------------------------------------ one process from start to exit


LOOK_MS = 20
"""Interval of looks at a process while it runs. They do not delay the notice of its end."""

TAIL_BYTES = 8192
"""How much of the end of a process's stderr is read for its last line."""

_READ, _WRITE = os.O_RDONLY, os.O_WRONLY | os.O_CREAT | os.O_TRUNC
_RESET = [signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@dataclass(frozen=True)
class Ended:
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


def exit_descriptor(pid: int) -> int | None:
    """Return a descriptor that becomes readable when a process ends; None on kernels before 5.3."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


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
