"""The compute processes of a GPU with their shares, and its MIG slices with their own memory, UUID and processes.

Graphics processes are not listed, because that takes 4.5 ms."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from cpugpu_tui.machine.limits import LIMITS, MOST_PROCESSES, MOST_SLICES, plausible
from cpugpu_tui.machine.nvml.calls import FUNCTION_MISSING, NO_NUMBERS, NOT_FOUND, Call, ask, memory_readings, text
from cpugpu_tui.machine.procfs import Process, process_owner, read_process
from cpugpu_tui.model import GpuProcess, MigInstance, Reading

_NAMES = ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2")
_SHARES = "nvmlDeviceGetProcessUtilization"
_LEAST, _MOST = LIMITS["memory_used_bytes"]


def running(nvml: Any, handle: Any) -> list[tuple[int, int | None]]:
    """Return pid and memory (None if unknown) of each compute process, by pid; raise NVMLError.

    This replaces nvidia-ml-py's function, which allocates room for as many processes as the driver reports: 96 GB for
    2,000,000,000 of them.
    """
    for name in _NAMES:
        # The lookup in nvidia-ml-py records the function, to name it if the call hangs.
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
    """Return them by pid (`own` is set later), or None if they cannot be listed; raise NVMLError if the GPU is lost.

    A pid that is not in `root`/proc belongs to another namespace and has no user and command.
    """
    found = ask(nvml, handle, running)
    if isinstance(found, Reading):
        return None
    return tuple(GpuProcess(pid, memory_bytes, *process_owner(pid, root), own=False) for pid, memory_bytes in found)


def owned(processes: tuple[GpuProcess, ...] | None, own_pids: Collection[int]) -> tuple[GpuProcess, ...] | None:
    """Return the processes with ours marked."""
    if processes is None:
        return None
    return tuple(replace(process, own=process.pid in own_pids) for process in processes)


class ProcessUse:
    """GPU and CPU share of the processes on one GPU, between two readings of the slow tier."""

    def __init__(self, root: str) -> None:
        """`root` is the folder that holds `proc`."""
        self._root = root
        self._cpu: dict[int, Process] = {}
        self._readings: dict[int, dict[str, Reading]] = {}
        self._read_s = float("-inf")

    def read(self, nvml: Any, handle: Any, pids: Collection[int], now_s: float, now_us: int, why_not: str) -> None:
        """Read the shares of these processes; raise NVMLError if the GPU is lost.

        `why_not` is the reason why the driver is not asked for GPU shares; empty to ask it.
        """
        elapsed_s, before, self._read_s = now_s - self._read_s, self._cpu, now_s
        self._cpu = {pid: found for pid in pids if (found := read_process(pid, self._root)) is not None}
        busy: Any = Reading(None, why_not)
        if pids and not why_not:
            # Of the first reading, too, only the last seconds count.
            since_us = now_us - int(min(elapsed_s, LONGEST_WINDOW_S) * 1e6)
            busy = ask(nvml, handle, lambda nvml, handle: kernel_shares(nvml, handle, since_us))
        self._readings = {
            pid: {
                "kernel_active_pct": busy if isinstance(busy, Reading) else busy.get(pid, Reading(None, "no-sample")),
                "cpu_cores": cores_used(before.get(pid), self._cpu.get(pid), elapsed_s),
            }
            for pid in pids
        }  # fmt: skip

    def of(self, processes: tuple[GpuProcess, ...] | None, now_s: float) -> tuple[GpuProcess, ...] | None:
        """Return the processes with their shares, aged."""
        if processes is None:
            return None
        age_s = now_s - self._read_s

        def aged(pid: int) -> dict[str, Reading]:
            return {key: replace(each, age_s=age_s) for key, each in self._readings.get(pid, {}).items()}

        return tuple(replace(process, readings=aged(process.pid)) for process in processes)


LONGEST_WINDOW_S = 6.0
"""Longest time that a GPU share covers."""


def kernel_shares(nvml: Any, handle: Any, since_us: int) -> dict[int, Reading]:
    """Return pid → share of time with its kernels in the driver's newest sample; raise NVMLError.

    The driver has samples only of processes that worked since `since_us` (µs since the epoch). As in `running`, the
    buffer has a fixed length; places that the driver leaves empty have no time stamp.
    """
    function = getattr(nvml.nvmlLib, _SHARES, None) if hasattr(nvml, _SHARES) else None
    if function is None:
        raise nvml.NVMLError(FUNCTION_MISSING)
    count = ctypes.c_uint(MOST_PROCESSES)
    found = (nvml.c_nvmlProcessUtilizationSample_t * MOST_PROCESSES)()
    code = function(handle, found, ctypes.byref(count), ctypes.c_ulonglong(since_us))
    if code == NOT_FOUND:
        return {}
    if code != nvml.NVML_SUCCESS:
        raise nvml.NVMLError(code)
    samples = [each for each in found[: min(count.value, MOST_PROCESSES)] if each.timeStamp > since_us]
    newest = {each.pid: each for each in sorted(samples, key=lambda each: int(each.timeStamp))}
    return {int(pid): plausible("kernel_active_pct", Reading(float(each.smUtil))) for pid, each in newest.items()}


def cores_used(before: Process | None, after: Process | None, elapsed_s: float) -> Reading:
    """Return the cores that a process used between two moments, or the reason why they are unknown."""
    if after is None:
        return Reading(None, "unresolved")
    if before is None or before.started_ticks != after.started_ticks or elapsed_s <= 0:
        return Reading(None, "not-yet")
    return plausible("cpu_cores", Reading(max(0, after.ticks - before.ticks) / os.sysconf("SC_CLK_TCK") / elapsed_s))


WHOLE_GPU_ONLY = frozenset(
    ("kernel_active_pct", "memory_active_pct", "nvlink_links", "nvlink_tx_bytes_per_s", "nvlink_rx_bytes_per_s")
)
"""Values that a GPU in MIG mode does not support; their reason becomes `mig`."""


def explained(key: str, reading: Reading, is_mig: bool) -> Reading:
    """Return the reading, with the reason `mig` if MIG mode makes it unsupported."""
    return Reading(None, "mig") if is_mig and key in WHOLE_GPU_ONLY and reading.reason == "not-supported" else reading


def is_mig(nvml: Any, handle: Any) -> bool:
    """Return whether the GPU is in MIG mode."""
    mode = ask(nvml, handle, lambda nvml, handle: nvml.nvmlDeviceGetMigMode(handle)[0])
    return not isinstance(mode, Reading) and mode == nvml.NVML_DEVICE_MIG_ENABLE


@dataclass(frozen=True)
class Slice:
    """A MIG instance; its memory is read at every sample."""

    index: int
    handle: Any
    uuid: str | None
    name: str
    processes: tuple[GpuProcess, ...] | None

    def read(self, nvml: Any, own_pids: Collection[int], use: ProcessUse, now_s: float) -> MigInstance:
        """Return the instance with its current memory; `use` holds the shares of its processes."""
        memory = memory_readings(nvml, self.handle)
        readings = {key: plausible(key, memory[key]) for key in ("memory_used_bytes", "memory_total_bytes")}
        return MigInstance(self.index, self.uuid, self.name, readings, owned(use.of(self.processes, now_s), own_pids))


def _place(index: int) -> Call:
    """Return the call for the instance at one place; most places are empty."""
    return lambda nvml, parent: nvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, index)


def find_slices(nvml: Any, handle: Any, root: str) -> tuple[Slice, ...]:
    """Return the instances of a GPU in MIG mode; places without one are skipped."""
    places = ask(nvml, handle, lambda nvml, handle: nvml.nvmlDeviceGetMaxMigDeviceCount(handle))
    slices: list[Slice] = []
    for index in range(0 if isinstance(places, Reading) else min(int(places), MOST_SLICES)):
        found = ask(nvml, handle, _place(index))
        if isinstance(found, Reading):
            continue
        uuid = text(nvml, found, lambda nvml, found: nvml.nvmlDeviceGetUUID(found))
        name = text(nvml, found, lambda nvml, found: nvml.nvmlDeviceGetName(found))
        slices.append(Slice(index, found, uuid, name or f"MIG {index}", compute_processes(nvml, found, root)))
    return tuple(slices)
