"""How the host is set up, asked once by `doctor`: threads, nodes, governor, PCI, other runs of ours.

As in `procfs`, `root` is the folder under which `proc` and `sys` are found; what a kernel does not tell is None.
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
"""NVIDIA's vendor number on the PCI bus."""


@dataclass(frozen=True)
class HostSetup:
    """The processor as this process may use it."""

    architecture: str = ""
    """Like `x86_64`."""
    logical_cores: int = 0
    """Within the affinity mask."""
    physical_cores: int = 0
    """Touched by the affinity mask."""
    quota_cores: float | None = None
    """Of the cgroup; None without one."""
    threads: int = 0
    """What a run uses by default."""
    smt: bool | None = None
    """Whether two threads share a core."""
    numa_nodes: tuple[int, ...] = ()
    """Nodes whose CPUs the affinity mask touches; empty if unknown."""
    governor: str | None = None
    """Of the first CPU in the mask, `mixed` where others differ."""
    frequency_driver: str | None = None
    """Like `intel_pstate`: its `powersave` is not the old one."""
    frequency_mhz: float | None = None
    """Of the fastest core now."""


@dataclass(frozen=True)
class OwnRun:
    """Another process of this very program."""

    pid: int
    user: str | None
    command: str | None


def host_setup(root: str = "/") -> HostSetup:
    """Read all of it."""
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
    """Return whether an NVIDIA display or 3D controller is on the PCI bus."""
    return any(
        _line(root, f"{device}/vendor") == _NVIDIA and (_line(root, f"{device}/class") or "").startswith("0x03")
        for device in Path(root, "sys/bus/pci/devices").glob("*")
    )


def own_runs(root: str = "/", me: int | None = None) -> tuple[OwnRun, ...]:
    """Return other processes of this program, without agents (their controllers stand for them) and our own family."""
    me = os.getpid() if me is None else me
    family = {me, *_ancestors(root, me)}
    found = {pid for pid in _pids(root) if _is_ours(_words(root, pid))}
    children = {pid for pid in found if _parent(root, pid) in found | {me}}
    return tuple(OwnRun(pid, *procfs.process_owner(pid, root)) for pid in sorted(found - children - family))


def _is_ours(words: list[str]) -> bool:
    """Return whether a command line is `cpugpu-tui …` or `python … -m cpugpu_tui …`, also through its script."""
    if "-m" in words[:6]:
        module = words[words.index("-m") + 1 :][:1]
        return bool(module) and module[0].split(".")[0] == "cpugpu_tui"
    program = [word.rpartition("/")[2] for word in words[:2]]
    # `vim cpugpu-tui` is not one: the second word counts behind an interpreter only.
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
    # proc(5): the command may hold blanks and brackets; state and parent follow its last bracket.
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
