"""The setup of the host for `doctor`: threads, NUMA nodes, governor, PCI bus and concurrent runs.

As in `procfs`, `root` is the folder that holds `proc` and `sys`. Values that the kernel does not report are None.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cpugpu_tui.machine import procfs

_CPUS = "sys/devices/system/cpu"
_NVIDIA = "0x10de"
"""NVIDIA's PCI vendor id."""


@dataclass(frozen=True)
class HostSetup:
    """The processor, as far as this process may use it."""

    architecture: str = ""
    """Such as `x86_64`."""
    logical_cores: int = 0
    """In the affinity mask."""
    physical_cores: int = 0
    """Cores with a logical core in the affinity mask."""
    quota_cores: float | None = None
    """CPU quota of the cgroup; None without one."""
    threads: int = 0
    """Threads that a run uses by default."""
    smt: bool | None = None
    """Whether two hardware threads share a core."""
    numa_nodes: tuple[int, ...] = ()
    """Nodes of the CPUs in the affinity mask; empty if unknown."""
    governor: str | None = None
    """Frequency governor, or `mixed` if the CPUs in the mask differ."""
    frequency_driver: str | None = None
    """Such as `intel_pstate`."""
    frequency_mhz: float | None = None
    """Current frequency of the fastest core."""


@dataclass(frozen=True)
class OwnRun:
    """Another running process of this program."""

    pid: int
    user: str | None
    command: str | None


def host_setup(root: str = "/") -> HostSetup:
    """Read the setup of the host."""
    cores = procfs.affinity_cores(root)
    governors = {_line(root, f"{_CPUS}/cpu{core}/cpufreq/scaling_governor") for core in cores} - {None}
    return HostSetup(
        architecture=platform.machine(),
        logical_cores=len(cores),
        physical_cores=procfs.physical_cores(root),
        quota_cores=procfs.cpu_quota_cores(root),
        threads=procfs.default_threads(root),
        smt={"1": True, "0": False}.get(_line(root, f"{_CPUS}/smt/active") or ""),
        numa_nodes=_numa_nodes(root, frozenset(cores)),
        governor="mixed" if len(governors) > 1 else next(iter(governors), None),
        frequency_driver=_line(root, f"{_CPUS}/cpu{cores[0]}/cpufreq/scaling_driver") if cores else None,
        frequency_mhz=procfs.cpu_freq_mhz(root),
    )


def has_nvidia_gpu(root: str = "/") -> bool:
    """Return whether the PCI bus has an NVIDIA display or 3D controller."""
    return any(
        _line(root, f"{device}/vendor") == _NVIDIA and (_line(root, f"{device}/class") or "").startswith("0x03")
        for device in Path(root, "sys/bus/pci/devices").glob("*")
    )


def own_runs(root: str = "/", me: int | None = None) -> tuple[OwnRun, ...]:
    """Return other processes of this program, except agents and our own parents and children."""
    me = os.getpid() if me is None else me
    family = {me, *_ancestors(root, me)}
    found = {pid for pid in _pids(root) if _is_ours(_words(root, pid))}
    children = {pid for pid in found if _parent(root, pid) in found | {me}}
    return tuple(OwnRun(pid, *procfs.process_owner(pid, root)) for pid in sorted(found - children - family))


def _is_ours(words: list[str]) -> bool:
    """Return whether a command line runs `cpugpu-tui …` or `python … -m cpugpu_tui …`."""
    if "-m" in words[:6]:
        module = words[words.index("-m") + 1 :][:1]
        return bool(module) and module[0].split(".")[0] == "cpugpu_tui"
    program = [word.rpartition("/")[2] for word in words[:2]]
    # `vim cpugpu-tui` does not count: the second word matters only after an interpreter.
    return bool(program) and (
        program[0] == "cpugpu-tui" or (program[0].startswith("python") and "cpugpu-tui" in program)
    )


def _words(root: str, pid: int) -> list[str]:
    try:
        data = Path(root, f"proc/{pid}/cmdline").read_bytes()
    except OSError:
        return []
    return data.decode("utf-8", "replace").rstrip("\0").split("\0")


def _pids(root: str) -> Iterator[int]:
    try:
        names = os.listdir(Path(root, "proc"))
    except OSError:
        return
    yield from (int(name) for name in names if name.isdecimal())


def _parent(root: str, pid: int) -> int | None:
    try:
        stat = Path(root, f"proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # proc(5): the command may contain blanks and brackets; state and parent follow its last bracket.
    fields = stat[stat.rfind(b")") + 1 :].split()
    return int(fields[1]) if len(fields) > 1 and fields[1].isdigit() else None


def _ancestors(root: str, pid: int) -> Iterator[int]:
    seen = {pid}
    while (parent := _parent(root, pid)) and parent not in seen:
        seen.add(parent)
        yield parent
        pid = parent


def _numa_nodes(root: str, cores: frozenset[int]) -> tuple[int, ...]:
    nodes: set[int] = set()
    for link in Path(root, "sys/devices/system/node").glob("node[0-9]*/cpu[0-9]*"):
        if int(link.name.removeprefix("cpu")) in cores:
            nodes.add(int(link.parent.name.removeprefix("node")))
    return tuple(sorted(nodes))


def _line(root: str, path: str) -> str | None:
    """Return the stripped text of a file, None if it cannot be read or is empty."""
    try:
        return Path(root, path).read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None
