"""How long threads of this process ran and how long they waited for a core, in nanoseconds. Linux only."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns

TASKS = "proc/self/task"


@dataclass(frozen=True)
class Waited:
    """What threads waited for a core within a window."""

    waited_ns: float
    """Time that they were ready to run and had no core, summed over the threads."""
    wanted_ns: float
    """Time that they wanted a core, running or waiting; at least the length of the window, at most that × threads."""
    worst_share: float = 0.0
    """Share of the time that the thread waited that waited longest, 0 to 1: the others wait for it at every barrier."""

    @property
    def share(self) -> float:
        """Return the share of the time that they waited, 0 to 1."""
        return self.waited_ns / self.wanted_ns if self.wanted_ns > 0 else 0.0

    def __add__(self, other: Waited) -> Waited:
        """Return both windows as one."""
        worst_share = max(self.worst_share, other.worst_share)
        return Waited(self.waited_ns + other.waited_ns, self.wanted_ns + other.wanted_ns, worst_share)


def parse(text: bytes) -> tuple[int, int] | None:
    """Return (ran, waited), ns, from a `schedstat` file: `run_ns wait_ns timeslices`; None for anything else."""
    fields = text.split()
    if len(fields) < 2 or not (fields[0].isdigit() and fields[1].isdigit()):
        return None
    return int(fields[0]), int(fields[1])


def waited(before: Mapping[int, tuple[int, int]], after: Mapping[int, tuple[int, int]], elapsed_ns: float) -> Waited:
    """Return what the threads that are known on both sides of a window waited."""
    both = [(before[tid], after[tid]) for tid in before if tid in after]
    waits_ns = [max(0, end[1] - begin[1]) for begin, end in both]
    runs_ns = [max(0, end[0] - begin[0]) for begin, end in both]
    worst_share = max(
        (wait_ns / max(elapsed_ns, run_ns + wait_ns, 1) for wait_ns, run_ns in zip(waits_ns, runs_ns, strict=True)),
        default=0.0,
    )
    return Waited(sum(waits_ns), max(elapsed_ns, sum(runs_ns) + sum(waits_ns)), worst_share)


def timing_threads(tasks: Collection[int]) -> set[int]:
    """Return the threads of this process that work in a CPU half-round: the caller's and torch's pools.

    Python did not make the pools' threads. Its own others are a user interface, samplers and the agent's listener.
    """
    others = {thread.native_id for thread in threading.enumerate()} - {threading.get_native_id()}
    return {tid for tid in tasks if tid not in others}


class ThreadWaits:
    """Reads the timing threads of this process at both sides of a window. Descriptors stay open between windows."""

    def __init__(self, root: str = "/") -> None:
        self._tasks = Path(root, TASKS)
        self._descriptors: dict[int, int] = {}
        self._before: dict[int, tuple[int, int]] = {}
        self._began_ns = 0

    def begin(self, *, own_only: bool = False) -> None:
        """Begin a window over the timing threads that exist now, or over the calling thread alone."""
        self._discover()
        own = {threading.get_native_id()}
        self._before = self._read(own if own_only else timing_threads(self._descriptors))
        self._began_ns = perf_counter_ns()

    def end(self) -> Waited | None:
        """End the window; None where the kernel does not count."""
        elapsed_ns = perf_counter_ns() - self._began_ns
        after = self._read(self._before)
        # A kernel that was built or booted without this accounting shows zeros, for a thread that runs, too.
        if not any(ran_ns for ran_ns, _ in after.values()):
            return None
        return waited(self._before, after, elapsed_ns)

    def _discover(self) -> None:
        """Open the files of new threads, close those of threads that have ended."""
        try:
            tasks = {int(name) for name in os.listdir(self._tasks) if name.isdecimal()}
        except OSError:
            tasks = set()
        for tid in [tid for tid in self._descriptors if tid not in tasks]:
            os.close(self._descriptors.pop(tid))
        for tid in tasks - self._descriptors.keys():
            with suppress(OSError):
                self._descriptors[tid] = os.open(self._tasks / str(tid) / "schedstat", os.O_RDONLY | os.O_CLOEXEC)

    def _read(self, tids: Collection[int]) -> dict[int, tuple[int, int]]:
        found: dict[int, tuple[int, int]] = {}
        for tid in tids:
            with suppress(OSError):  # it has just ended
                counted = parse(os.pread(self._descriptors[tid], 64, 0)) if tid in self._descriptors else None
                if counted is not None:
                    found[tid] = counted
        return found

    def close(self) -> None:
        """Close the files."""
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])
