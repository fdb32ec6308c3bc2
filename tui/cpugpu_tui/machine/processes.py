"""The processes of a command, found by a mark in their environment, whatever group or parent they have by now.

The guardian, which stays small, imports this before anything else: keep it to the standard library's light modules.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection
from contextlib import suppress

SCRATCH = "cpugpu-tui-compile-"
"""Start of the names of folders for a compiler's files, followed by the agent's id and a dash."""

MARK = "CPUGPU_TUI_COMMAND"
"""Variable in the environment of every process of a command; its value is the id of the agent."""


def visible_pids(root: str = "/") -> list[int]:
    """Return the ids of all visible processes, smallest first; empty if they cannot be listed."""
    try:
        return sorted(int(name) for name in os.listdir(os.path.join(root, "proc")) if name.isdecimal())
    except OSError:
        return []


def marked(agent_pid: int, strangers: set[int] | None = None) -> list[int]:
    """Return the processes of an agent's commands. `strangers` collects others, which are not looked at again."""
    wanted, others, found = f"{MARK}={agent_pid}".encode(), set() if strangers is None else strangers, []
    for pid in visible_pids():
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
    return {pid: name for pid, name in found.items() if _state(f"/proc/{pid}") != "Z"}


_SET_CHILD_SUBREAPER = 36
"""Of linux/prctl.h."""


def adopt_orphans(wanted: bool = True) -> None:
    """Make processes whose parents end children of this process, so that `children` finds daemons; Linux only."""
    import ctypes

    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0)


def kill_children(kept: Collection[int]) -> None:
    """Kill the children of this process except `kept`, and theirs, which become children of this process."""
    for _ in range(100):  # a process may fork before it is killed
        pids = children().keys() - set(kept)
        if not pids:
            break
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def is_running(pid: int) -> bool:
    """Return whether a thread of a process runs or waits for a core."""
    with suppress(OSError):
        return any(_state(f"/proc/{pid}/task/{task}") == "R" for task in os.listdir(f"/proc/{pid}/task"))
    return False


def _state(folder: str) -> str:
    """Return the state of a process or thread as the kernel's letter; that of a zombie if it has ended."""
    with suppress(OSError), open(f"{folder}/stat", errors="replace") as file:
        return file.read().rpartition(")")[2].split()[0]
    return "Z"


def exit_descriptor(pid: int) -> int | None:
    """Return a descriptor that becomes readable when a process ends; None on kernels before 5.3."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def memory_bytes(pids: Collection[int]) -> int:
    """Return the resident memory of processes, bytes; those that have ended count nothing."""
    pages = 0
    for pid in pids:
        with suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/statm") as file:
            pages += int(file.read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def memory_of(pid: int) -> tuple[int, int | None]:
    """Return the resident memory of a process, and its share of it (PSS) or None if the kernel does not tell; bytes."""
    with suppress(OSError, ValueError), open(f"/proc/{pid}/smaps_rollup") as file:
        sizes = {line.partition(":")[0]: 1024 * int(line.split()[-2]) for line in file if line.endswith(" kB\n")}
        if "Rss" in sizes:
            return sizes["Rss"], sizes.get("Pss")
    return memory_bytes([pid]), None


def _name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return "unknown"
