"""The host as Linux tells it: processor, limits, load, memory, processes. Standard library only.

Every function takes `root`, the folder under which `proc` and `sys` are found, so that tests (and a
container that mounts its host's) can bring their own. What a kernel does not tell is None, never 0.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from functools import lru_cache
from math import floor
from pathlib import Path

from cpugpu_tui.telemetry.text import printable

_CPUS = "sys/devices/system/cpu"
_CGROUPS = "sys/fs/cgroup"


def _text(root: str, path: str) -> str | None:
    """Return a file's content, None if it cannot be read."""
    try:
        return Path(root, path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _number(root: str, path: str) -> int | None:
    """Return the integer that a file holds, None for anything else."""
    text = (_text(root, path) or "").strip()
    return int(text) if text.isdecimal() else None


def _fields(text: str | None) -> dict[str, str]:
    """Return the first line of every key of a `key : value` or `key value` file (/proc/meminfo, memory.stat)."""
    found: dict[str, str] = {}
    for line in (text or "").splitlines():
        key, _, value = line.partition(":") if ":" in line else line.partition(" ")
        found.setdefault(key.strip(), value.strip())
    return found


def _cpu_list(text: str) -> tuple[int, ...]:
    """Return the numbers of a kernel list such as `0-2,8`; raise ValueError when it is none."""
    numbers: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    return tuple(numbers)


# ------------------------------------------------------------------ processor


def affinity_cores(root: str = "/") -> tuple[int, ...]:
    """Return the logical CPUs that this process may run on."""
    allowed = _fields(_text(root, "proc/self/status")).get("Cpus_allowed_list")
    # Some sandboxes' /proc leaves the line out; the system call works everywhere on Linux.
    return _cpu_list(allowed) if allowed else tuple(sorted(os.sched_getaffinity(0)))


def physical_cores(root: str = "/") -> int:
    """Return how many physical cores the affinity mask touches; a CPU of unknown topology counts as one."""
    lists = "topology/thread_siblings_list"
    return len({_text(root, f"{_CPUS}/cpu{cpu}/{lists}") or f"{cpu}" for cpu in affinity_cores(root)})


def default_threads(root: str = "/") -> int:
    """Return physical cores in the affinity mask, at most the cgroup quota, at least 1 (METHOD.md, "Who runs what")."""
    quota_cores = cpu_quota_cores(root)
    cores = physical_cores(root)
    return max(1, cores if quota_cores is None else min(cores, floor(quota_cores)))


def cpu_model(root: str = "/") -> str | None:
    """Return the processor's name, None where /proc/cpuinfo has none (many ARM machines)."""
    return printable(_fields(_text(root, "proc/cpuinfo")).get("model name", "")) or None


def cpu_freq_mhz(root: str = "/") -> float | None:
    """Return the clock of the fastest core now: idle cores would only hide what a busy one runs at.

    At most 16 cores are asked, evenly spread, because each answer may interrupt the core it is about.
    """
    cores = affinity_cores(root)
    asked = cores[:: max(1, len(cores) // 16)][:16]
    khz = [_number(root, f"{_CPUS}/cpu{cpu}/cpufreq/scaling_cur_freq") for cpu in asked]
    if known := [value for value in khz if value]:
        return max(known) / 1000
    # Without APERF/MPERF (most virtual machines) "cpu MHz" is a constant and says nothing about now.
    text = _text(root, "proc/cpuinfo") or ""
    if "aperfmperf" not in _fields(text).get("flags", "").split():
        return None
    mhz = [float(line.partition(":")[2]) for line in text.splitlines() if line.startswith("cpu MHz")]
    return max(mhz, default=None)


def last_level_cache_bytes(root: str = "/") -> int | None:
    """Return the size of the last-level caches of all cores in the affinity mask together, None if unknown.

    Processors made of chiplets have one per chiplet: emptying the caches means to stream more than their sum.
    """
    size_bytes_of: dict[str, int] = {}
    for cpu in affinity_cores(root):
        cache = f"{_CPUS}/cpu{cpu}/cache"
        levels = [(_number(root, f"{cache}/index{index}/level") or 0, index) for index in range(8)]
        level, index = max(levels)
        size = (_text(root, f"{cache}/index{index}/size") or "").strip()
        if level and size.endswith("K") and size[:-1].isdecimal():
            shared = _text(root, f"{cache}/index{index}/shared_cpu_list") or f"{cpu}"
            size_bytes_of[shared] = int(size[:-1]) * 1024
    return sum(size_bytes_of.values()) or None


def load_1min(root: str = "/") -> float | None:
    """Return the one-minute load average of the whole machine."""
    words = (_text(root, "proc/loadavg") or "").split()
    return float(words[0]) if words else None


def cpu_ticks(root: str = "/") -> tuple[int, int] | None:
    """Return (busy, all) clock ticks of the whole machine since boot: two of them make a `busy_pct`."""
    words = (_text(root, "proc/stat") or "").partition("\n")[0].split()
    if len(words) < 6 or words[0] != "cpu":
        return None
    # proc(5): user nice system idle iowait irq softirq steal; guest time, after those, is already in user.
    ticks = [int(word) for word in words[1:9]]
    idle = ticks[3] + ticks[4]
    return sum(ticks) - idle, sum(ticks)


def busy_ticks(cores: tuple[int, ...], root: str = "/") -> int | None:
    """Return the busy clock ticks of these logical CPUs since boot; None where the kernel does not tell."""
    wanted = {f"cpu{core}" for core in cores}
    lines = [line.split() for line in (_text(root, "proc/stat") or "").splitlines() if line.startswith("cpu")]
    # The fields of `cpu_ticks`, without idle and iowait; steal is another machine's work, not a neighbour's.
    busy = [int(words[1]) + int(words[2]) + int(words[3]) + int(words[6]) + int(words[7])
            for words in lines if words[0] in wanted and len(words) >= 8]  # fmt: skip
    return sum(busy) if busy else None


def busy_pct(before: tuple[int, int], after: tuple[int, int]) -> float | None:
    """Return the busy share between two `cpu_ticks`, 0 to 100; None when no tick has passed."""
    ticks = after[1] - before[1]
    # iowait is known to step back now and then (proc(5)), so a difference can leave 0..100.
    return min(100.0, max(0.0, 100 * (after[0] - before[0]) / ticks)) if ticks > 0 else None


# ------------------------------------------------------------------ cgroup limits


def _cgroup_folders(root: str, controller: str) -> Iterator[str]:
    """Yield the folders of this process's own cgroup and its parents, for v2 and for a v1 controller.

    A container often sees its host's path in /proc/self/cgroup but has its own group mounted at the
    top: folders that do not exist are yielded too, and read as nothing.
    """
    for line in (_text(root, "proc/self/cgroup") or "").splitlines():
        hierarchy, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if hierarchy != "0" and controller not in controllers.split(","):
            continue
        top = _CGROUPS if hierarchy == "0" else f"{_CGROUPS}/{controller}"
        # ".." stands for groups outside of the container's view.
        parts = [part for part in path.split("/") if part and part != ".."]
        for depth in range(len(parts), -1, -1):
            yield "/".join([top, *parts[:depth]])


def cpu_quota_cores(root: str = "/") -> float | None:
    """Return the cgroup CPU quota in cores (v2 `cpu.max`, v1 `cfs_quota`), the smallest of all levels; None if none."""
    quotas: list[float] = []
    for folder in _cgroup_folders(root, "cpu"):
        quota, _, period = (_text(root, f"{folder}/cpu.max") or "").strip().partition(" ")
        if quota.isdecimal() and period.isdecimal():
            quotas.append(int(quota) / int(period))
        quota_us = _number(root, f"{folder}/cpu.cfs_quota_us")
        period_us = _number(root, f"{folder}/cpu.cfs_period_us")
        if quota_us and period_us:
            quotas.append(quota_us / period_us)
    return min(quotas, default=None)


def _cgroup_rooms_bytes(root: str) -> Iterator[int]:
    """Yield how much each level of the memory cgroup still gives: limit − use + file cache it can drop.

    Where v1 has no limit this is a huge number, as its limit is then: 9223372036854771712.
    """
    v2 = ("memory.max", "memory.current", "inactive_file")
    v1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    for folder in _cgroup_folders(root, "memory"):
        for limit_name, used_name, cache_name in (v2, v1):
            limit_bytes = _number(root, f"{folder}/{limit_name}")
            used_bytes = _number(root, f"{folder}/{used_name}")
            if limit_bytes is not None and used_bytes is not None:
                cache = _fields(_text(root, f"{folder}/memory.stat")).get(cache_name, "")
                yield max(0, limit_bytes - used_bytes + (int(cache) if cache.isdecimal() else 0))


# ------------------------------------------------------------------ memory


def _meminfo_bytes(root: str, key: str) -> int | None:
    """Return a value of /proc/meminfo."""
    number = _fields(_text(root, "proc/meminfo")).get(key, "").partition(" ")[0]
    return int(number) * 1024 if number.isdecimal() else None


def memory_total_bytes(root: str = "/") -> int | None:
    """Return the machine's memory, whatever a cgroup allows of it."""
    return _meminfo_bytes(root, "MemTotal")


def memory_used_bytes(root: str = "/") -> int | None:
    """Return the machine's memory that no new program could have: total − MemAvailable."""
    total, available = memory_total_bytes(root), _meminfo_bytes(root, "MemAvailable")
    return None if total is None or available is None else total - available


def available_memory_bytes(root: str = "/") -> int | None:
    """Return what this process can still take: MemAvailable, or what its cgroup leaves if that is less."""
    available = _meminfo_bytes(root, "MemAvailable")
    return None if available is None else min([available, *_cgroup_rooms_bytes(root)])


# ------------------------------------------------------------------ processes


@lru_cache(maxsize=256)
def _user_name(uid: int) -> str:
    """Return the login of a user id, or the id itself. Cached: a directory service may take a second to answer."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _short_command(words: list[str]) -> str:
    """Return program and script of a command line; further arguments may hold secrets, and runs are kept and shared."""
    names = words[:1]
    if len(words) > 2 and words[1] == "-m":
        names = [words[0], words[2]]
    elif len(words) > 1 and not words[1].startswith("-"):
        names = words[:2]
    # A process may set a title of several words ("ray::worker"): only a path without a space is cut to its name.
    return " ".join(name if " " in name else name.rpartition("/")[2] or name for name in names)


def process_owner(pid: int, root: str = "/") -> tuple[str | None, str | None]:
    """Return (user, command) of a process, sanitised; (None, None) when it is gone or in another namespace."""
    status = _text(root, f"proc/{pid}/status")
    if status is None:
        return None, None
    # Not the folder's owner: that is root for a process that may not be traced.
    uid = _fields(status).get("Uid", "").partition("\t")[0]
    user = _user_name(int(uid)) if uid.isdecimal() else ""
    words = (_text(root, f"proc/{pid}/cmdline") or "").rstrip("\0").split("\0")
    command = _short_command(words) or (_text(root, f"proc/{pid}/comm") or "")
    return printable(user) or None, printable(command) or None
