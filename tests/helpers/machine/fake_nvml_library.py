"""A libnvidia-ml.so.1 in Python, put under the real pynvml: structures, versions and error codes are the real ones.

Faults: `FakeGpu.faults` per C function, `FakeGpu.dead` for all of them, `missing` names a function that the driver
lacks, `hang_on` one that does not return before `release` is set.
"""

import ctypes
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pynvml
import pytest
from tests.helpers.command_line import PATIENCE_S

from cpugpu_tui.machine.nvml.session import Nvml
from cpugpu_tui.model import GpuTelemetry

OK, NOT_SUPPORTED, NO_PERMISSION, INSUFFICIENT_SIZE, FUNCTION_MISSING = 0, 3, 4, 7, 13
LOST, RESET_REQUIRED, UNKNOWN = 15, 16, 999


@dataclass
class FakeGpu:
    name: bytes = b"NVIDIA H200"
    uuid: bytes = b"GPU-00000000-1111-2222-3333-444444444444"
    bus_id: bytes = b"00000000:04:00.0"
    active_pct: int = 37
    total_bytes: int = 150_754_820_096
    used_bytes: int = 2_000_000_000
    reserved_bytes: int = 600_000_000
    clocks_mhz: dict[int, int] = field(default_factory=lambda: {1: 1980, 2: 3201})
    power_mw: int = 78_200
    average_power_mw: int = 77_700
    power_limit_mw: int = 700_000
    temperature_c: int = 32
    slowdown_c: int = 92
    throttle_bits: int = 1
    mig: bool = False
    processes: list[tuple[int, int | None]] = field(default_factory=list)
    shares: list[tuple[int, int, int]] = field(default_factory=list)
    """pid, seconds since its sample, utilisation in %."""
    faults: dict[str, int] = field(default_factory=dict)
    """C function (or `field 186`) → code it returns."""
    dead: int = OK
    """Code that every function returns for this GPU, its handle included."""


class FakeLibrary:
    def __init__(self, gpus: list[FakeGpu]) -> None:
        self.gpus = gpus
        self.init_code = OK
        self.count: int | None = None
        self.missing: set[str] = set()
        self.driver_gone = False
        self.hang_on = ""
        self.hanging = threading.Event()
        self.release = threading.Event()
        self.calls: list[tuple[str, str]] = []
        """(C function, thread) of every call."""
        self.open_sessions = 0
        self.most_calls_at_once = 0
        self._calls_now = 0
        self._counting = threading.Lock()

    def __getattr__(self, name: str) -> Callable[..., int]:
        body = None if name in self.missing else getattr(type(self), f"_{name}", None)
        if body is None:
            raise AttributeError(name)
        return lambda *arguments: self._call(name, body, arguments)

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]

    def _call(self, name: str, body: Callable[..., int | None], arguments: tuple[Any, ...]) -> int:
        self.calls.append((name, threading.current_thread().name))
        self._calls_now += 1
        self.most_calls_at_once = max(self.most_calls_at_once, self._calls_now)
        try:
            if name == self.hang_on:
                self.hanging.set()
                self.release.wait(PATIENCE_S)
            if name.startswith("nvmlDevice") and (self.driver_gone or not self.open_sessions):
                return 1
            if name.startswith("nvmlDevice") and name != "nvmlDeviceGetCount_v2":
                gpu, code = self._addressed(name, arguments[0])
                if code != OK or gpu is None:
                    return code
                return body(self, gpu, *arguments[1:]) or OK
            return body(self, *arguments) or OK
        finally:
            self._calls_now -= 1

    def _addressed(self, name: str, first: Any) -> tuple[FakeGpu | None, int]:
        by_index = name == "nvmlDeviceGetHandleByIndex_v2"
        index = first.value if by_index else ctypes.cast(first, ctypes.c_void_p).value - 1
        if index >= len(self.gpus):
            return None, 2
        gpu = self.gpus[index]
        return gpu, gpu.dead or gpu.faults.get(name, OK)

    # One function of the C library each; `out` is what byref() points to.

    def _nvmlInitWithFlags(self, flags: int) -> int:
        if self.init_code == OK:
            self.driver_gone = False
            with self._counting:
                self.open_sessions += 1
        return self.init_code

    def _nvmlShutdown(self) -> int:
        with self._counting:
            self.open_sessions -= 1
        return OK

    def _nvmlDeviceGetCount_v2(self, out: Any) -> None:
        out._obj.value = len(self.gpus) if self.count is None else self.count

    def _nvmlDeviceGetHandleByIndex_v2(self, gpu: FakeGpu, out: Any) -> None:
        # Not .index(gpu): two GPUs may be equal.
        address = 1 + next(index for index, other in enumerate(self.gpus) if other is gpu)
        ctypes.memmove(out, ctypes.byref(ctypes.c_void_p(address)), ctypes.sizeof(ctypes.c_void_p))

    def _nvmlDeviceGetName(self, gpu: FakeGpu, buffer: Any, length: Any) -> None:
        buffer.value = gpu.name

    def _nvmlDeviceGetUUID(self, gpu: FakeGpu, buffer: Any, length: Any) -> None:
        buffer.value = gpu.uuid

    def _nvmlDeviceGetPciInfo_v3(self, gpu: FakeGpu, out: Any) -> None:
        out._obj.busId = gpu.bus_id

    def _nvmlDeviceGetUtilizationRates(self, gpu: FakeGpu, out: Any) -> None:
        out._obj.gpu, out._obj.memory = gpu.active_pct, 5

    def _nvmlDeviceGetMemoryInfo_v2(self, gpu: FakeGpu, out: Any) -> int:
        if out._obj.version != ctypes.sizeof(out._obj) | 2 << 24:
            return 25
        out._obj.total, out._obj.used, out._obj.reserved = gpu.total_bytes, gpu.used_bytes, gpu.reserved_bytes
        return OK

    def _nvmlDeviceGetMemoryInfo(self, gpu: FakeGpu, out: Any) -> None:
        out._obj.total, out._obj.used = gpu.total_bytes, gpu.used_bytes + gpu.reserved_bytes

    def _nvmlDeviceGetClockInfo(self, gpu: FakeGpu, kind: Any, out: Any) -> None:
        out._obj.value = gpu.clocks_mhz[kind.value]

    def _nvmlDeviceGetTemperatureV(self, gpu: FakeGpu, out: Any) -> None:
        out._obj.temperature = gpu.temperature_c

    def _nvmlDeviceGetTemperature(self, gpu: FakeGpu, sensor: Any, out: Any) -> None:
        out._obj.value = gpu.temperature_c

    def _nvmlDeviceGetTemperatureThreshold(self, gpu: FakeGpu, kind: Any, out: Any) -> int:
        if kind.value != 1:
            return 2
        out._obj.value = gpu.slowdown_c
        return OK

    def _nvmlDeviceGetEnforcedPowerLimit(self, gpu: FakeGpu, out: Any) -> None:
        out._obj.value = gpu.power_limit_mw

    def _nvmlDeviceGetFieldValues(self, gpu: FakeGpu, count: Any, out: Any) -> None:
        for value in out._obj:
            value.nvmlReturn = gpu.faults.get(f"field {value.fieldId}", OK if value.fieldId == 186 else NOT_SUPPORTED)
            value.valueType, value.value.uiVal = pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, gpu.power_mw

    def _nvmlDeviceGetPowerUsage(self, gpu: FakeGpu, out: Any) -> None:
        out._obj.value = gpu.average_power_mw

    def _nvmlDeviceGetCurrentClocksEventReasons(self, gpu: FakeGpu, out: Any) -> None:
        out._obj.value = gpu.throttle_bits

    _nvmlDeviceGetCurrentClocksThrottleReasons = _nvmlDeviceGetCurrentClocksEventReasons

    def _nvmlDeviceGetMigMode(self, gpu: FakeGpu, current: Any, pending: Any) -> None:
        current._obj.value = pending._obj.value = int(gpu.mig)

    def _nvmlDeviceGetComputeRunningProcesses_v3(self, gpu: FakeGpu, count: Any, array: Any) -> int:
        room, count._obj.value = count._obj.value, len(gpu.processes)
        if len(gpu.processes) > room:
            return INSUFFICIENT_SIZE
        for slot, (pid, used_bytes) in zip(array or (), gpu.processes, strict=False):
            slot.pid = pid
            slot.usedGpuMemory = 2**64 - 1 if used_bytes is None else used_bytes
        return OK

    _nvmlDeviceGetComputeRunningProcesses_v2 = _nvmlDeviceGetComputeRunningProcesses_v3

    def _nvmlDeviceGetProcessUtilization(self, gpu: FakeGpu, array: Any, count: Any, since_us: Any) -> int:
        now_us = time.time_ns() // 1000
        told = [(pid, now_us - age_s * 1_000_000, share) for pid, age_s, share in gpu.shares]
        found = [each for each in told if each[1] > since_us.value]
        if not found:
            return 6
        room, count._obj.value = count._obj.value, len(found)
        if len(found) > room or not array:
            return INSUFFICIENT_SIZE
        for slot, told_of_it in zip(array, found, strict=False):
            slot.pid, slot.timeStamp, slot.smUtil = told_of_it
        return OK


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeLibrary]:
    """Two healthy GPUs behind pynvml."""
    _end_of_askers()
    fake = FakeLibrary([FakeGpu(), FakeGpu(uuid=b"GPU-99999999-1111-2222-3333-444444444444", active_pct=0)])
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setattr(pynvml, "nvmlLib", fake)
    yield fake
    fake.release.set()
    _end_of_askers()


def _end_of_askers() -> None:
    """Wait for threads that ask a driver: one of an earlier test would go on in the next one's, and shut its session.

    In CI a test met a library whose session was shut already.
    """
    ends_s = time.monotonic() + PATIENCE_S
    for thread in threading.enumerate():
        if thread.name.startswith(("telemetry", "checkup-")):
            thread.join(max(0.0, ends_s - time.monotonic()))


HEALTHY = {
    "kernel_active_pct": 37, "memory_used_bytes": 2_000_000_000, "memory_total_bytes": 150_754_820_096,
    "sm_clock_mhz": 1980, "memory_clock_mhz": 3201, "power_mw": 78_200, "power_limit_mw": 700_000,
    "temperature_c": 32, "slowdown_temperature_c": 92, "throttle_bits": 1,
}  # fmt: skip
"""Readings of an untouched `FakeGpu` that most tests here are about. All keys: tests/faults/test_nvml_faults.py."""


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def nvml(clock: Clock, tmp_path: Path) -> Nvml:
    return Nvml(str(tmp_path), clock)


def values(row: GpuTelemetry) -> dict[str, float | None]:
    return {key: row.readings[key].value for key in HEALTHY}


def reasons(row: GpuTelemetry, keys: Iterable[str] = HEALTHY) -> dict[str, str]:
    return {key: reason for key in keys if (reason := row.readings[key].reason) is not None}


def rows_of(nvml: Nvml) -> tuple[GpuTelemetry, ...]:
    rows, problem = nvml.read()
    assert problem is None, problem
    return rows
