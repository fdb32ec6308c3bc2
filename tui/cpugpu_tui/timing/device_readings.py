"""Read the machine's state at the edges of half-rounds and cases, never inside a timed block."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpugpu_tui.machine import device_state
from cpugpu_tui.machine.procfs import TICK_NS as CPU_TICK_NS
from cpugpu_tui.machine.procfs import Rapl
from cpugpu_tui.model import EDGES, Case, EnergyMeasured, GpuTelemetry, MachineRead, Reading, Simulation, TelemetryRead
from cpugpu_tui.model.throttling import MARKS
from cpugpu_tui.timing.channel import Emit
from cpugpu_tui.timing.timers import Watcher

if TYPE_CHECKING:
    from cpugpu_tui.machine.nvml.probe import GpuProbe  # imported lazily: ten modules, which would delay `Hello`


GPU_TICK_NS = 100e6
"""Refresh interval of energy counter and power on an H200, ns (method.md)."""

LONG_NS = 1e9
"""Shortest single call with an energy of its own: ten ticks of a GPU's counter."""


class RealTime:
    """Real clock and real sleeping, for machines that are not simulated."""

    def clock_ns(self) -> float:
        """Return the monotonic clock, ns."""
        return float(time.perf_counter_ns())

    def rest(self, duration_ns: float) -> None:
        """Sleep for so many ns."""
        time.sleep(duration_ns / 1e9)


class CpuWatcher(RealTime):
    """The CPU, of which only the energy can be read, with permission."""

    tick_ns = CPU_TICK_NS
    scope = "package"

    def __init__(self, root: str = "/") -> None:
        self._rapl = Rapl(root)

    def edge(self) -> None:
        """Return None: no counters are read on a CPU."""

    def state(self) -> None:
        """Return None: no state is read on a CPU."""

    def energy_mj(self) -> Reading:
        """Return the energy counter of all packages, mJ."""
        return self._rapl.energy_mj()

    def power_mw(self) -> Reading:
        """Return `not-supported`: a CPU has an energy counter but no power reading."""
        return Reading(None, "not-supported")


class GpuWatcher(RealTime):
    """One GPU, read through NVML."""

    tick_ns = GPU_TICK_NS

    def __init__(self, probe: GpuProbe, name: str) -> None:
        """`name` is the product name, which identifies modules that count CPU and GPU together."""
        self.edge, self.state, self.energy_mj, self.power_mw = probe.edge, probe.state, probe.energy_mj, probe.power_mw
        self.scope = "board" if probe.is_mig() else scope_of(name)


def scope_of(name: str) -> str:
    """Return the scope of the energy counter of a GPU outside MIG mode, from its product name."""
    # Grace-Hopper and Grace-Blackwell count the whole module with its CPU (GH200, GB200, GB300, GB10).
    return "module" if any(word.startswith(("GH", "GB")) for word in name.replace("-", " ").split()) else "gpu"


@dataclass(frozen=True)
class Meter:
    """An energy counter at one time."""

    reading: Reading
    at_ns: float

    @staticmethod
    def read(watcher: Watcher) -> Meter:
        """Read a device's counter now."""
        return Meter(watcher.energy_mj(), watcher.clock_ns())


class CaseEdges:
    """Reads the state of every GPU of a case before and after it."""

    def __init__(self, case: Case, watcher_of: Callable[[str], Watcher], emit: Emit) -> None:
        self._case = case
        self._watcher_of = watcher_of
        self._emit = emit
        self._begun_ns: dict[str, float] = {}

    def begin(self, device: str) -> Meter:
        """Read a device before its first call; return its energy counter, which is slow to read a second time."""
        watcher = self._watcher_of(device)
        self._begun_ns[device] = watcher.clock_ns()
        state = self._read(device, EDGES[0], 0.0)
        return Meter.read(watcher) if state is None else Meter(state.readings["energy_mj"], watcher.clock_ns())

    def end(self) -> None:
        """Read every device that `begin` has read, once."""
        while self._begun_ns:
            device, begun_ns = self._begun_ns.popitem()
            self._read(device, EDGES[1], self._watcher_of(device).clock_ns() - begun_ns)

    def _read(self, device: str, edge: str, elapsed_ns: float) -> device_state.State | None:
        state = self._watcher_of(device).state()
        if state is not None:
            self._emit(
                MachineRead(
                    case=self._case.key, device=device, edge=edge, readings=dict(state.readings),
                    processes=state.processes, elapsed_ns=elapsed_ns,
                )
            )  # fmt: skip
        return state


@dataclass(frozen=True)
class Passage:
    """Change of a GPU's counters between two edges."""

    sm_clock_end_mhz: float | None = None
    throttled_ns: dict[str, float] | None = None
    watched_ns: float = 0.0
    power_mw: float | None = None
    marks: tuple[str, ...] = ()


NOT_WATCHED = Passage()
"""Used on a CPU and for samples without edges."""


def passage(before: device_state.Edge | None, after: device_state.Edge | None) -> Passage:
    """Return throttling, clock and power between two edges, and the resulting marks."""
    if before is None or after is None:
        return NOT_WATCHED
    watched_ns = after.at_ns - before.at_ns
    throttled = device_state.counted(before.throttled_ns, after.throttled_ns)
    # In a shorter window, a counter step may belong to the time before it. `after.throttle` is always current.
    counts = throttled if throttled is not None and watched_ns >= device_state.COUNTER_STEP_NS else {}
    words = [word for word, ns in counts.items() if ns >= device_state.MARKED_SHARE * watched_ns]
    marks = tuple(dict.fromkeys(MARKS[word] for word in (*words, *after.throttle) if word in MARKS))
    return Passage(after.sm_clock_mhz, throttled, watched_ns, _power_mw(before, after), marks)


def _power_mw(before: device_state.Edge, after: device_state.Edge) -> float | None:
    """Return the power between two edges, mW; None if the sensor's window is longer."""
    if after.power_mw.value is None:
        return None
    point = device_state.PowerPoint(
        after.at_ns - after.power_mw.age_s * 1e9, after.power_mw.value, after.is_average_power
    )
    return device_state.power_inside([point], before.at_ns, after.at_ns).value


def energy_between(
    case: str, device: str, watcher: Watcher, before: Meter, after: Meter, calls: int, power_mw: tuple[float, ...] = ()
) -> EnergyMeasured:
    """Return the event for a window between two readings of a device's energy counter."""
    return EnergyMeasured(
        case=case, device=device, calls=calls, elapsed_ns=after.at_ns - before.at_ns, begin_mj=before.reading.value,
        end_mj=after.reading.value, tick_ns=watcher.tick_ns, scope=watcher.scope, power_mw=power_mw,
        reason=before.reading.reason or after.reading.reason,
    )  # fmt: skip


# ------------------------------------------------------------------ all GPUs, for a controller elsewhere


def driver_read(simulation: Simulation | None) -> TelemetryRead:
    """Return the readings of all GPUs, those of the simulated ones if the machine is simulated."""
    if simulation is not None:
        return TelemetryRead(gpus=tuple(_simulated(index, simulation) for index in range(simulation.gpus)))
    from cpugpu_tui.machine.nvml.session import Nvml  # few plans need it

    nvml = Nvml()
    try:
        gpus, problem = nvml.read()
    finally:
        nvml.close()
    return TelemetryRead(gpus=gpus, problem=problem)


def _simulated(index: int, simulation: Simulation) -> GpuTelemetry:
    values = {
        "power_limit_mw": 300_000.0, "sm_clock_max_mhz": 1980.0, "memory_clock_max_mhz": 3201.0,
        "memory_total_bytes": float(16 << 30), "ecc_uncorrected_count": 0.0, "ecc_corrected_count": 0.0,
        "pcie_generation": 4.0, "pcie_width": float(simulation.pcie_width), "pcie_max_generation": 4.0,
        "pcie_max_width": 16.0,
    }  # fmt: skip
    readings = {name: Reading(value) for name, value in values.items()}
    return GpuTelemetry(
        index, f"GPU-SIM{index}", "simulated GPU", f"00000000:{index:02X}:00.0", readings, processes=(),
        persistence=True,
    )  # fmt: skip
