"""MIG: the slices of a GPU, each with a memory, a UUID and processes of its own."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from cpugpu_tui.machine.limits import MOST_SLICES, plausible
from cpugpu_tui.machine.nvml.calls import Call, ask, memory_readings, text
from cpugpu_tui.machine.nvml.processes import compute_processes, owned
from cpugpu_tui.model import GpuProcess, MigInstance, Reading

WHOLE_GPU_ONLY = frozenset(
    ("kernel_active_pct", "memory_active_pct", "nvlink_links", "nvlink_tx_bytes_per_s", "nvlink_rx_bytes_per_s")
)
"""What a GPU in MIG mode refuses because of it: there `not-supported` is `mig`."""


def explained(key: str, reading: Reading, is_mig: bool) -> Reading:
    """Return the reading, with MIG named where it is what stands in the way."""
    return Reading(None, "mig") if is_mig and key in WHOLE_GPU_ONLY and reading.reason == "not-supported" else reading


def is_mig(nvml: Any, handle: Any) -> bool:
    """Return whether the GPU is cut into slices now."""
    mode = ask(nvml, handle, lambda nvml, handle: nvml.nvmlDeviceGetMigMode(handle)[0])
    return not isinstance(mode, Reading) and mode == nvml.NVML_DEVICE_MIG_ENABLE


@dataclass(frozen=True)
class Slice:
    """A MIG instance as it was found; its memory is read at every sample."""

    index: int
    handle: Any
    uuid: str | None
    name: str
    processes: tuple[GpuProcess, ...] | None

    def read(self, nvml: Any, own_pids: Collection[int]) -> MigInstance:
        """Return it with its memory now."""
        memory = memory_readings(nvml, self.handle)
        readings = {key: plausible(key, memory[key]) for key in ("memory_used_bytes", "memory_total_bytes")}
        return MigInstance(self.index, self.uuid, self.name, readings, owned(self.processes, own_pids))


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
