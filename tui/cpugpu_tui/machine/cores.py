"""How long our threads waited for a core, and who used the cores meanwhile: ourselves, others by name, the unseen."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter_ns, thread_time_ns

from cpugpu_tui.machine import procfs
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import CoreUse, CoreUser

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


def parse_schedstat(text: bytes) -> tuple[int, int] | None:
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
                counted = parse_schedstat(os.pread(self._descriptors[tid], 64, 0)) if tid in self._descriptors else None
                if counted is not None:
                    found[tid] = counted
        return found

    def close(self) -> None:
        """Close the files."""
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])


MOST_PROCESSES = 2_000
MOST_CPU_NS, MOST_NS = 10e6, 200e6
"""A snapshot reads at most so many processes and takes at most about this much CPU time, and this long: 100 processes
take 2 ms, and 6 ms and more while every core is busy."""

NAMED_CORES = 0.05
"""A process is named from this use on."""

LEAST_UNSEEN_CORES = 0.2
"""Use that no visible process accounts for is told from this on: /proc/stat samples, and misses by some ticks."""

MOST_NAMED = 5

KERNEL_PID = 2
"""The parent of the kernel's threads, in the namespace that has them."""


@dataclass(frozen=True)
class Process:
    """One process at one moment."""

    command: str
    parent: int
    ticks: int
    """User and system time since it started."""
    started_ticks: int
    """With the id, what tells it from a later process of the same id."""
    ended_ticks: int = 0
    """The same of its children that have ended."""


@dataclass(frozen=True)
class Snapshot:
    """What every process and core had used at one moment."""

    at_ns: float
    processes: Mapping[int, Process] = field(default_factory=dict)
    is_complete: bool = False
    """Whether every visible process was read."""
    busy_ticks: int | None = None
    """User, nice and system time of all cores; interrupts are no process's."""
    allowed_ticks: int | None = None
    """The same of the cores that this process may use."""
    stolen_ticks: int | None = None
    """Time that a hypervisor gave to other machines while ours wanted these cores."""
    throttled: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    """See `procfs.cpu_throttled`."""


def parse_process(text: str) -> Process | None:
    """Return a process from `/proc/PID/stat`; None for anything else. The name may hold spaces and brackets."""
    head, _, rest = text.rpartition(")")
    fields = rest.split()
    if len(fields) < 20 or "(" not in head:
        return None
    # proc(5), counted from the state (field 3): ppid 1, utime 11, stime 12, cutime 13, cstime 14, starttime 19.
    try:
        parent, user, system, *children = (int(fields[place]) for place in (1, 11, 12, 13, 14, 19))
    except ValueError:
        return None
    *ended, started = children
    return Process(printable(head.partition("(")[2], 40), parent, user + system, started, sum(ended))


def _core_lines(text: str) -> Iterator[tuple[str, list[int]]]:
    for line in text.splitlines():
        name, *numbers = line.split()
        if name.startswith("cpu") and len(numbers) >= 8 and all(number.isdecimal() for number in numbers):
            yield name, [int(number) for number in numbers]


def parse_cores(text: str, allowed: tuple[int, ...]) -> tuple[int, int, int] | None:
    """Return (busy of all, busy of the allowed, stolen from the allowed) ticks from `/proc/stat`; None without them."""
    lines = dict(_core_lines(text))
    whole = lines.get("cpu")
    own = [lines[f"cpu{core}"] for core in allowed if f"cpu{core}" in lines]
    if whole is None or not own:
        return None
    # user nice system idle iowait irq softirq steal
    return sum(whole[:3]), sum(sum(each[:3]) for each in own), sum(each[7] for each in own)


def snapshot(root: str = "/") -> Snapshot:
    """Return the present moment; what cannot be read is left out."""
    at_ns, began_cpu_ns = perf_counter_ns(), thread_time_ns()
    found: dict[int, Process] = {}
    try:
        pids = sorted(int(name) for name in os.listdir(Path(root, "proc")) if name.isdecimal())
    except OSError:
        pids = []
    is_complete = 0 < len(pids) <= MOST_PROCESSES
    for pid in pids[:MOST_PROCESSES]:
        if thread_time_ns() - began_cpu_ns > MOST_CPU_NS or perf_counter_ns() - at_ns > MOST_NS:
            is_complete = False
            break
        process = parse_process(_text(root, f"proc/{pid}/stat"))
        if process is not None:
            found[pid] = process
    cores = parse_cores(_text(root, "proc/stat"), procfs.affinity_cores(root))
    busy, allowed, stolen = cores or (None, None, None)
    return Snapshot(at_ns, found, is_complete, busy, allowed, stolen, procfs.cpu_throttled(root))


def core_use(before: Snapshot, after: Snapshot, own: int, controller: int | None, tick_s: float) -> CoreUse | None:
    """Return who used the cores between two snapshots; None where less than a few ticks lie between.

    `own` is this process, which counts as ourselves with what it started; so do the `controller` that started it and
    what that started.
    """
    elapsed_s = (after.at_ns - before.at_ns) / 1e9
    if elapsed_s < 5 * tick_s:
        return None
    heads = {own} if controller is None else {own, controller}
    ours, ours_before = _family(after.processes, heads), _family(before.processes, heads)
    scale = tick_s / elapsed_s
    per_name: dict[str, float] = defaultdict(float)
    ours_cores = max(0, _all_ticks(after, ours) - _all_ticks(before, ours_before)) * scale
    others_cores, count = 0.0, 0
    for pid, process in after.processes.items():
        if pid in ours:
            continue
        cores = (process.ticks - _ticks_before(before, pid, process)) * scale
        others_cores += cores
        if cores >= NAMED_CORES:
            per_name[process.command] += cores
            count += 1
    named = sorted(per_name.items(), key=lambda item: -item[1])[:MOST_NAMED]
    visible_cores = (_all_ticks(after, after.processes) - _all_ticks(before, before.processes)) * scale
    ended_cores = max(0.0, visible_cores - ours_cores - others_cores)
    throttled = _throttled(before, after)
    return CoreUse(
        elapsed_ns=elapsed_s * 1e9,
        own_cores=ours_cores,
        others=tuple(CoreUser(name, cores) for name, cores in named),
        other_processes=count,
        other_cores=others_cores,
        ended_cores=ended_cores if before.is_complete and after.is_complete else None,
        unseen_cores=_unseen(before, after, ours_cores, others_cores + ended_cores, scale),
        stolen_cores=_difference(before.stolen_ticks, after.stolen_ticks, scale),
        throttled_periods=None if throttled is None else throttled[0],
        throttled_ns=None if throttled is None else throttled[1],
    )


def _ticks_before(before: Snapshot, pid: int, process: Process) -> int:
    """Return what a process had used at the beginning, 0 for one that began later."""
    known = before.processes.get(pid)
    if known is not None and known.started_ticks == process.started_ticks:
        return min(known.ticks, process.ticks)
    # An incomplete snapshot may have missed it: then it counts for nothing.
    return 0 if before.is_complete else process.ticks


def _all_ticks(moment: Snapshot, pids: Collection[int]) -> int:
    """Return what processes have used together: one that ends leaves its time to whoever started it."""
    found = (process for pid, process in moment.processes.items() if pid in pids)
    return sum(process.ticks + process.ended_ticks for process in found)


def _family(processes: Mapping[int, Process], heads: set[int]) -> set[int]:
    """Return processes with all that they started; not of process 1, which adopts what others leave behind."""
    children: dict[int, list[int]] = defaultdict(list)
    for pid, process in processes.items():
        children[process.parent].append(pid)
    found, open_ones = set(heads), [pid for pid in heads if pid > 1]
    while open_ones:
        for child in children.get(open_ones.pop(), ()):
            if child not in found:
                found.add(child)
                open_ones.append(child)
    return found


def _difference(before: int | None, after: int | None, scale: float) -> float | None:
    return None if before is None or after is None else max(0, after - before) * scale


def _unseen(before: Snapshot, after: Snapshot, ours: float, others: float, scale: float) -> float | None:
    """Return the cores that nobody whom we see has used, of those that we may use; None where that cannot be told.

    Where the kernel's own threads are visible, so is every process: there is nobody outside.
    """
    whole = _difference(before.busy_ticks, after.busy_ticks, scale)
    allowed = _difference(before.allowed_ticks, after.allowed_ticks, scale)
    if whole is None or allowed is None or not (before.is_complete and after.is_complete):
        return None
    if KERNEL_PID in after.processes and after.processes[KERNEL_PID].command == "kthreadd":
        return None
    unseen = min(whole - ours - others, allowed - ours)
    return unseen if unseen >= LEAST_UNSEEN_CORES else 0.0


def _throttled(before: Snapshot, after: Snapshot) -> tuple[int, float] | None:
    """Return the periods and ns in which the cgroup that was held back longest was held back."""
    found = [
        (max(0, after.throttled[group][0] - periods), max(0.0, after.throttled[group][1] - ns))
        for group, (periods, ns) in before.throttled.items()
        if group in after.throttled
    ]
    return max(found, key=lambda each: each[1], default=None)


def _text(root: str, path: str) -> str:
    try:
        return Path(root, path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
