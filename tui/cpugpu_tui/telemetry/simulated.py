"""Telemetry of a simulated machine: idle, and loaded while a simulated run is live."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from cpugpu_tui.machine.nvml.values import KEYS
from cpugpu_tui.model import GpuProcess, GpuTelemetry, Reading, TelemetryRead
from cpugpu_tui.model.simulation import GPU_MEMORY_BYTES, Simulation
from cpugpu_tui.telemetry.sampler import Sampler, Telemetry

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
