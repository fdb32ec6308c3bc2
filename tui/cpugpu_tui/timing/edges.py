"""What is asked of a device's machine at the edges of half-rounds and cases, and never inside a timed block."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpugpu_tui.machine.device_state import (
    COUNTER_STEP_NS,
    MARKED_SHARE,
    Edge,
    PowerPoint,
    State,
    counted,
    power_inside,
)
from cpugpu_tui.machine.rapl import TICK_NS as CPU_TICK_NS
from cpugpu_tui.machine.rapl import Rapl
from cpugpu_tui.model import EDGES, Case, EnergyMeasured, MachineRead, Reading
from cpugpu_tui.timing.emitter import Emit
from cpugpu_tui.timing.timers import Watcher
from cpugpu_tui.timing.timers.settled_clock import MARKS

if TYPE_CHECKING:
    from cpugpu_tui.machine.nvml import GpuProbe  # ten modules, which a greeting need not wait for

GPU_TICK_NS = 100e6
"""Energy counter and power are refreshed this often on an H200 (method.md)."""

LONG_NS = 1e9
"""A single call from this length on has an energy of its own: ten ticks of a GPU's counter."""


class RealTime:
    """The clock of the machine that we are on."""

    def clock_ns(self) -> float:
        """Return the monotonic clock."""
        return float(time.perf_counter_ns())

    def rest(self, duration_ns: float) -> None:
        """Sleep."""
        time.sleep(duration_ns / 1e9)


class CpuWatcher(RealTime):
    """The processor: nothing but its energy, where it may be read."""

    tick_ns = CPU_TICK_NS
    scope = "package"

    def __init__(self, root: str = "/") -> None:
        self._rapl = Rapl(root)

    def edge(self) -> None:
        """Return nothing: a CPU has no counters of ours."""

    def state(self) -> None:
        """Return nothing."""

    def energy_mj(self) -> Reading:
        """Return the energy of all packages."""
        return self._rapl.energy_mj()

    def power_mw(self) -> Reading:
        """Return the reason: a processor has a counter only."""
        return Reading(None, "not-supported")


class GpuWatcher(RealTime):
    """One GPU, through NVML."""

    tick_ns = GPU_TICK_NS

    def __init__(self, probe: GpuProbe, name: str) -> None:
        """`name` is the GPU's, which tells modules that count CPU and GPU together."""
        self._probe = probe
        self.scope = "board" if probe.is_mig() else scope_of(name)

    def edge(self) -> Edge:
        """Return clock, throttle reasons and their cheap counters."""
        return self._probe.edge()

    def state(self) -> State:
        """Return temperature, memory, energy, all throttle counters and processes."""
        return self._probe.state()

    def energy_mj(self) -> Reading:
        """Return the energy since the driver was loaded."""
        return self._probe.energy_mj()

    def power_mw(self) -> Reading:
        """Return the instantaneous power."""
        return self._probe.power_mw()


def scope_of(name: str) -> str:
    """Return what the energy counter of a GPU of this name counts, when it is not in MIG mode."""
    # Grace-Hopper and Grace-Blackwell count the whole module, processor included (GH200, GB200, GB300, GB10).
    return "module" if any(word.startswith(("GH", "GB")) for word in name.replace("-", " ").split()) else "gpu"


@dataclass(frozen=True)
class Meter:
    """An energy counter at one moment."""

    reading: Reading
    at_ns: float

    @staticmethod
    def read(watcher: Watcher) -> Meter:
        """Read a device's counter now."""
        return Meter(watcher.energy_mj(), watcher.clock_ns())


class CaseEdges:
    """Reads the machine at both sides of a case, on every GPU of it."""

    def __init__(self, case: Case, watcher_of: Callable[[str], Watcher], emit: Emit) -> None:
        self._case = case
        self._watcher_of = watcher_of
        self._emit = emit
        self._begun_ns: dict[str, float] = {}

    def begin(self, device: str) -> Meter:
        """Read a device before its first call; return its energy counter, which would be slow to read once more."""
        watcher = self._watcher_of(device)
        self._begun_ns[device] = watcher.clock_ns()
        state = self._read(device, EDGES[0], 0.0)
        return Meter.read(watcher) if state is None else Meter(state.readings["energy_mj"], watcher.clock_ns())

    def end(self) -> None:
        """Read every device that began, once."""
        while self._begun_ns:
            device, begun_ns = self._begun_ns.popitem()
            self._read(device, EDGES[1], self._watcher_of(device).clock_ns() - begun_ns)

    def _read(self, device: str, edge: str, elapsed_ns: float) -> State | None:
        state = self._watcher_of(device).state()
        if state is not None:
            self._emit(
                MachineRead(
                    case=self._case.key,
                    device=device,
                    edge=edge,
                    readings=dict(state.readings),
                    processes=state.processes,
                    elapsed_ns=elapsed_ns,
                )
            )
        return state


@dataclass(frozen=True)
class Passage:
    """What happened to a GPU between two edges."""

    sm_clock_end_mhz: float | None = None
    throttled_ns: dict[str, float] | None = None
    watched_ns: float = 0.0
    power_mw: float | None = None
    marks: tuple[str, ...] = ()


NOT_WATCHED = Passage()
"""Of a CPU, and of what was timed without edges."""


def passage(before: Edge | None, after: Edge | None) -> Passage:
    """Return what the counters say of the time between two edges, and the marks that follow."""
    if before is None or after is None:
        return NOT_WATCHED
    watched_ns = after.at_ns - before.at_ns
    throttled = counted(before.throttled_ns, after.throttled_ns)
    # A step of the counters in a shorter window may be of what was before it; the mask below is of now.
    counts = throttled if throttled is not None and watched_ns >= COUNTER_STEP_NS else {}
    words = [word for word, ns in counts.items() if ns >= MARKED_SHARE * watched_ns]
    marks = tuple(dict.fromkeys(MARKS[word] for word in (*words, *after.throttle) if word in MARKS))
    return Passage(after.sm_clock_mhz, throttled, watched_ns, _power_mw(before, after), marks)


def _power_mw(before: Edge, after: Edge) -> float | None:
    """Return the power between two edges, as far as the sensor looked at nothing else."""
    if after.power_mw.value is None:
        return None
    point = PowerPoint(after.at_ns - after.power_mw.age_s * 1e9, after.power_mw.value, after.is_average_power)
    return power_inside([point], before.at_ns, after.at_ns).value


def energy_between(
    case: str, device: str, watcher: Watcher, before: Meter, after: Meter, calls: int, power_mw: tuple[float, ...] = ()
) -> EnergyMeasured:
    """Return the event of a window between two readings of a device's counter."""
    return EnergyMeasured(
        case=case,
        device=device,
        calls=calls,
        elapsed_ns=after.at_ns - before.at_ns,
        begin_mj=before.reading.value,
        end_mj=after.reading.value,
        tick_ns=watcher.tick_ns,
        scope=watcher.scope,
        power_mw=power_mw,
        reason=before.reading.reason or after.reading.reason,
    )
