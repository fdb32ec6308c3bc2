"""One GPU as a benchmark asks it: between timed blocks, in a session of its own.

`edge` is for every half-round (0.03 ms on an H200), `state` and `energy` are for the begin and the end of a case:
the energy counter takes 2.8 to 16 ms there, the counters of hardware slow-downs 0.7 ms (METHOD.md).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from cpugpu_tui.model import GpuProcess, Reading
from cpugpu_tui.telemetry.edges import EDGE_KEYS, THROTTLED_KEYS, Edge, State
from cpugpu_tui.telemetry.procfs import process_owner

CHEAP_COUNTERS = {"power-capped": 74, "sync-boost": 76, "thermal": 269}
"""Throttle word → field of its counter, ns; below 0.01 ms each."""

COSTLY_COUNTERS = {"hw-thermal": 270, "power-brake": 271}
"""The same; 0.7 ms each."""

ENERGY_FIELD, POWER_FIELD = 83, 186
"""Energy since the driver was loaded, mJ, and instantaneous power, mW; both are refreshed every 100 ms."""

_REASONS = {
    1: "no-driver", 2: "gpu-lost", 3: "not-supported", 4: "no-permission", 9: "no-driver", 10: "timeout",
    13: "function-missing", 15: "gpu-lost", 16: "gpu-lost", 25: "function-missing",
}  # fmt: skip
"""NVML's codes as keys of `reasons.REASONS`; all others are `unknown`."""

_BY_TYPE = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}
"""Member of a field's value by its type, as nvmlValueType_t numbers them."""

STAMP_LIMIT_S = 3600.0
"""A driver's time stamp that is further from our clock than this is not believed."""


class GpuProbe:
    """Clock, throttle reasons, counters and company of one GPU; every answer may be unknown, none is an exception."""

    def __init__(self, uuid: str, root: str = "/") -> None:
        """Open a session of its own for the GPU of this UUID, and remember who was there before us."""
        self._root = root
        self._handle: Any = None
        self._why_not = "no-driver"
        try:
            import pynvml

            self._nvml: Any = pynvml
            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        except (ImportError, OSError, ValueError):
            pass
        except Exception as error:
            if not isinstance(error, self._nvml.NVMLError):
                raise
            self._why_not = _REASONS.get(error.value, "unknown")
        self._before_us = frozenset(process.pid for process in self._listed() or ())

    # ---------------------------------------------------------------- cheap: at every half-round

    def sm_clock_mhz(self) -> float | None:
        """Return the SM clock, None where it cannot be read."""
        return self._clock().value

    def throttle(self) -> tuple[str, ...]:
        """Return the throttle reasons in force, in words."""
        from cpugpu_tui.telemetry.nvml import throttle_words

        return throttle_words(self._ask(_throttle_bits).value)

    def processes(self) -> int:
        """Return how many processes compute on this GPU, ours included; 0 where they cannot be listed."""
        return len(self._listed() or ())

    def edge(self) -> Edge:
        """Return what stands at one side of a half-round."""
        clock, throttle = self.sm_clock_mhz(), self.throttle()
        counters = self._fields(CHEAP_COUNTERS)
        known = {word: reading.value for word, reading in counters.items() if reading.value is not None}
        return Edge(float(time.perf_counter_ns()), clock, throttle, known)

    def power_mw(self) -> Reading:
        """Return the instantaneous power of GPU and memory; unknown where the driver only has an average."""
        return self._fields({"power": POWER_FIELD})["power"]

    # ---------------------------------------------------------------- costly: at the edges of a case

    def energy_mj(self) -> Reading:
        """Return the energy counter."""
        return self._fields({"energy": ENERGY_FIELD})["energy"]

    def state(self) -> State:
        """Return what stands at one side of a case."""
        throttled = self._fields(CHEAP_COUNTERS | COSTLY_COUNTERS)
        readings = {
            "sm_clock_mhz": self._clock(),
            "temperature_c": self._ask(_temperature_c),
            "memory_used_bytes": self._ask(_memory_used_bytes),
            "energy_mj": self.energy_mj(),
            **{key: throttled[word] for word, key in THROTTLED_KEYS.items()},
        }
        return State({key: readings[key] for key in EDGE_KEYS}, self._company())

    def is_mig(self) -> bool:
        """Whether this is a slice of a GPU, or a GPU cut into slices: power and energy are then the whole board's."""
        mode = self._ask(lambda nvml, handle: nvml.nvmlDeviceGetMigMode(handle)[0])
        slice_of = self._ask(lambda nvml, handle: nvml.nvmlDeviceIsMigDeviceHandle(handle))
        return bool(mode.value or slice_of.value)

    # ---------------------------------------------------------------- inside

    def _clock(self) -> Reading:
        return self._ask(lambda nvml, handle: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))

    def _call(self, call: Callable[[Any, Any], Any]) -> Any:
        """Return what a call returns, or a Reading with the reason why not."""
        if self._handle is None:
            return Reading(None, self._why_not)
        try:
            return call(self._nvml, self._handle)
        except self._nvml.NVMLError as error:
            return Reading(None, _REASONS.get(error.value, "unknown"))

    def _ask(self, call: Callable[[Any, Any], Any]) -> Reading:
        found = self._call(call)
        return found if isinstance(found, Reading) else Reading(float(found))

    def _fields(self, ids: Mapping[str, int]) -> dict[str, Reading]:
        """Return fields by name, from one call, each with the driver's own time and verdict."""
        found = self._call(lambda nvml, handle: nvml.nvmlDeviceGetFieldValues(handle, list(ids.values())))
        if isinstance(found, Reading):
            return dict.fromkeys(ids, found)
        now_s = time.time()
        return {name: _field(value, now_s) for name, value in zip(ids, found, strict=True)}

    def _listed(self) -> list[GpuProcess] | None:
        found = self._call(_compute_processes)
        if isinstance(found, Reading):
            return None
        own = os.getpid()
        return [
            GpuProcess(each.pid, each.usedGpuMemory, *process_owner(each.pid, self._root), own=each.pid == own)
            for each in sorted(found, key=lambda each: int(each.pid))
        ]

    def _company(self) -> tuple[GpuProcess, ...] | None:
        """Return the processes, our own marked.

        In a namespace of its own a container knows its processes under other numbers than the driver: then ours is
        the one that nobody here knows and that was not there before we were.
        """
        listed = self._listed()
        if listed is None or any(process.own for process in listed):
            return None if listed is None else tuple(listed)
        new = [each.pid for each in listed if each.command is None and each.pid not in self._before_us]
        own = new[0] if len(new) == 1 else None
        return tuple(
            GpuProcess(each.pid, each.memory_bytes, each.user, each.command, own=each.pid == own) for each in listed
        )


def _field(value: Any, now_s: float) -> Reading:
    """Return one field's value with its age by the driver's time stamp, or the driver's reason."""
    if value.nvmlReturn != 0:
        return Reading(None, _REASONS.get(value.nvmlReturn, "unknown"))
    number = float(getattr(value.value, _BY_TYPE.get(value.valueType, "ullVal")))
    age_s = now_s - value.timestamp / 1e6
    is_stamped = value.timestamp > 0 and abs(age_s) < STAMP_LIMIT_S
    return Reading(number, age_s=max(age_s, 0.0) if is_stamped else 0.0, is_stamped=is_stamped)


def _throttle_bits(nvml: Any, handle: Any) -> int:
    """Return the clock event reasons, by the name that drivers before 535 know if need be."""
    try:
        return int(nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
    except nvml.NVMLError_FunctionNotFound:
        return int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))


def _compute_processes(nvml: Any, handle: Any) -> Any:
    """Return the processes that compute, also from drivers that only know the structure before the last."""
    try:
        return nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    except nvml.NVMLError_FunctionNotFound:
        return nvml.nvmlDeviceGetComputeRunningProcesses_v2(handle)


def _temperature_c(nvml: Any, handle: Any) -> int:
    """Return the GPU's temperature; the older name goes away with CUDA 14."""
    try:
        return int(nvml.nvmlDeviceGetTemperatureV(handle, nvml.NVML_TEMPERATURE_GPU))
    except (AttributeError, nvml.NVMLError_FunctionNotFound):
        return int(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))


def _memory_used_bytes(nvml: Any, handle: Any) -> int:
    """Return the memory in use without the driver's own reserve, as far as the driver tells them apart."""
    try:
        return int(nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2).used)
    except nvml.NVMLError:
        return int(nvml.nvmlDeviceGetMemoryInfo(handle).used)
