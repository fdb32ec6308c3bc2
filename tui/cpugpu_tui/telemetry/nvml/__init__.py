"""GPU readings through NVML. The only module that imports pynvml, and only when it is first used (40 ms).

Each value is asked on its own, so that one unsupported value, or one broken GPU, hides nothing else.
On an H200 a sweep takes 0.04 ms per GPU, one with the slow values 0.23 ms. What costs more (METHOD.md: energy
counter 2.8 ms, PCIe throughput 21 ms, graphics processes 4.5 ms) is not called.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from typing import Any

from cpugpu_tui.model import GpuProcess, GpuTelemetry, Reading
from cpugpu_tui.telemetry.nvml.probe import GpuProbe as GpuProbe
from cpugpu_tui.telemetry.procfs import process_owner
from cpugpu_tui.telemetry.text import printable

SLOW_S = 5.0
"""Limits, names and processes are read this rarely; a lost GPU or a missing driver is tried again as rarely."""

KEYS = (
    "kernel_active_pct", "memory_used_bytes", "memory_total_bytes", "sm_clock_mhz", "memory_clock_mhz", "power_mw",
    "power_limit_mw", "temperature_c", "slowdown_temperature_c", "throttle_bits",
)  # fmt: skip
"""Every key of `GpuTelemetry.readings`; all are always there."""

THROTTLE_WORDS = {
    0x1: "idle",
    0x2: "app-clocks",
    0x4: "power-capped",
    0x8: "hw-slowdown",
    0x10: "sync-boost",
    0x20: "thermal",
    0x40: "hw-thermal",
    0x80: "power-brake",
    0x100: "display",
}
"""Bits of nvmlClocksEventReasons in words."""

_INVALID_ARGUMENT, _NO_PERMISSION, _FUNCTION_MISSING, _LOST, _RESET_REQUIRED = 2, 4, 13, 15, 16
_REASONS = {
    1: "no-driver",  # uninitialised: the driver went away under us
    3: "not-supported",
    _NO_PERMISSION: "no-permission",
    9: "no-driver",
    10: "timeout",
    _FUNCTION_MISSING: "function-missing",
    18: "no-driver",
    25: "function-missing",  # the driver does not know this version of the structure
}
"""NVML's error codes for one value as keys of `reasons.REASONS`; all others are `unknown`."""

_GPU_PROBLEMS = {
    _INVALID_ARGUMENT: ("gpu-lost", "The driver no longer lists this GPU. Look for Xid errors in dmesg, or reboot."),
    _NO_PERMISSION: (
        "no-permission",
        "No permission to read this GPU. Ask for access to its device file, /dev/nvidia{index}.",
    ),
    _LOST: (
        "gpu-lost",
        "This GPU is lost: the driver no longer reaches it. Look for Xid errors in dmesg; a reboot may bring it back.",
    ),
    _RESET_REQUIRED: (
        "gpu-lost",
        "This GPU needs a reset. Stop what runs on it and let an administrator run `nvidia-smi -r -i {index}`.",
    ),
}
"""NVML's error codes for a whole GPU: why its values are missing, and the sentences for a person."""
_GPU_PROBLEM = ("unknown", "This GPU cannot be read (NVML: {error}). Run nvidia-smi to see what the driver says of it.")

_DRIVER_PROBLEMS = {
    _NO_PERMISSION: "No permission to use the NVIDIA driver. Ask for access to /dev/nvidiactl and /dev/nvidia*.",
    9: "The NVIDIA driver is installed but not loaded. Load it with `modprobe nvidia` as root, or reboot.",
    12: "No NVIDIA driver found (libnvidia-ml.so.1 is missing). CPU results only; install the driver, or ignore this"
    " on a machine without a GPU.",
    18: "The NVIDIA driver was updated, but its old version is still loaded. Reboot, or reload its kernel modules.",
}
_DRIVER_PROBLEM = "The NVIDIA driver does not work (NVML: {error}). Run nvidia-smi and look for NVRM lines in dmesg."
_NO_GPU = "The NVIDIA driver runs but sees no GPU. Check that the container or job was given one (nvidia-smi -L)."
_NO_PYNVML = (
    "GPUs cannot be watched without the Python package nvidia-ml-py. Install it with `pip install nvidia-ml-py`."
)


# ------------------------------------------------------------------ single values: (pynvml, handle) -> number


def _newest(nvml: Any, names: tuple[str, ...], *arguments: Any) -> Any:
    """Call the first of `names` that both pynvml and the driver have: NVIDIA renames, drivers lag behind."""
    for name in names:
        with suppress(nvml.NVMLError_FunctionNotFound):
            if hasattr(nvml, name):
                return getattr(nvml, name)(*arguments)
    raise nvml.NVMLError(_FUNCTION_MISSING)


def _memory(nvml: Any, handle: Any) -> Any:
    """Return total and used bytes. Version 2 does not count the driver's own reserve as used; old drivers lack it."""
    with suppress(nvml.NVMLError):
        return nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    return nvml.nvmlDeviceGetMemoryInfo(handle)


def _power_mw(nvml: Any, handle: Any) -> int:
    """Return the instantaneous power; where the driver has none, the older call, a 1 s average from Ampere on."""
    with suppress(nvml.NVMLError):
        field = nvml.nvmlDeviceGetFieldValues(handle, [nvml.NVML_FI_DEV_POWER_INSTANT])[0]
        if field.nvmlReturn == 0:
            return int(field.value.uiVal)
    return int(nvml.nvmlDeviceGetPowerUsage(handle))


def _throttle_bits(nvml: Any, handle: Any) -> int:
    """Return the clock event reasons, by the name that drivers before 535 know if need be."""
    names = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
    return int(_newest(nvml, names, handle))


def _temperature_c(nvml: Any, handle: Any) -> int:
    """Return the GPU's temperature; the older name goes away with CUDA 14."""
    names = ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature")
    return int(_newest(nvml, names, handle, nvml.NVML_TEMPERATURE_GPU))


_Call = Callable[[Any, Any], Any]
_FAST: dict[str, _Call] = {
    "kernel_active_pct": lambda nvml, handle: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
    "sm_clock_mhz": lambda nvml, handle: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
    "memory_clock_mhz": lambda nvml, handle: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
    "power_mw": _power_mw,
    "temperature_c": _temperature_c,
    "throttle_bits": _throttle_bits,
}
_SLOW: dict[str, _Call] = {
    "power_limit_mw": lambda nvml, handle: nvml.nvmlDeviceGetEnforcedPowerLimit(handle),
    "slowdown_temperature_c": lambda nvml, handle: nvml.nvmlDeviceGetTemperatureThreshold(
        handle, nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
    ),
}


def _read(nvml: Any, handle: Any, call: _Call) -> Any:
    """Return what a call returns, or a Reading with the reason why not; raise NVMLError when the GPU is lost."""
    try:
        return call(nvml, handle)
    except nvml.NVMLError as error:
        if error.value in (_LOST, _RESET_REQUIRED):
            raise
        return Reading(None, _REASONS.get(error.value, "unknown"))


def _reading(result: Any, attribute: str | None = None) -> Reading:
    """Return a result of `_read` (or one attribute of it) as a Reading."""
    if isinstance(result, Reading):
        return result
    return Reading(float(result if attribute is None else getattr(result, attribute)))


def _fast_readings(nvml: Any, handle: Any) -> dict[str, Reading]:
    """Return what is read at every sweep."""
    memory = _read(nvml, handle, _memory)
    return {
        "memory_used_bytes": _reading(memory, "used"),
        "memory_total_bytes": _reading(memory, "total"),
        **{key: _reading(_read(nvml, handle, call)) for key, call in _FAST.items()},
    }


def _identity(nvml: Any, handle: Any, call: _Call) -> str | None:
    """Return a name that the driver gives, sanitised; None if it gives none or it is not UTF-8."""
    with suppress(UnicodeDecodeError):
        text = _read(nvml, handle, call)
        return None if isinstance(text, Reading) else printable(str(text)) or None
    return None


def _processes(nvml: Any, handle: Any, root: str) -> tuple[GpuProcess, ...] | None:
    """Return the compute processes (`own` is set later), None when they cannot be listed."""
    names = ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2")
    found = _read(nvml, handle, lambda nvml, handle: _newest(nvml, names, handle))
    if isinstance(found, Reading):
        return None
    return tuple(
        GpuProcess(process.pid, process.usedGpuMemory, *process_owner(process.pid, root), own=False)
        for process in sorted(found, key=lambda process: int(process.pid))
    )


def throttle_words(bits: float | None) -> tuple[str, ...]:
    """Return the words for a mask of throttle reasons; none for an unknown mask."""
    return tuple(word for bit, word in THROTTLE_WORDS.items() if bits is not None and int(bits) & bit)


# ------------------------------------------------------------------ one GPU, all GPUs


class _Gpu:
    """One GPU through its losses and returns."""

    def __init__(self, index: int, root: str) -> None:
        self._index = index
        self._root = root
        self._name = f"GPU {index}"
        self._uuid: str | None = None
        self._pci_bus_id: str | None = None
        self._mig = False
        self._slow: dict[str, Reading] = {}
        self._processes: tuple[GpuProcess, ...] | None = None
        self.detach()

    def detach(self) -> None:
        """Forget the handle and what was read with it, but not who this GPU is."""
        self._handle: Any = None
        self._tried_s = float("-inf")
        self._problem, self._reason = "", "not-yet"

    def read(self, nvml: Any, now_s: float, own_pids: Collection[int]) -> GpuTelemetry:
        """Return this GPU's row; never raises for what the driver says."""
        try:
            if now_s - self._tried_s >= SLOW_S:
                self._tried_s = now_s
                self._read_slow(nvml)
            if self._handle is not None:
                return self._row(_fast_readings(nvml, self._handle), now_s, own_pids)
        except nvml.NVMLError as error:
            self._handle = None
            self._reason, problem = _GPU_PROBLEMS.get(error.value, _GPU_PROBLEM)
            self._problem = problem.format(index=self._index, error=error)
        return self._unreadable_row()

    def _read_slow(self, nvml: Any) -> None:
        """Get the handle if there is none, and everything that seldom changes; raise NVMLError if the GPU is lost."""
        if self._handle is None:
            handle = nvml.nvmlDeviceGetHandleByIndex(self._index)
            name = _identity(nvml, handle, lambda nvml, handle: nvml.nvmlDeviceGetName(handle))
            uuid = _identity(nvml, handle, lambda nvml, handle: nvml.nvmlDeviceGetUUID(handle))
            bus_id = _identity(nvml, handle, lambda nvml, handle: nvml.nvmlDeviceGetPciInfo(handle).busId)
            self._handle, self._name = handle, name or self._name
            self._uuid, self._pci_bus_id = uuid or self._uuid, bus_id or self._pci_bus_id
        self._slow = {key: _reading(_read(nvml, self._handle, call)) for key, call in _SLOW.items()}
        mig = _read(nvml, self._handle, lambda nvml, handle: nvml.nvmlDeviceGetMigMode(handle)[0])
        self._mig = mig == nvml.NVML_DEVICE_MIG_ENABLE
        self._processes = _processes(nvml, self._handle, self._root)

    def _row(self, fast: dict[str, Reading], now_s: float, own_pids: Collection[int]) -> GpuTelemetry:
        """Return the row of a GPU that answers."""
        slow = {key: replace(reading, age_s=now_s - self._tried_s) for key, reading in self._slow.items()}
        readings = {**fast, **slow}
        if self._mig and readings["kernel_active_pct"].reason == "not-supported":
            readings["kernel_active_pct"] = Reading(None, "mig")
        denied = all(reading.reason == "no-permission" for reading in fast.values())
        processes = self._processes
        if processes is not None:
            processes = tuple(replace(process, own=process.pid in own_pids) for process in processes)
        return GpuTelemetry(
            index=self._index,
            uuid=self._uuid,
            name=self._name,
            pci_bus_id=self._pci_bus_id,
            readings={key: readings[key] for key in KEYS},
            throttle=throttle_words(readings["throttle_bits"].value),
            processes=processes,
            problem=_GPU_PROBLEMS[_NO_PERMISSION][1].format(index=self._index) if denied else None,
        )

    def _unreadable_row(self) -> GpuTelemetry:
        """Return the row of a GPU that is lost, or that we may not open."""
        readings = {key: Reading(None, self._reason) for key in KEYS}
        return GpuTelemetry(
            self._index, self._uuid, self._name, self._pci_bus_id, readings, problem=self._problem or None
        )


class Nvml:
    """NVML as one session that opens itself, and opens again when driver or GPUs come back.

    All calls must come from one thread: `nvmlShutdown` beside another call crashes the process.
    """

    def __init__(self, root: str = "/", clock_s: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock_s = clock_s
        self._nvml: Any = None
        self._gpus: list[_Gpu] = []
        self._problem: str | None = None
        self._answered = False
        self._tried_s = float("-inf")

    def read(self, own_pids: Collection[int] = ()) -> tuple[tuple[GpuTelemetry, ...], str | None]:
        """Return a row per GPU, and a problem (one sentence of cause, one of remedy) when there are no GPUs to read.

        Processes in `own_pids`, and this process, are marked as ours. Never raises for what the driver says.
        """
        now_s = self._clock_s()
        # Not a single value: the driver may have been unloaded or reset, which only a new session survives.
        if not self._answered and now_s - self._tried_s >= SLOW_S:
            self._tried_s = now_s
            self._open()
        if self._nvml is None:
            return (), self._problem
        own = {os.getpid(), *own_pids}
        rows = tuple(gpu.read(self._nvml, now_s, own) for gpu in self._gpus)
        self._answered = any(r.value is not None and r.age_s == 0 for row in rows for r in row.readings.values())
        return rows, None if rows else _NO_GPU

    def close(self) -> None:
        """End the session with the driver; a later `read` starts another."""
        if self._nvml is not None:
            with suppress(self._nvml.NVMLError):
                self._nvml.nvmlShutdown()
        self._nvml, self._answered = None, False

    def _open(self) -> None:
        """Start a session, or set the problem. Rows and names of GPUs outlive sessions: a lost GPU has no name."""
        self.close()
        try:
            import pynvml
        except ImportError:
            self._problem = _NO_PYNVML
            return
        try:
            pynvml.nvmlInit()
            self._nvml = pynvml
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            self.close()
            self._problem = _DRIVER_PROBLEMS.get(error.value, _DRIVER_PROBLEM).format(error=error)
            return
        self._gpus += [_Gpu(index, self._root) for index in range(len(self._gpus), count)]
        for gpu in self._gpus:
            gpu.detach()
