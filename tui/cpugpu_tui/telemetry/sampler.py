"""Sample the machine: one `TelemetryRead` event per tick.

There are two threads. `telemetry` ticks, reads the host and emits. `telemetry-nvml` (asker) makes every NVML call,
including the shutdown. A call into a hung driver never returns: then the second thread is stuck, while the first still
ticks with ageing values. If one GPU of several hangs, another asker reads the others.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, TypeVar

from cpugpu_tui.machine import procfs
from cpugpu_tui.machine.limits import plausible
from cpugpu_tui.machine.nvml.values import KEYS
from cpugpu_tui.model import GpuProcess, GpuTelemetry, MigInstance, Reading, TelemetryRead
from cpugpu_tui.model.simulation import GPU_MEMORY_BYTES, Simulation
from cpugpu_tui.telemetry.nvml_thread import Answer, NvmlThread

PATIENCE_S = 0.5
"""How long a tick waits for the driver before it uses the last values. Import, session and first sample take 0.1 s on
an H200, but seconds without persistence mode."""
FIRST_PATIENCE_S = 1.0
"""The same at the first tick. On a busy machine the import of NVML's bindings took longer than 0.5 s, so
`telemetry --count 1` showed no GPU."""
HANG_S = 2.0
"""Time without an answer after which the driver counts as silent."""
OURS_S = 10.0
"""How long an ended agent still counts as ours. On an H200 an agent that had just ended was listed as another user's
process."""
STOP_S = 2.0
"""How long `stop` waits for each thread; a thread that hangs in the driver is abandoned."""


Aging = TypeVar("Aging", GpuTelemetry, MigInstance)


class _Hung(NamedTuple):
    """A GPU with a hanging call."""

    asker: NvmlThread
    """The abandoned asker that waits for it."""
    function: str
    since_s: float
    """`time.monotonic`."""
    row: GpuTelemetry | None
    """Its last values; None before its first answer."""
    row_ns: int


def aged(gpus: tuple[GpuTelemetry, ...], seconds: float) -> tuple[GpuTelemetry, ...]:
    """Return the rows with every reading `seconds` older, including those of slices and processes."""

    def later(readings: dict[str, Reading]) -> dict[str, Reading]:
        return {key: replace(reading, age_s=reading.age_s + seconds) for key, reading in readings.items()}

    def all_later(each: Aging) -> Aging:
        processes = each.processes and tuple(replace(one, readings=later(one.readings)) for one in each.processes)
        return replace(each, readings=later(each.readings), processes=processes)

    return tuple(replace(all_later(gpu), instances=tuple(map(all_later, gpu.instances))) for gpu in gpus)


class Telemetry:
    """Emits `TelemetryRead` events on the thread `telemetry`; used once."""

    def __init__(self, emit: Callable[[TelemetryRead], None]) -> None:
        self.quiet = False
        """True while a run is live, see `Sampler`."""
        self._emit = emit
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._emit_until_stopped, name="telemetry", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; nothing is emitted afterwards."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(STOP_S)

    def _emit_until_stopped(self) -> None:
        raise NotImplementedError


class Sampler(Telemetry):
    """Emit a `TelemetryRead` at once and then every `interval_s` until stopped.

    While `quiet`, values that cost the driver more than 0.2 ms are not read, so that they age: reading the energy
    counter beside a timed block takes up to 16 ms.
    """

    def __init__(
        self, interval_s: float, emit: Callable[[TelemetryRead], None], own_pids: Callable[[], set[int]] = set,
        root: str = "/", gpm: bool = False,
    ) -> None:  # fmt: skip
        """`emit` and `own_pids` (our agents) are called on the thread `telemetry`.

        They must not wait for the thread that calls `stop`. `root` is the folder that holds `proc` and `sys`. `gpm`
        adds SM occupancy, tensor and DRAM activity on GPUs that count them.
        """
        super().__init__(emit)
        self._interval_s = interval_s
        self._own_pids = own_pids
        self._seen_s: dict[int, float] = {}
        self._root = root
        self._gpm = gpm
        self._host = Host(root)
        self._answer = Answer((), None, time.monotonic_ns())
        self._hung: dict[int, _Hung] = {}
        self._has_ticked = False
        self._asker = self._new_asker()

    def start(self) -> None:
        """Start both threads."""
        self._asker.start()
        super().start()

    def stop(self) -> None:
        """Finish the current call, shut NVML down and stop both threads; nothing is emitted afterwards."""
        super().stop()
        self._asker.end()
        self._asker.join(STOP_S)

    def _new_asker(self) -> NvmlThread:
        return NvmlThread(self._root, self._gpm, lambda: self.quiet, self._hung)

    def _emit_until_stopped(self) -> None:
        """Tick at fixed times; after a slow tick the times restart, without a burst."""
        next_s = time.monotonic()
        while not self._stopping.wait(max(0.0, next_s - time.monotonic())):
            self._ask()
            event = self._event()
            if not self._stopping.is_set():
                self._emit(event)
            next_s = max(next_s + self._interval_s, time.monotonic())

    def _ask(self) -> None:
        """Request a sample unless one is pending, and wait briefly for the answer."""
        for index, hung in list(self._hung.items()):
            if hung.asker.has_answered():
                del self._hung[index]  # the call returned, so the GPU is read again
        if self._asker.asked_ns is None:
            self._asker.ask(self._ours())
        patience_s = min(PATIENCE_S, self._interval_s) if self._has_ticked else FIRST_PATIENCE_S
        answer = self._asker.answer(patience_s)
        self._has_ticked = True
        if answer is not None:
            self._answer = answer
        else:
            self._leave_behind()

    def _leave_behind(self) -> None:
        """If a call for one GPU of several hangs, go on with the others in a new session."""
        nvml, asked_ns = self._asker.nvml, self._asker.asked_ns
        waiting = nvml.waiting
        if waiting is None or waiting.gpu_index is None or asked_ns is None:
            return
        if time.monotonic() - max(waiting.since_s, asked_ns / 1e9) < HANG_S:
            return
        if len(self._hung) + 1 >= nvml.gpu_count:
            return
        row = next((gpu for gpu in self._answer.gpus if gpu.index == waiting.gpu_index), None)
        self._hung[waiting.gpu_index] = _Hung(self._asker, waiting.function, waiting.since_s, row, self._answer.mono_ns)
        self._asker.end()
        self._asker = self._new_asker()
        self._asker.start()

    def _ours(self) -> set[int]:
        """Return our agents, including recent ones, because the list of processes is up to 5 s old."""
        now_s = time.monotonic()
        seen_s = {**self._seen_s, **dict.fromkeys(self._own_pids(), now_s)}
        self._seen_s = {pid: at_s for pid, at_s in seen_s.items() if now_s - at_s <= OURS_S}
        return set(self._seen_s)

    def _event(self) -> TelemetryRead:
        """Return the present values."""
        host = self._host.read()
        now_ns = time.monotonic_ns()
        rows = [self._row(gpu, now_ns) for gpu in self._answer.gpus]
        silence = self._silence(now_ns)
        return TelemetryRead(
            gpus=tuple(rows), host=host, problem=silence or self._answer.problem or self._hangs(now_ns),
            is_silent=silence is not None, wall_ns=time.time_ns(), mono_ns=now_ns,
        )  # fmt: skip

    def _row(self, gpu: GpuTelemetry, now_ns: int) -> GpuTelemetry:
        """Return a GPU's row with its present age; for a GPU that hangs, its last values."""
        hung = self._hung.get(gpu.index)
        row, row_ns = (gpu, self._answer.mono_ns) if hung is None or hung.row is None else (hung.row, hung.row_ns)
        return aged((row,), (now_ns - row_ns) / 1e9)[0]

    def _silence(self, now_ns: int) -> str | None:
        """Return a sentence if the driver does not answer at all."""
        asked_ns, waiting = self._asker.asked_ns, self._asker.nvml.waiting
        silent_s = 0.0 if asked_ns is None else (now_ns - asked_ns) / 1e9
        if silent_s < HANG_S:
            return None
        of = f" of GPU {waiting.gpu_index}" if waiting is not None and waiting.gpu_index is not None else ""
        where = f" ({waiting.function}{of})" if waiting is not None else ""
        values = "GPU values are out of date" if self._answer.gpus else "No GPU has answered yet"
        answer = f"The NVIDIA driver has not answered for {silent_s:.0f} s{where}"
        return f"{answer}. {values}; if this lasts, look for Xid errors in dmesg."

    def _hangs(self, now_ns: int) -> str | None:
        """Return a sentence on GPUs that hang while others answer."""
        if not self._hung:
            return None
        which = ", ".join(
            f"GPU {index} has not answered for {now_ns / 1e9 - hung.since_s:.0f} s ({hung.function})"
            for index, hung in sorted(self._hung.items())
        )
        return f"{which}. Their values are out of date; other GPUs still answer. Look for Xid errors in dmesg."


# ------------------------------------------------------------------ host


SLOW_S = 5.0
"""Interval for clock and quota: the clock reads up to 16 cores, the quota walks the cgroup tree."""


def _reading(key: str, ask: Callable[[], float | None], reason: str = "not-supported") -> Reading:
    """Return the value of `ask` within the key's limits, or `reason` if it returns None."""
    try:
        value = ask()
        return Reading(None, reason) if value is None else plausible(key, Reading(float(value)))
    except Exception:  # noqa: BLE001 - only this value is lost; the thread goes on
        return Reading(None, "call-failed")


class Host:
    """Read `TelemetryRead.host`; keeps the last tick counts, because CPU load is a difference."""

    def __init__(self, root: str = "/", clock_s: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock_s = clock_s
        self._ticks: tuple[int, int] | None = None
        self._slow: dict[str, Reading] = {}
        self._slow_at_s = float("-inf")

    def read(self) -> dict[str, Reading]:
        """Return every host reading; `cpu_quota_cores` is missing without a quota.

        Takes 0.2 ms, or 1.5 ms with the slow values on 16 cores.
        """
        now_s = self._clock_s()
        if now_s - self._slow_at_s >= SLOW_S:
            self._slow, self._slow_at_s = self._read_slow(), now_s
        age_s = now_s - self._slow_at_s
        return {
            "cpu_pct": self._cpu_pct(),
            "load_1min": self._asked("load_1min", procfs.load_1min),
            "memory_used_bytes": self._asked("memory_used_bytes", procfs.memory_used_bytes),
            "memory_total_bytes": self._asked("memory_total_bytes", procfs.memory_total_bytes),
            **{key: Reading(slow.value, slow.reason, age_s) for key, slow in self._slow.items()},
        }

    def _asked(self, key: str, ask: Callable[[str], float | None]) -> Reading:
        return _reading(key, lambda: ask(self._root))

    def _cpu_pct(self) -> Reading:
        before = self._ticks

        def busy_pct() -> float | None:
            self._ticks = procfs.cpu_ticks(self._root)
            return procfs.busy_pct(before, self._ticks) if before and self._ticks else None

        found = _reading("cpu_pct", busy_pct, "not-yet")
        return Reading(None, "not-supported") if found.reason == "not-yet" and self._ticks is None else found

    def _read_slow(self) -> dict[str, Reading]:
        quota_cores = self._asked("cpu_quota_cores", procfs.cpu_quota_cores)
        slow = {"cpu_freq_mhz": self._asked("cpu_freq_mhz", procfs.cpu_freq_mhz)}
        return slow if quota_cores.reason == "not-supported" else {**slow, "cpu_quota_cores": quota_cores}


TELEMETRY_S = 1.0
"""Seconds between two readings."""

PERIOD_S = 7.3
"""Period of the small changes in load and power."""
HEAT_S = 10.0
"""Time constant of the temperature."""
_LIMIT_MW = 300_000.0
_IDLE_MW, _LOAD_MW = 38_000.0, 210_000.0
_RESERVED_BYTES, _RUN_BYTES = 600 << 20, 2 << 30
_PID = 4711
_PCIE = {"pcie_generation": 4, "pcie_width": 16, "pcie_max_generation": 4, "pcie_max_width": 16}


def simulated_sample(elapsed_s: float, gpus: int = 1, *, load: float = 0.0, heat: float | None = None) -> TelemetryRead:
    """Return the readings of a simulated machine `elapsed_s` after its start; only the clocks of the event are real.

    `load` is 0 while nothing runs, and 1 during a run. `heat` is the load of the last seconds (default: `load`).
    """
    return TelemetryRead(
        gpus=tuple(_gpu(index, elapsed_s, load, load if heat is None else heat) for index in range(gpus)),
        host={
            "cpu_pct": Reading(round(3 + 45 * load + _ripple(elapsed_s, 2), 1)),
            "load_1min": Reading(round(0.1 + 0.9 * load, 1)),
            "memory_used_bytes": Reading(float(8 << 30)),
            "memory_total_bytes": Reading(float(64 << 30)),
            "cpu_freq_mhz": Reading(2400.0),
        },
        problem=None if gpus else "The simulated machine has no GPU. Leave out gpus=0 to have one.",
        wall_ns=time.time_ns(),
        mono_ns=time.monotonic_ns(),
    )


class SimulatedSampler(Telemetry):
    """Emit the readings of a simulated machine at once and then every `interval_s`, in place of a `Sampler`."""

    def __init__(self, interval_s: float, emit: Callable[[TelemetryRead], None], gpus: int) -> None:
        super().__init__(emit)
        self._interval_s = interval_s
        self._gpus = gpus

    def _emit_until_stopped(self) -> None:
        start_s = due_s = time.monotonic()
        heat = 0.0
        while not self._stopping.wait(max(0.0, due_s - time.monotonic())):
            load = 1.0 if self.quiet else 0.0
            heat += (load - heat) * (1 - math.exp(-self._interval_s / HEAT_S))
            self._emit(simulated_sample(due_s - start_s, self._gpus, load=load, heat=heat))
            due_s += self._interval_s


def sampler_of(
    simulation: Simulation | None, emit: Callable[[TelemetryRead], None], own_pids: Callable[[], set[int]]
) -> Telemetry:
    """Return the sampler of this machine, or of the simulated one."""
    if simulation is not None:
        return SimulatedSampler(TELEMETRY_S, emit, simulation.gpus)
    return Sampler(TELEMETRY_S, emit, own_pids)


def _ripple(elapsed_s: float, most: float) -> float:
    """Return a small change between -`most` and `most`."""
    return most * math.sin(2 * math.pi * elapsed_s / PERIOD_S)


def _agent(elapsed_s: float) -> GpuProcess:
    """Return the process of a simulated run."""
    shares = {"kernel_active_pct": Reading(float(round(96 + _ripple(elapsed_s, 3)))), "cpu_cores": Reading(1.0)}
    return GpuProcess(_PID, _RUN_BYTES, "you", "simulated agent", own=True, readings=shares)


def _gpu(index: int, elapsed_s: float, load: float, heat: float) -> GpuTelemetry:
    shifted_s = elapsed_s + 3 * index
    power_mw = _IDLE_MW + _LOAD_MW * load + _ripple(shifted_s, 800 + 12_000 * load)
    values = {
        "kernel_active_pct": round(load * (96 + _ripple(shifted_s, 3))),
        "memory_active_pct": round(load * (55 + _ripple(shifted_s, 5))),
        "memory_used_bytes": float(_RESERVED_BYTES + _RUN_BYTES * load),
        "memory_reserved_bytes": float(_RESERVED_BYTES), "memory_total_bytes": float(GPU_MEMORY_BYTES),
        "sm_clock_mhz": 1980.0 if load else 345.0, "memory_clock_mhz": 3201.0, "power_mw": power_mw,
        "power_average_mw": _IDLE_MW + _LOAD_MW * load, "temperature_c": round(34 + 32 * heat),
        "throttle_bits": 0.0 if load else 1.0, "throttled_power_cap_pct": 0.0,
        "pcie_tx_bytes_per_s": 1e6 * round(100 * load), "pcie_rx_bytes_per_s": 1e6 * round(5_000 * load),
        "power_limit_mw": _LIMIT_MW, "slowdown_temperature_c": 92.0, "sm_clock_max_mhz": 1980.0,
        "memory_clock_max_mhz": 3201.0, **_PCIE, "performance_state": 0.0 if load else 8.0,
    }  # fmt: skip
    readings = {
        key: Reading(round(float(values[key]), 3)) if key in values else Reading(None, "not-supported") for key in KEYS
    }
    return GpuTelemetry(
        index=index,
        uuid=f"GPU-SIM{index}",  # as the simulated agent calls it: rows are matched by UUID
        name="simulated GPU",
        pci_bus_id=f"00000000:{index:02X}:00.0",
        readings=readings,
        throttle=() if load else ("idle",),
        processes=(_agent(shifted_s),) if load else (),
        persistence=True,
    )
