"""Facts of the host from Linux: processor, limits, load, memory, energy, processes, driver version. Stdlib only.

Every function takes `root`, the folder that holds `proc` and `sys`, for tests and for containers that mount those of
their host. Values that the kernel does not report are None, never 0.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from math import floor
from pathlib import Path
from typing import NamedTuple

from cpugpu_tui import model
from cpugpu_tui.machine.limits import MOST_CPUS
from cpugpu_tui.machine.text import printable

_CPUS = "sys/devices/system/cpu"
_CGROUPS = "sys/fs/cgroup"
_LONGEST = 8 << 20
"""Most characters to read of a file: 1,024 cores take 1.5 million in /proc/cpuinfo; command lines have no limit."""


def hostname() -> str:
    """Return the name of this host. The module `socket` has it too, but takes 4 ms to import."""
    return os.uname().nodename


def file_text(root: str, path: str) -> str | None:
    """Return a file's content, or None if it cannot be read."""
    with suppress(OSError), open(Path(root, path), encoding="utf-8", errors="replace") as file:
        return file.read(_LONGEST)
    return None


def _whole(text: str) -> int | None:
    """Parse an integer of at most 64 bits; None for anything else."""
    return int(text) if text.isdecimal() and len(text) <= 20 else None


def _decimal(text: str) -> float | None:
    """Parse a number; None for anything else."""
    try:
        return float(text)
    except ValueError:
        return None


def _number(root: str, path: str) -> int | None:
    """Return the integer in a file; None for anything else."""
    return _whole((file_text(root, path) or "").strip())


def _fields(text: str | None) -> dict[str, str]:
    """Return the first value of every key of a `key : value` or `key value` file (/proc/meminfo, memory.stat)."""
    found: dict[str, str] = {}
    for line in (text or "").splitlines():
        key, _, value = line.partition(":") if ":" in line else line.partition(" ")
        found.setdefault(key.strip(), value.strip())
    return found


def _cpu_list(text: str) -> tuple[int, ...] | None:
    """Parse a kernel list such as `0-2,8`; None if it is invalid or has more than `MOST_CPUS`."""
    numbers: list[int] = []
    for part in filter(None, text.strip().split(",")):
        words = part.partition("-")
        first, last = _whole(words[0]), _whole(words[2] or words[0])
        if first is None or last is None or last - first >= MOST_CPUS or len(numbers) >= MOST_CPUS:
            return None
        numbers.extend(range(first, last + 1))
    return tuple(numbers)


# ------------------------------------------------------------------ processor


def boot_id(root: str = "/") -> str:
    """Return the kernel's id of this boot; empty if unknown."""
    return (file_text(root, "proc/sys/kernel/random/boot_id") or "").strip()


def affinity_cores(root: str = "/") -> tuple[int, ...]:
    """Return the logical CPUs that this process may run on."""
    allowed = _fields(file_text(root, "proc/self/status")).get("Cpus_allowed_list")
    # In some sandboxes /proc lacks the line; the system call works everywhere on Linux.
    return (_cpu_list(allowed) if allowed else None) or tuple(sorted(os.sched_getaffinity(0)))


def physical_cores(root: str = "/") -> int:
    """Return the number of physical cores in the affinity mask; a CPU of unknown topology counts as one."""
    lists = "topology/thread_siblings_list"
    return len({file_text(root, f"{_CPUS}/cpu{cpu}/{lists}") or f"{cpu}" for cpu in affinity_cores(root)})


def default_threads(root: str = "/") -> int:
    """Return the physical cores in the affinity mask, between 1 and the cgroup quota (method.md, "Who runs what")."""
    quota_cores = cpu_quota_cores(root)
    cores = physical_cores(root)
    return max(1, cores if quota_cores is None else min(cores, floor(quota_cores)))


def cpu_model(root: str = "/") -> str | None:
    """Return the processor's name, or None if /proc/cpuinfo has none (many ARM machines)."""
    return printable(_fields(file_text(root, "proc/cpuinfo")).get("model name", "")) or None


def cpu_freq_mhz(root: str = "/") -> float | None:
    """Return the current clock of the fastest core, because idle cores would hide that of a busy one.

    At most 16 evenly spread cores are read, because each reading may interrupt its core.
    """
    cores = affinity_cores(root)
    asked = cores[:: max(1, len(cores) // 16)][:16]
    khz = [_number(root, f"{_CPUS}/cpu{cpu}/cpufreq/scaling_cur_freq") for cpu in asked]
    if known := [value for value in khz if value]:
        return max(known) / 1000
    # Without APERF/MPERF (most virtual machines) "cpu MHz" is a constant, not the current clock.
    text = file_text(root, "proc/cpuinfo") or ""
    if "aperfmperf" not in _fields(text).get("flags", "").split():
        return None
    mhz = (_decimal(line.partition(":")[2]) for line in text.splitlines() if line.startswith("cpu MHz"))
    return max((value for value in mhz if value is not None), default=None)


def last_level_cache_bytes(root: str = "/") -> int | None:
    """Return the total size of the last-level caches of the cores in the affinity mask; None if unknown.

    Processors made of chiplets have one per chiplet, and emptying the caches takes more than their sum.
    """
    size_bytes_of: dict[str, int] = {}
    for cpu in affinity_cores(root):
        cache = f"{_CPUS}/cpu{cpu}/cache"
        levels = [(_number(root, f"{cache}/index{index}/level") or 0, index) for index in range(8)]
        level, index = max(levels)
        size = (file_text(root, f"{cache}/index{index}/size") or "").strip()
        size_kib = _whole(size.removesuffix("K"))
        if level and size.endswith("K") and size_kib is not None:
            shared = file_text(root, f"{cache}/index{index}/shared_cpu_list") or f"{cpu}"
            size_bytes_of[shared] = size_kib * 1024
    return sum(size_bytes_of.values()) or None


def load_1min(root: str = "/") -> float | None:
    """Return the one-minute load average of the whole machine."""
    words = (file_text(root, "proc/loadavg") or "").split()
    return _decimal(words[0]) if words else None


def cpu_ticks(root: str = "/") -> tuple[int, int] | None:
    """Return (busy, all) clock ticks of the whole machine since boot, for `busy_pct`."""
    words = (file_text(root, "proc/stat") or "").partition("\n")[0].split()
    if len(words) < 6 or words[0] != "cpu":
        return None
    # proc(5): user nice system idle iowait irq softirq steal; guest time, after those, is already in user.
    ticks = [number for number in map(_whole, words[1:9]) if number is not None]
    if len(ticks) < len(words[1:9]):
        return None
    idle = ticks[3] + ticks[4]
    return sum(ticks) - idle, sum(ticks)


def busy_pct(before: tuple[int, int], after: tuple[int, int]) -> float | None:
    """Return the busy share between two `cpu_ticks`, 0 to 100; None if no tick has passed."""
    ticks = after[1] - before[1]
    # iowait may decrease (proc(5)), so a difference can be outside 0 to 100.
    return min(100.0, max(0.0, 100 * (after[0] - before[0]) / ticks)) if ticks > 0 else None


# ------------------------------------------------------------------ cgroup limits


def _cgroup_folders(root: str, controller: str) -> Iterator[str]:
    """Yield the folders of this process's own cgroup and its parents, for v2 and for a v1 controller.

    A container often sees its host's path in /proc/self/cgroup, but its own group is mounted at the top. So folders
    that do not exist are yielded too, and have no values.
    """
    for line in (file_text(root, "proc/self/cgroup") or "").splitlines():
        hierarchy, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if hierarchy != "0" and controller not in controllers.split(","):
            continue
        top = _CGROUPS if hierarchy == "0" else f"{_CGROUPS}/{controller}"
        # ".." means groups that the container cannot see.
        parts = [part for part in path.split("/") if part and part != ".."]
        for depth in range(len(parts), -1, -1):
            yield "/".join([top, *parts[:depth]])


def cpu_quota_cores(root: str = "/") -> float | None:
    """Return the smallest cgroup CPU quota of all levels, in cores (v2 `cpu.max`, v1 `cfs_quota`); None without one."""
    quotas: list[float] = []
    for folder in _cgroup_folders(root, "cpu"):
        quota, _, period = (file_text(root, f"{folder}/cpu.max") or "").strip().partition(" ")
        if (most_us := _whole(quota)) is not None and (each_us := _whole(period)):
            quotas.append(most_us / each_us)
        quota_us = _number(root, f"{folder}/cpu.cfs_quota_us")
        period_us = _number(root, f"{folder}/cpu.cfs_period_us")
        if quota_us and period_us:
            quotas.append(quota_us / period_us)
    return min(quotas, default=None)


def cpu_throttled(root: str = "/") -> dict[str, tuple[int, float]]:
    """Return cgroup → (periods, ns) throttled by its CPU quota, for our own cgroup and its parents.

    Read from `cpu.stat`, which counts µs in v2 and ns in v1; empty without counters.
    """
    found: dict[str, tuple[int, float]] = {}
    for folder in _cgroup_folders(root, "cpu"):
        counted = _fields(file_text(root, f"{folder}/cpu.stat"))
        periods = counted.get("nr_throttled", "")
        for name, unit_ns in (("throttled_usec", 1e3), ("throttled_time", 1.0)):
            if periods.isdecimal() and counted.get(name, "").isdecimal():
                found[folder] = (int(periods), int(counted[name]) * unit_ns)
    return found


def _cgroup_rooms_bytes(root: str) -> Iterator[int]:
    """Yield the free memory of each level of the memory cgroup: limit − use + droppable file cache.

    Without a limit, v1 reports 9223372036854771712, so the result is huge too.
    """
    v2 = ("memory.max", "memory.current", "inactive_file")
    v1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    for folder in _cgroup_folders(root, "memory"):
        for limit_name, used_name, cache_name in (v2, v1):
            limit_bytes = _number(root, f"{folder}/{limit_name}")
            used_bytes = _number(root, f"{folder}/{used_name}")
            if limit_bytes is not None and used_bytes is not None:
                cache = _fields(file_text(root, f"{folder}/memory.stat")).get(cache_name, "")
                yield max(0, limit_bytes - used_bytes + (_whole(cache) or 0))


# ------------------------------------------------------------------ memory


def _meminfo_bytes(root: str, key: str) -> int | None:
    """Return a value of /proc/meminfo."""
    size_kib = _whole(_fields(file_text(root, "proc/meminfo")).get(key, "").partition(" ")[0])
    return None if size_kib is None else size_kib * 1024


def memory_total_bytes(root: str = "/") -> int | None:
    """Return the machine's memory, ignoring cgroup limits."""
    return _meminfo_bytes(root, "MemTotal")


def memory_used_bytes(root: str = "/") -> int | None:
    """Return the machine's used memory: total − MemAvailable."""
    total, available = memory_total_bytes(root), _meminfo_bytes(root, "MemAvailable")
    return None if total is None or available is None else total - available


def _address_rooms_bytes(root: str) -> Iterator[int]:
    """Yield the rest of this process's address space, if that is limited (`ulimit -v`)."""
    limit = re.search(r"^Max address space +(\d+)", file_text(root, "proc/self/limits") or "", re.MULTILINE)
    used_kib = _whole(_fields(file_text(root, "proc/self/status")).get("VmSize", "").partition(" ")[0])
    if limit is not None and used_kib is not None:
        yield max(0, int(limit[1]) - used_kib * 1024)


def available_memory_bytes(root: str = "/") -> int | None:
    """Return the memory that this process can still use: the least of MemAvailable and what its limits leave."""
    available = _meminfo_bytes(root, "MemAvailable")
    return None if available is None else min([available, *_cgroup_rooms_bytes(root), *_address_rooms_bytes(root)])


# ------------------------------------------------------------------ processes


@lru_cache(maxsize=256)
def _user_name(uid: int) -> str:
    """Return the login of a user id, or the id itself; cached, because a directory service may take a second."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError, OSError):
        return str(uid)


def _short_command(words: list[str]) -> str:
    """Return program and script of a command line, without arguments, which may contain secrets."""
    names = words[:1]
    if len(words) > 2 and words[1] == "-m":
        names = [words[0], words[2]]
    elif len(words) > 1 and not words[1].startswith("-"):
        names = words[:2]
    # Titles of several words ("ray::worker") stay; only a path without a space is shortened to its name.
    return " ".join(name if " " in name else name.rpartition("/")[2] or name for name in names)


def process_owner(pid: int, root: str = "/") -> tuple[str | None, str | None]:
    """Return (user, command) of a process, sanitised; (None, None) if it has ended or is in another namespace."""
    status = file_text(root, f"proc/{pid}/status")
    if status is None:
        return None, None
    # Not the folder's owner, which is root for processes that must not be traced.
    uid = _fields(status).get("Uid", "").partition("\t")[0]
    number = _whole(uid)
    user = _user_name(number) if number is not None else ""
    command = _short_command(command_words(pid, root)) or (file_text(root, f"proc/{pid}/comm") or "")
    return printable(user) or None, printable(command) or None


def command_words(pid: int, root: str = "/") -> list[str]:
    """Return the command line of a process; one empty word if it cannot be read."""
    return (file_text(root, f"proc/{pid}/cmdline") or "").rstrip("\0").split("\0")


class Process(NamedTuple):
    """One process at one moment."""

    command: str
    parent: int
    ticks: int
    """User and system time of all its threads since it started."""
    started_ticks: int
    """Start time, clock ticks since boot. It tells a process from a later one with the same id."""
    ended_ticks: int = 0
    """User and system time of its ended children."""
    has_ended: bool = False
    """Whether it has ended, and its parent never waited for it, as the first process of some containers."""


def read_process(pid: int, root: str = "/") -> Process | None:
    """Return a process; None if it cannot be read."""
    # The name stands in parentheses and may itself contain blanks and parentheses.
    head, _, rest = (file_text(root, f"proc/{pid}/stat") or "").rpartition(")")
    words = rest.split()
    # proc(5), counted from the state (field 3): ppid 1, utime 11, stime 12, cutime 13, cstime 14, starttime 19.
    try:
        parent, user, system, *ended, started = (int(words[place]) for place in (1, 11, 12, 13, 14, 19))
    except (IndexError, ValueError):
        return None
    return Process(printable(head.partition("(")[2], 40), parent, user + system, started, sum(ended), words[0] in "ZX")


DRIVER_VERSION = Path("/proc/driver/nvidia/version")
"""Its first line: `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build …`."""


def driver_version(path: Path = DRIVER_VERSION) -> str | None:
    """Return the version, such as `580.95.05`; None without a driver or with an unknown format."""
    first = (file_text("/", str(path)) or "").splitlines()[:1]
    found = re.search(r"\s(\d{3,4}(?:\.\d+)+)\s", " ".join(first) + " ")
    return found.group(1) if found else None


# ------------------------------------------------------------------ rapl


TICK_NS = 1e6
"""Approximate refresh interval of the counters."""

_FOLDER = "sys/class/powercap"
_MOST_UJ = 2**63
"""Limit of the kernel's 64-bit counters; present processors wrap at 262 kJ."""


class Rapl:
    """One counter for all processor packages, which starts at 0 and never wraps."""

    def __init__(self, root: str = "/") -> None:
        """Find the packages without reading their counters."""
        folder = Path(root) / _FOLDER
        # Skip parts (core, dram) and the platform (psys); intel-rapl-mmio:* repeats the same packages.
        try:
            found = sorted(folder.glob("intel-rapl:*"))
        except OSError:
            found = []
        self._packages = [path for path in found if (file_text("/", f"{path}/name") or "").startswith("package-")]
        self._last_uj: dict[Path, int] = {}
        self._total_uj = 0

    def energy_mj(self) -> model.Reading:
        """Return the energy since the first reading, mJ, or the reason why it cannot be read."""
        if not self._packages:
            return model.Reading(None, "not-supported")
        try:
            now_uj = {package: int((package / "energy_uj").read_text()) for package in self._packages}
        except PermissionError:
            return model.Reading(None, "no-permission")
        except (OSError, ValueError):
            return model.Reading(None, "not-supported")
        if not all(0 <= value <= _MOST_UJ for value in now_uj.values()):
            return model.Reading(None, "out-of-range")
        for package, value_uj in now_uj.items():
            step_uj = value_uj - self._last_uj.get(package, value_uj)
            # At 200 W a counter wraps about every 20 minutes (262 kJ).
            # With an unknown range, any value does that keeps the step positive.
            range_uj = _number("/", f"{package}/max_energy_range_uj") or 2**32
            self._total_uj += step_uj if step_uj >= 0 else step_uj + range_uj
        self._last_uj = now_uj
        return model.Reading(self._total_uj / 1e3)
