"""All GPUs through one session with the driver; it reopens when the driver or GPUs come back."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Container
from contextlib import suppress
from typing import Any, NamedTuple

from cpugpu_tui.machine.limits import MOST_GPUS
from cpugpu_tui.machine.nvml import calls
from cpugpu_tui.machine.nvml.counters import Gpm
from cpugpu_tui.machine.nvml.processes import (
    ProcessUse,
    Slice,
    compute_processes,
    explained,
    find_slices,
    is_mig,
    owned,
)
from cpugpu_tui.machine.nvml.values import KEYS, FastTier, SlowTier, pcie_most_bytes_per_s
from cpugpu_tui.model import GpuProcess, GpuTelemetry, Reading

PCIE_WINDOW_S = 0.02
"""Time between the two readings of a PCIe rate if its counters have 32 bits. These wrap after 68 ms at generation 5
with 16 lanes, so two samples are too far apart. nvmlDeviceGetPcieThroughput measures as long, but blocks the driver for
each direction of each GPU; we sleep once for all GPUs."""


def _wall_us() -> int:
    """Return the clock of the driver's stamps."""
    return time.time_ns() // 1000


class Waiting(NamedTuple):
    """The current call, or the last one."""

    gpu_index: int | None
    """None for calls to the driver as a whole."""
    function: str
    since_s: float
    """`time.monotonic`."""


class _TracedNvml:
    """Wrapper of pynvml that records the last function, to name it if its call hangs."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self.waiting = Waiting(None, "", time.monotonic())
        self.gpu_index: int | None = None

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._library, name)
        if name.startswith("nvml") and callable(value):
            self.waiting = Waiting(self.gpu_index, name, time.monotonic())
        return value


class Nvml:
    """One NVML session.

    Use it from one thread only: `nvmlShutdown` of the last session during another call crashes the process.
    """

    def __init__(
        self, root: str = "/", clock_s: Callable[[], float] = time.monotonic, gpm: bool = False,
        pause: Callable[[float], None] = time.sleep, without: Container[int] = (),
    ) -> None:  # fmt: skip
        """`root` is the folder that holds `proc`; `gpm` adds SM occupancy, tensor and DRAM activity (0.7 ms a sample).

        GPUs in `without` are skipped; their rows say that they do not answer.
        """
        self._root = root
        self._clock_s = clock_s
        self._gpm = gpm
        self._pause = pause
        self._without = without
        self._traced: _TracedNvml | None = None
        self._nvml: Any = None
        self._gpus: list[Gpu] = []
        self._problem: str | None = None
        self._tried_s = float("-inf")

    def read(self, own_pids: Collection[int] = (), quiet: bool = False) -> tuple[tuple[GpuTelemetry, ...], str | None]:
        """Return a row per GPU, and a problem (one sentence of cause, one of remedy) if no GPU can be read.

        Processes in `own_pids`, and this process, are marked as ours. `quiet` skips values that cost the driver more
        than 0.2 ms, except GPM. Takes 20 ms, mostly asleep. Errors of the driver become reasons or the problem.
        """
        now_s = self._clock_s()
        # Without a single value the driver may have been unloaded or reset, which requires a new session.
        if not any(gpu.answered for gpu in self._gpus) and now_s - self._tried_s >= SLOW_S:
            self._tried_s = now_s
            self._open()
        if self._nvml is None:
            return (), self._problem
        asked = [gpu for gpu in self._gpus if gpu.index not in self._without]
        for gpu in asked:
            gpu.refresh(self._for(gpu), now_s, quiet)  # up to 18 ms each, so not between the two PCIe readings
        if any([gpu.glance(self._for(gpu)) for gpu in asked]):  # all of them, then one pause
            self._pause(PCIE_WINDOW_S)
        own = {os.getpid(), *own_pids}
        rows = tuple(gpu.read(self._for(gpu), now_s, own) if gpu in asked else gpu.silent_row() for gpu in self._gpus)
        return rows, None if rows else calls.NO_GPU

    @property
    def waiting(self) -> Waiting | None:
        """The call that may hang; None before the first. Read it from another thread."""
        return self._traced.waiting if self._traced is not None else None

    @property
    def gpu_count(self) -> int:
        """Number of GPUs that the driver has listed so far."""
        return len(self._gpus)

    def _for(self, gpu: Gpu) -> Any:
        """Return pynvml, with calls recorded for this GPU."""
        self._nvml.gpu_index = gpu.index
        return self._nvml

    def close(self) -> None:
        """Close the session with the driver; a later `read` opens another."""
        if self._nvml is not None:
            self._nvml.gpu_index = None
            for gpu in self._gpus:
                gpu.detach(self._nvml)
                gpu.answered = False
            with suppress(Exception):
                self._nvml.nvmlShutdown()
        self._nvml = None

    def _open(self) -> None:
        """Open a session, or set the problem; GPUs keep their rows and names, because a lost GPU has no name."""
        self.close()
        try:
            import pynvml
        except ImportError:
            self._problem = calls.NO_PYNVML
            return
        traced = self._traced = _TracedNvml(pynvml)
        try:
            traced.nvmlInit()
            self._nvml = traced
            count = traced.nvmlDeviceGetCount()
        except Exception as error:  # noqa: BLE001 - a broken library raises anything
            self.close()
            self._problem = calls.driver_problem(error)
            return
        if count > MOST_GPUS:
            self.close()
            self._problem = calls.count_problem(count)
            return
        self._gpus += [Gpu(index, self._root, self._gpm) for index in range(len(self._gpus), count)]


SLOW_S = 5.0
"""Interval for limits, names and processes, and for retries of a lost GPU or a missing driver."""

_VITAL_KEYS = (
    "kernel_active_pct", "memory_used_bytes", "sm_clock_mhz", "memory_clock_mhz", "power_mw", "temperature_c",
)  # fmt: skip
"""If any of them has a number, the GPU answers. If all of them lack permission, so does the whole GPU."""


class Gpu:
    """One GPU, by NVML's index."""

    def __init__(self, index: int, root: str, gpm: bool) -> None:
        """`root` is the folder that holds `proc`; `gpm` enables GPM."""
        self.index = index
        self._root = root
        self._wants_gpm = gpm
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
        self._use = ProcessUse(self._root)
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
            return self._handle is not None and self._fast.glance(nvml, self._handle, _wall_us())
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
        self._reason, self._problem = calls.gpu_problem(error, self.index, self._minor)

    def _read_slow(self, nvml: Any, now_s: float, quiet: bool) -> None:
        """Get the handle if necessary, and read the slow tier; raise NVMLError if the GPU is lost."""
        if self._handle is None:
            handle = nvml.nvmlDeviceGetHandleByIndex(self.index)
            name = calls.text(nvml, handle, lambda nvml, handle: nvml.nvmlDeviceGetName(handle))
            uuid = calls.text(nvml, handle, lambda nvml, handle: nvml.nvmlDeviceGetUUID(handle))
            bus_id = calls.text(nvml, handle, lambda nvml, handle: nvml.nvmlDeviceGetPciInfo(handle).busId)
            # Not NVML's index: in a container, GPU 0 may be /dev/nvidia3.
            minor = calls.ask(nvml, handle, lambda nvml, handle: nvml.nvmlDeviceGetMinorNumber(handle))
            self._minor = self._minor if isinstance(minor, Reading) else int(minor)
            self._handle, self._name = handle, name or self._name
            self._uuid, self._pci_bus_id = uuid or self._uuid, bus_id or self._pci_bus_id
        self._slow.read(nvml, self._handle, quiet, now_s, _wall_us())
        self._is_mig = is_mig(nvml, self._handle)
        self._slices = find_slices(nvml, self._handle, self._root) if self._is_mig else ()
        self._processes = compute_processes(nvml, self._handle, self._root)
        lists = (self._processes, *(each.processes for each in self._slices))
        pids = {process.pid for processes in lists for process in processes or ()}
        why_not = "mig" if self._is_mig else "not-in-run" if quiet else ""
        self._use.read(nvml, self._handle, pids, now_s, _wall_us(), why_not)
        mode = calls.ask(nvml, self._handle, lambda nvml, handle: nvml.nvmlDeviceGetPersistenceMode(handle))
        self._persistence = None if isinstance(mode, Reading) else mode == nvml.NVML_FEATURE_ENABLED

    def _row(self, nvml: Any, now_s: float, own_pids: Collection[int]) -> GpuTelemetry:
        """Return the row of a GPU that answers."""
        slow = self._slow
        most_per_s = pcie_most_bytes_per_s(slow.value("pcie_max_generation"), slow.value("pcie_max_width"))
        fast = self._fast.read(nvml, self._handle, slow.links, most_per_s, now_s, _wall_us())
        instances = tuple(each.read(nvml, own_pids, self._use, now_s) for each in self._slices)
        vital = [fast[key] for key in _VITAL_KEYS]
        self.answered = any(reading.value is not None for reading in vital)
        readings = {
            key: explained(key, reading, self._is_mig) for key, reading in (fast | slow.readings(now_s)).items()
        }
        denied = all(reading.reason == "no-permission" for reading in vital)
        return GpuTelemetry(
            index=self.index, uuid=self._uuid, name=self._name, pci_bus_id=self._pci_bus_id,
            readings={key: readings[key] for key in KEYS}, instances=instances, persistence=self._persistence,
            throttle=calls.throttle_words(readings["throttle_bits"].value),
            processes=owned(self._use.of(self._in_no_slice(), now_s), own_pids),
            problem=calls.gpu_problem(
                nvml.NVMLError(calls.NO_PERMISSION), self.index, self._minor)[1] if denied else None,
        )  # fmt: skip

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
