"""Measure how long our threads waited for a core, and which processes used the cores meanwhile."""

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
from cpugpu_tui.machine.processes import visible_pids
from cpugpu_tui.machine.procfs import Process
from cpugpu_tui.model import CoreUse, CoreUser

TASKS = "proc/self/task"


@dataclass(frozen=True)
class Waited:
    """Time that threads waited for a core within a window."""

    waited_ns: float
    """Time that threads were ready to run without a core, summed over the threads."""
    wanted_ns: float
    """Time that threads ran or waited; between the length of the window and that × threads."""
    worst_share: float = 0.0
    """Waiting share of the thread that waited longest, 0 to 1; the others wait for it at every barrier."""

    @property
    def share(self) -> float:
        """Return the waiting share of all threads, 0 to 1."""
        return self.waited_ns / self.wanted_ns if self.wanted_ns > 0 else 0.0

    def __add__(self, other: Waited) -> Waited:
        """Return the sum of both windows."""
        worst_share = max(self.worst_share, other.worst_share)
        return Waited(self.waited_ns + other.waited_ns, self.wanted_ns + other.wanted_ns, worst_share)


def parse_schedstat(text: bytes) -> tuple[int, int] | None:
    """Return (ran, waited), ns, from a `schedstat` file: `run_ns wait_ns timeslices`; None for anything else."""
    fields = text.split()
    if len(fields) < 2 or not (fields[0].isdigit() and fields[1].isdigit()):
        return None
    return int(fields[0]), int(fields[1])


def waited(before: Mapping[int, tuple[int, int]], after: Mapping[int, tuple[int, int]], elapsed_ns: float) -> Waited:
    """Return the waiting time of threads that are known on both sides of a window."""
    both = [(before[tid], after[tid]) for tid in before if tid in after]
    waits_ns = [max(0, end[1] - begin[1]) for begin, end in both]
    runs_ns = [max(0, end[0] - begin[0]) for begin, end in both]
    worst_share = max(
        (wait_ns / max(elapsed_ns, run_ns + wait_ns, 1) for wait_ns, run_ns in zip(waits_ns, runs_ns, strict=True)),
        default=0.0,
    )
    return Waited(sum(waits_ns), max(elapsed_ns, sum(runs_ns) + sum(waits_ns)), worst_share)


def timing_threads(tasks: Collection[int]) -> set[int]:
    """Return the threads of this process that compute in a CPU half-round: the caller and torch's pools.

    All other threads were started by Python (user interface, samplers, the agent's listener) and are left out.
    """
    others = {thread.native_id for thread in threading.enumerate()} - {threading.get_native_id()}
    return {tid for tid in tasks if tid not in others}


class ThreadWaits:
    """Read the timing threads of this process at both edges of a window; files stay open between windows."""

    def __init__(self, root: str = "/") -> None:
        self._tasks = Path(root, TASKS)
        self._descriptors: dict[int, int] = {}
        self._links = 0
        self._before: dict[int, tuple[int, int]] = {}
        self._began_ns = 0

    def begin(self, *, own_only: bool = False) -> None:
        """Begin a window over the present timing threads, or only the calling thread."""
        self._discover()
        self._before = self._read({threading.get_native_id()} if own_only else timing_threads(self._descriptors))
        self._began_ns = perf_counter_ns()

    def end(self) -> Waited | None:
        """End the window; return None if the kernel does not count."""
        elapsed_ns = perf_counter_ns() - self._began_ns
        after = self._read(self._before)
        # Without this accounting the kernel shows zeros, even for a running thread.
        if not any(ran_ns for ran_ns, _ in after.values()):
            return None
        return waited(self._before, after, elapsed_ns)

    def _discover(self) -> None:
        """Open the files of new threads and close those of ended threads, if their number has changed.

        Listing the 60 threads of a server's agent took half of a window's 0.3 ms.
        """
        try:
            links = self._tasks.stat().st_nlink  # one of each thread
            if links == self._links:
                return
            tasks = {int(name) for name in os.listdir(self._tasks) if name.isdecimal()}
            self._links = links
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
            with suppress(OSError):  # the thread has just ended
                counted = parse_schedstat(os.pread(self._descriptors[tid], 64, 0)) if tid in self._descriptors else None
                if counted is not None:
                    found[tid] = counted
        return found

    def close(self) -> None:
        """Close the files."""
        self._links = 0
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])


MOST_PROCESSES = 2_000
MOST_CPU_NS, MOST_NS = 10e6, 200e6
"""Limits of a snapshot: processes, CPU time and duration. 100 processes take 2 ms, or 6 ms and more while all cores are
busy."""

NAMED_CORES = 0.05
"""Smallest use for which a process is named."""

LEAST_UNSEEN_CORES = 0.2
"""Smallest reported use without a visible process; /proc/stat samples and is off by some ticks."""

MOST_NAMED = 5

KERNEL_PID = 2
"""Parent of the kernel's threads, if this namespace shows them."""


@dataclass(frozen=True)
class Snapshot:
    """CPU time used by every process and core up to one moment."""

    at_ns: float
    processes: Mapping[int, Process] = field(default_factory=dict)
    is_complete: bool = False
    """Whether every visible process was read."""
    busy_ticks: int | None = None
    """User, nice and system time of all cores, without interrupts."""
    allowed_ticks: int | None = None
    """The same for the cores that this process may use."""
    stolen_ticks: int | None = None
    """Time that the hypervisor gave to other machines while ours needed these cores."""
    throttled: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    """See `procfs.cpu_throttled`."""


def _core_lines(text: str) -> Iterator[tuple[str, list[int]]]:
    for line in text.splitlines():
        name, *numbers = line.split()
        if name.startswith("cpu") and len(numbers) >= 8 and all(number.isdecimal() for number in numbers):
            yield name, [int(number) for number in numbers]


def parse_cores(text: str, allowed: tuple[int, ...]) -> tuple[int, int, int] | None:
    """Return ticks from `/proc/stat`: (busy of all, busy of the allowed, stolen from the allowed) cores, or None."""
    lines = dict(_core_lines(text))
    whole = lines.get("cpu")
    own = [lines[f"cpu{core}"] for core in allowed if f"cpu{core}" in lines]
    if whole is None or not own:
        return None
    # user nice system idle iowait irq softirq steal
    return sum(whole[:3]), sum(sum(each[:3]) for each in own), sum(each[7] for each in own)


def snapshot(root: str = "/") -> Snapshot:
    """Return a snapshot of the present moment, without what cannot be read."""
    at_ns, began_cpu_ns = perf_counter_ns(), thread_time_ns()
    found: dict[int, Process] = {}
    pids = visible_pids(root)
    is_complete = 0 < len(pids) <= MOST_PROCESSES
    for pid in pids[:MOST_PROCESSES]:
        if thread_time_ns() - began_cpu_ns > MOST_CPU_NS or perf_counter_ns() - at_ns > MOST_NS:
            is_complete = False
            break
        process = procfs.read_process(pid, root)
        if process is not None:
            found[pid] = process
    cores = parse_cores(procfs.file_text(root, "proc/stat") or "", procfs.affinity_cores(root))
    busy, allowed, stolen = cores or (None, None, None)
    return Snapshot(at_ns, found, is_complete, busy, allowed, stolen, procfs.cpu_throttled(root))


def core_use(before: Snapshot, after: Snapshot, own: int, controller: int | None, tick_s: float) -> CoreUse | None:
    """Return who used the cores between two snapshots; None if they are only a few ticks apart.

    Our own use is that of this process (`own`), of the `controller` that started it, and of their children.
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
        elapsed_ns=elapsed_s * 1e9, own_cores=ours_cores, others=tuple(CoreUser(name, cores) for name, cores in named),
        other_processes=count, other_cores=others_cores,
        ended_cores=ended_cores if before.is_complete and after.is_complete else None,
        unseen_cores=_unseen(before, after, ours_cores, others_cores + ended_cores, scale),
        stolen_cores=_difference(before.stolen_ticks, after.stolen_ticks, scale),
        throttled_periods=None if throttled is None else throttled[0],
        throttled_ns=None if throttled is None else throttled[1],
    )  # fmt: skip


def _ticks_before(before: Snapshot, pid: int, process: Process) -> int:
    """Return the ticks of a process at the first snapshot; 0 for a process that started later."""
    known = before.processes.get(pid)
    if known is not None and known.started_ticks == process.started_ticks:
        return min(known.ticks, process.ticks)
    # An incomplete snapshot may have missed the process; then its use counts as 0.
    return 0 if before.is_complete else process.ticks


def _all_ticks(moment: Snapshot, pids: Collection[int]) -> int:
    """Return the total ticks of processes, including those of their ended children."""
    found = (process for pid, process in moment.processes.items() if pid in pids)
    return sum(process.ticks + process.ended_ticks for process in found)


def _family(processes: Mapping[int, Process], heads: set[int]) -> set[int]:
    """Return processes with their descendants, except those of process 1, which adopts orphans."""
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
    """Return the use of our allowed cores by invisible processes; None if unknown.

    If the kernel's threads are visible, so is every process.
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
    """Return the throttled periods and ns of the cgroup that was throttled longest."""
    found = [
        (max(0, after.throttled[group][0] - periods), max(0.0, after.throttled[group][1] - ns))
        for group, (periods, ns) in before.throttled.items()
        if group in after.throttled
    ]
    return max(found, key=lambda each: each[1], default=None)
