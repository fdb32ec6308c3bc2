"""One GPU as the benchmark reads it between timed blocks, in a session of its own.

`edge` is read at every half-round (0.03 ms on an H200), `state` and `energy_mj` at the start and end of a case: the
energy counter takes 2.8 to 16 ms, the counters of hardware slowdowns 0.7 ms (method.md).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from cpugpu_tui.machine.device_state import EDGE_KEYS, Edge, State
from cpugpu_tui.machine.limits import COUNTED_NS, plausible
from cpugpu_tui.machine.nvml import calls
from cpugpu_tui.machine.nvml.counters import (
    ENERGY,
    POWER_AVERAGE,
    POWER_INSTANT,
    THROTTLED,
    THROTTLED_BY,
    THROTTLED_BY_COSTLY,
    Field,
    decoded,
    read_fields,
)
from cpugpu_tui.machine.nvml.processes import compute_processes, find_slices, kernel_shares, owned, running
from cpugpu_tui.model import GpuProcess, Reading
from cpugpu_tui.model.throttling import COUNTER_KEYS

_EDGE = tuple(field.number for field in (*THROTTLED, POWER_INSTANT, POWER_AVERAGE))
_CASE = tuple(Field(COUNTER_KEYS[word], field.number) for word, field in (THROTTLED_BY | THROTTLED_BY_COSTLY).items())


class GpuProbe:
    """Clock, throttle reasons, counters and processes of one GPU; missing values have reasons, nothing raises."""

    def __init__(self, uuid: str, root: str = "/", visible: str | None = None) -> None:
        """Open a session for the GPU with this UUID, and note its present processes.

        `visible` is the value of CUDA_VISIBLE_DEVICES; if it names a slice of this GPU, the probe reads that slice.
        """
        self._root = root
        self.uuid = uuid
        """NVML's spelling, `GPU-…` or `MIG-…`, which matches telemetry."""
        self._handle: Any = None
        self._board: Any = None
        self._why_not = "no-driver"
        try:
            import pynvml

            self._nvml: Any = pynvml
            pynvml.nvmlInit()
            self._handle, self.uuid = _handle(pynvml, uuid)
            self._board = self._handle
            if pynvml.nvmlDeviceIsMigDeviceHandle(self._handle):
                self._board = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self._handle)
            elif visible is not None and visible.strip().startswith("MIG-"):
                self._take_slice(visible.partition(",")[0].strip())
        except ImportError:
            pass
        except Exception as error:  # noqa: BLE001 - a library that is broken raises anything
            code = calls.code_of(error)
            self._why_not = "no-driver" if code is None else calls.reason_of(code)
        self._before_us = frozenset(process.pid for process in self._listed() or ())

    def _take_slice(self, named: str) -> None:
        """Use the only slice whose UUID begins with `named`, because CUDA may report the UUID of the whole GPU."""
        slices = find_slices(self._nvml, self._board, self._root)
        found = [each for each in slices if each.uuid and each.uuid.lower().startswith(named.lower())]
        if len(found) == 1:
            self._handle, self.uuid = found[0].handle, found[0].uuid or self.uuid

    # ---------------------------------------------------------------- cheap, for every half-round

    def sm_clock_mhz(self) -> float | None:
        """Return the SM clock, or None if it cannot be read."""
        return self._clock().value

    def throttle(self) -> tuple[str, ...]:
        """Return the current throttle reasons as words."""
        return calls.throttle_words(calls.mask_reading(self._call(calls.throttle_bits)).value)

    def processes(self) -> int:
        """Return the number of compute processes on this GPU, including ours; 0 if they cannot be listed."""
        # Without owners, because this runs before every half-round.
        found = self._call(lambda nvml, handle: len(running(nvml, handle)), own=True)
        return 0 if isinstance(found, Reading) else int(found)

    def edge(self) -> Edge:
        """Return the values at one edge of a half-round."""
        clock, throttle = self.sm_clock_mhz(), self.throttle()
        # `read_fields` would take 35 µs more of 60 µs for reasons and stamps, twice every half-round.
        found = self._call(lambda nvml, handle: nvml.nvmlDeviceGetFieldValues(handle, _EDGE))
        at_ns = float(time.perf_counter_ns())
        if isinstance(found, Reading):
            return Edge(at_ns, clock, throttle, power_mw=found)
        # All values are unsigned, and the rest of the union is 0.
        counters = {
            word: float(raw.value.ullVal)
            for word, raw in zip(THROTTLED_BY, found, strict=False)
            if not raw.nvmlReturn and raw.value.ullVal not in calls.NO_NUMBERS and raw.value.ullVal <= COUNTED_NS[1]
        }
        instant, average = found[-2], found[-1]
        now_us = time.time_ns() // 1000
        power_mw = plausible("power_mw", decoded(instant, now_us).reading(now_us))
        is_average = power_mw.value is None
        if is_average:
            power_mw = plausible("power_mw", decoded(average, now_us).reading(now_us))
        return Edge(at_ns, clock, throttle, counters, power_mw, is_average)

    def power_mw(self) -> Reading:
        """Return the instantaneous power of GPU and memory; unknown if the driver only has an average."""
        return self._fields((POWER_INSTANT,))[POWER_INSTANT.key]

    # ---------------------------------------------------------------- costly, for the edges of a case

    def energy_mj(self) -> Reading:
        """Return the energy counter."""
        return self._fields((ENERGY,))[ENERGY.key]

    def state(self) -> State:
        """Return the values at one edge of a case."""
        throttled = self._fields(_CASE)
        readings = {
            "sm_clock_mhz": self._clock(),
            "temperature_c": plausible("temperature_c", self._ask(calls.FAST["temperature_c"])),
            "memory_used_bytes": self._memory_used_bytes(),
            "energy_mj": self.energy_mj(),
            **throttled,
        }
        return State({key: readings[key] for key in EDGE_KEYS}, self._company())

    def is_mig(self) -> bool:
        """Return whether MIG mode is on, so that power and energy are those of the whole GPU."""
        return bool(self._ask(lambda nvml, handle: nvml.nvmlDeviceGetMigMode(handle)[0]).value)

    # ---------------------------------------------------------------- for a command, in its untimed run

    def pids(self) -> frozenset[int]:
        """Return the compute processes on this GPU by the driver's ids; empty if they cannot be listed."""
        found = self._call(lambda nvml, handle: running(nvml, handle), own=True)
        return frozenset() if isinstance(found, Reading) else frozenset(pid for pid, _ in found)

    def held_by(self, pids: Collection[int], before: Collection[int]) -> dict[int, int | None] | Reading:
        """Return driver's id → memory, bytes, of these processes on this GPU, or the reason why they are unknown.

        In a container the driver uses other ids than we do. Then ours are those that are neither in `before` nor
        processes that we can see.
        """
        found = self._call(lambda nvml, handle: running(nvml, handle), own=True)
        if isinstance(found, Reading):
            return found
        ours = {pid: held for pid, held in found if pid in pids}
        new = {pid: held for pid, held in found if pid not in before and not os.path.exists(f"{self._root}/proc/{pid}")}
        return ours or new

    def utilisation_pct(self, pids: Collection[int], since_us: int) -> float | None:
        """Return the highest utilisation of the GPU by one of these processes since a time of the wall clock."""
        found = self._call(lambda nvml, handle: kernel_shares(nvml, handle, since_us))
        shares = {} if isinstance(found, Reading) else found
        return max((shares[pid].value or 0.0 for pid in pids if pid in shares), default=None)

    # ---------------------------------------------------------------- inside

    def _clock(self) -> Reading:
        return plausible("sm_clock_mhz", self._ask(calls.FAST["sm_clock_mhz"]))

    def _memory_used_bytes(self) -> Reading:
        """Return the used memory without the driver's reserve; unknown if an old driver counts the reserve as used.

        A reserve of 0.6 GB without a process would look like memory of another user.
        """
        found = self._call(calls.memory_readings, own=True)
        if isinstance(found, Reading):
            return found
        is_with_reserve = found["memory_reserved_bytes"].reason == "in-used"
        used = plausible("memory_used_bytes", found["memory_used_bytes"])
        return Reading(None, "function-missing") if is_with_reserve else used

    def _call(self, call: Callable[[Any, Any], Any], *, own: bool = False) -> Any:
        """Return the result of a call for the GPU, or its slice if `own`; or a Reading with the reason."""
        if self._handle is None:
            return Reading(None, self._why_not)
        try:
            return call(self._nvml, self._handle if own else self._board)
        except Exception as error:  # noqa: BLE001 - only this value is lost
            code = calls.code_of(error)
            return Reading(None, "call-failed" if code is None else calls.reason_of(code))

    def _ask(self, call: Callable[[Any, Any], Any]) -> Reading:
        return calls.reading(self._call(call))

    def _fields(self, fields: Sequence[Field]) -> dict[str, Reading]:
        """Return fields by key, from one call, each with the driver's own time and return code."""
        now_us = time.time_ns() // 1000
        found = self._call(lambda nvml, handle: read_fields(nvml, handle, fields, now_us))
        if isinstance(found, Reading):
            return {field.key: found for field in fields}
        return {key: plausible(key, stamped.reading(time.time_ns() // 1000)) for key, stamped in found.items()}

    def _listed(self) -> tuple[GpuProcess, ...] | None:
        found = self._call(lambda nvml, handle: compute_processes(nvml, handle, self._root), own=True)
        return None if isinstance(found, Reading) else owned(found, {os.getpid()})

    def _company(self) -> tuple[GpuProcess, ...] | None:
        """Return the processes, with ours marked.

        In a container the driver uses other process ids than we do. Then ours is the only unknown process that was
        not there before the probe opened.
        """
        listed = self._listed()
        if listed is None or any(process.own for process in listed):
            return listed
        new = [each.pid for each in listed if each.command is None and each.pid not in self._before_us]
        return owned(listed, new if len(new) == 1 else ())


def _handle(nvml: Any, uuid: str) -> tuple[Any, str]:
    """Return the handle for a UUID, and NVML's spelling: torch drops the prefix, so a slice's may come as a GPU's."""
    try:
        return nvml.nvmlDeviceGetHandleByUUID(uuid), uuid
    except nvml.NVMLError:
        if not uuid.startswith("GPU-"):
            raise
        sliced = uuid.replace("GPU-", "MIG-", 1)
        return nvml.nvmlDeviceGetHandleByUUID(sliced), sliced


def is_found(uuid: str) -> bool:
    """Return whether the driver finds a GPU with this UUID."""
    try:
        import pynvml

        pynvml.nvmlInit()
        _handle(pynvml, uuid)
    except Exception:  # noqa: BLE001 - a library that is broken raises anything
        return False
    return True
