"""One GPU, which may be lost and come back."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

from cpugpu_tui.machine.nvml.calls import NO_PERMISSION, ask, gpu_problem, text, throttle_words
from cpugpu_tui.machine.nvml.fields import Gpm
from cpugpu_tui.machine.nvml.processes import Slice, compute_processes, explained, find_slices, is_mig, owned
from cpugpu_tui.machine.nvml.values import KEYS, FastTier, SlowTier, pcie_most_bytes_per_s
from cpugpu_tui.model import GpuProcess, GpuTelemetry, Reading

SLOW_S = 5.0
"""Interval for limits, names and processes, and for retries of a lost GPU or a missing driver."""

_VITAL_KEYS = (
    "kernel_active_pct",
    "memory_used_bytes",
    "sm_clock_mhz",
    "memory_clock_mhz",
    "power_mw",
    "temperature_c",
)
"""A number for any of them means that the GPU answers; no permission for all of them, no permission for the GPU."""


class Gpu:
    """One GPU, by NVML's index."""

    def __init__(self, index: int, root: str, gpm: bool, wall_us: Callable[[], int]) -> None:
        """`root` is the folder that holds `proc`, `gpm` enables GPM, `wall_us` is the clock of the driver's stamps."""
        self.index = index
        self._root = root
        self._wants_gpm = gpm
        self._wall_us = wall_us
        self._name = f"GPU {index}"
        self._uuid: str | None = None
        self._pci_bus_id: str | None = None
        self._minor: int | None = None
        self.answered = False
        """Whether the last sample had any vital number."""
        self._forget()

    def _forget(self) -> None:
        """Drop the handle and its values, but keep the GPU's identity."""
        self._handle: Any = None
        self._tried_s = float("-inf")
        self._problem, self._reason = "", "not-yet"
        self._fast = FastTier(Gpm() if self._wants_gpm else None)
        self._slow = SlowTier()
        self._is_mig = False
        self._slices: tuple[Slice, ...] = ()
        self._processes: tuple[GpuProcess, ...] | None = None
        self._persistence: bool | None = None

    def detach(self, nvml: Any) -> None:
        """Release what the session holds for this GPU."""
        with suppress(Exception):  # GPM samples that cannot be freed do not matter here
            self._fast.close(nvml)
        self._forget()

    def refresh(self, nvml: Any, now_s: float, quiet: bool) -> None:
        """Open the GPU if necessary, and read the slow tier if it is due."""
        if now_s - self._tried_s < SLOW_S:
            return
        self._tried_s = now_s
        try:
            self._read_slow(nvml, now_s, quiet)
        except Exception as error:  # noqa: BLE001 - the other GPUs must still be read
            self._lose(nvml, error)

    def glance(self, nvml: Any) -> bool:
        """Read counters that need two readings close together; return whether `read` should follow after 20 ms."""
        try:
            return self._handle is not None and self._fast.glance(nvml, self._handle, self._wall_us())
        except Exception as error:  # noqa: BLE001 - as above
            self._lose(nvml, error)
            return False

    def read(self, nvml: Any, now_s: float, own_pids: Collection[int]) -> GpuTelemetry:
        """Return this GPU's row; errors of the driver become reasons."""
        self.answered = False
        try:
            if self._handle is not None:
                return self._row(nvml, now_s, own_pids)
        except Exception as error:  # noqa: BLE001 - as above
            self._lose(nvml, error)
        return self._unreadable_row(self._reason)

    def _lose(self, nvml: Any, error: Exception) -> None:
        """Note why this GPU cannot be read, and reopen it at the next attempt."""
        tried_s = self._tried_s
        self.detach(nvml)
        self._tried_s = tried_s
        self._reason, self._problem = gpu_problem(error, self.index, self._minor)

    def _read_slow(self, nvml: Any, now_s: float, quiet: bool) -> None:
        """Get the handle if necessary, and read the slow tier; raise NVMLError if the GPU is lost."""
        if self._handle is None:
            handle = nvml.nvmlDeviceGetHandleByIndex(self.index)
            name = text(nvml, handle, lambda nvml, handle: nvml.nvmlDeviceGetName(handle))
            uuid = text(nvml, handle, lambda nvml, handle: nvml.nvmlDeviceGetUUID(handle))
            bus_id = text(nvml, handle, lambda nvml, handle: nvml.nvmlDeviceGetPciInfo(handle).busId)
            # Not NVML's index: in a container, GPU 0 may be /dev/nvidia3.
            minor = ask(nvml, handle, lambda nvml, handle: nvml.nvmlDeviceGetMinorNumber(handle))
            self._minor = self._minor if isinstance(minor, Reading) else int(minor)
            self._handle, self._name = handle, name or self._name
            self._uuid, self._pci_bus_id = uuid or self._uuid, bus_id or self._pci_bus_id
        self._slow.read(nvml, self._handle, quiet, now_s, self._wall_us())
        self._is_mig = is_mig(nvml, self._handle)
        self._slices = find_slices(nvml, self._handle, self._root) if self._is_mig else ()
        self._processes = compute_processes(nvml, self._handle, self._root)
        mode = ask(nvml, self._handle, lambda nvml, handle: nvml.nvmlDeviceGetPersistenceMode(handle))
        self._persistence = None if isinstance(mode, Reading) else mode == nvml.NVML_FEATURE_ENABLED

    def _row(self, nvml: Any, now_s: float, own_pids: Collection[int]) -> GpuTelemetry:
        """Return the row of a GPU that answers."""
        slow = self._slow
        most_per_s = pcie_most_bytes_per_s(slow.value("pcie_max_generation"), slow.value("pcie_max_width"))
        fast = self._fast.read(nvml, self._handle, slow.links, most_per_s, now_s, self._wall_us())
        instances = tuple(each.read(nvml, own_pids) for each in self._slices)
        vital = [fast[key] for key in _VITAL_KEYS]
        self.answered = any(reading.value is not None for reading in vital)
        readings = {
            key: explained(key, reading, self._is_mig) for key, reading in (fast | slow.readings(now_s)).items()
        }
        denied = all(reading.reason == "no-permission" for reading in vital)
        return GpuTelemetry(
            index=self.index,
            uuid=self._uuid,
            name=self._name,
            pci_bus_id=self._pci_bus_id,
            readings={key: readings[key] for key in KEYS},
            throttle=throttle_words(readings["throttle_bits"].value),
            processes=owned(self._in_no_slice(), own_pids),
            problem=gpu_problem(nvml.NVMLError(NO_PERMISSION), self.index, self._minor)[1] if denied else None,
            instances=instances,
            persistence=self._persistence,
        )

    def _in_no_slice(self) -> tuple[GpuProcess, ...] | None:
        """Return the processes outside all slices, because the driver's list of a GPU repeats those of its slices."""
        if self._processes is None:
            return None
        sliced = {process.pid for each in self._slices for process in each.processes or ()}
        return tuple(process for process in self._processes if process.pid not in sliced)

    def silent_row(self) -> GpuTelemetry:
        """Return the row of a GPU that is skipped because a call for it hangs."""
        self.answered = False
        return self._unreadable_row("timeout")

    def _unreadable_row(self, reason: str) -> GpuTelemetry:
        """Return the row of a GPU that is lost or may not be opened."""
        readings = {key: Reading(None, reason) for key in KEYS}
        return GpuTelemetry(
            self.index, self._uuid, self._name, self._pci_bus_id, readings, problem=self._problem or None
        )
