"""The compute processes of a GPU or of a MIG instance. Graphics processes take 4.5 ms to list: not asked for."""

from __future__ import annotations

import ctypes
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from cpugpu_tui.machine.limits import LIMITS, MOST_PROCESSES
from cpugpu_tui.machine.nvml.calls import ask
from cpugpu_tui.machine.nvml.returns import FUNCTION_MISSING, NO_NUMBERS
from cpugpu_tui.machine.procfs import process_owner
from cpugpu_tui.model import GpuProcess, Reading

_NAMES = ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2")
_LEAST, _MOST = LIMITS["memory_used_bytes"]


def running(nvml: Any, handle: Any) -> list[tuple[int, int | None]]:
    """Return pid and memory (None if unknown) of each compute process, by pid; raise NVMLError.

    Not nvidia-ml-py's own function: it makes room for as many processes as the driver says there are, which for
    2,000,000,000 of them is 96 GB.
    """
    for name in _NAMES:
        # Looked up in nvidia-ml-py first, which notes what a call that hangs waits for.
        function = getattr(nvml.nvmlLib, name, None) if hasattr(nvml, name) else None
        if function is not None:
            return _listed(nvml, function, handle)
    raise nvml.NVMLError(FUNCTION_MISSING)


def _listed(nvml: Any, function: Any, handle: Any) -> list[tuple[int, int | None]]:
    count = ctypes.c_uint(MOST_PROCESSES)
    found = (nvml.c_nvmlProcessInfo_v2_t * MOST_PROCESSES)()
    code = function(handle, ctypes.byref(count), found)
    if code != nvml.NVML_SUCCESS:
        raise nvml.NVMLError(code)
    if count.value > MOST_PROCESSES:
        raise nvml.NVMLError(nvml.NVML_ERROR_UNKNOWN)
    listed = ((int(each.pid), _memory_bytes(int(each.usedGpuMemory))) for each in found[: count.value])
    return sorted(listed, key=lambda each: each[0])


def _memory_bytes(told: int) -> int | None:
    return told if told not in NO_NUMBERS and _LEAST <= told <= _MOST else None


def compute_processes(nvml: Any, handle: Any, root: str) -> tuple[GpuProcess, ...] | None:
    """Return them by pid (`own` is set later), None when they cannot be listed; raise NVMLError when the GPU is lost.

    A pid that `root`/proc does not know keeps its row, without user and command: it is of another namespace.
    """
    found = ask(nvml, handle, running)
    if isinstance(found, Reading):
        return None
    return tuple(GpuProcess(pid, memory_bytes, *process_owner(pid, root), own=False) for pid, memory_bytes in found)


def owned(processes: tuple[GpuProcess, ...] | None, own_pids: Collection[int]) -> tuple[GpuProcess, ...] | None:
    """Return the processes with ours marked: our agents come and go between two lists."""
    if processes is None:
        return None
    return tuple(replace(process, own=process.pid in own_pids) for process in processes)
