"""Who used the cores between two moments: our own processes, others by name, what cannot be seen, the hypervisor."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter_ns, thread_time_ns

from cpugpu_tui.machine import procfs
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import CoreUse, CoreUser

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
