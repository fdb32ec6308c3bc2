"""The compute processes of a GPU or of a MIG instance. Graphics processes take 4.5 ms to list: not asked for."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from cpugpu_tui.model import GpuProcess, Reading
from cpugpu_tui.telemetry.nvml.calls import ask, newest
from cpugpu_tui.telemetry.procfs import process_owner

_NAMES = ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2")


def compute_processes(nvml: Any, handle: Any, root: str) -> tuple[GpuProcess, ...] | None:
    """Return them by pid (`own` is set later), None when they cannot be listed; raise NVMLError when the GPU is lost.

    A pid that `root`/proc does not know keeps its row, without user and command: it is of another namespace.
    """
    found = ask(nvml, handle, lambda nvml, handle: newest(nvml, _NAMES, handle))
    if isinstance(found, Reading):
        return None
    return tuple(
        GpuProcess(process.pid, process.usedGpuMemory, *process_owner(process.pid, root), own=False)
        for process in sorted(found, key=lambda process: int(process.pid))
    )


def owned(processes: tuple[GpuProcess, ...] | None, own_pids: Collection[int]) -> tuple[GpuProcess, ...] | None:
    """Return the processes with ours marked: our agents come and go between two lists."""
    if processes is None:
        return None
    return tuple(replace(process, own=process.pid in own_pids) for process in processes)
