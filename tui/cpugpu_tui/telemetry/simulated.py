"""Readings of a machine that does not exist, for a look at table, panel and traces without a GPU."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from cpugpu_tui.machine.nvml.value_names import KEYS
from cpugpu_tui.model import GpuTelemetry, Reading, TelemetryRead
from cpugpu_tui.telemetry.sampler import STOP_S

PERIOD_S = 20.0
"""Time from one full load of the made-up GPU to the next."""
_LIMIT_MW = 700_000.0
_TOTAL_BYTES = float(141 << 30)


def simulated_sample(elapsed_s: float, gpus: int = 1) -> TelemetryRead:
    """Return what a made-up machine reads `elapsed_s` after its start; only the clocks of the event are real."""
    return TelemetryRead(
        gpus=tuple(_gpu(index, elapsed_s) for index in range(gpus)),
        host={
            "cpu_pct": Reading(round(50 - 40 * _load(elapsed_s), 1)),
            "load_1min": Reading(0.5),
            "memory_used_bytes": Reading(float(8 << 30)),
            "memory_total_bytes": Reading(float(64 << 30)),
            "cpu_freq_mhz": Reading(2400.0),
        },
        problem=None if gpus else "The simulated machine has no GPU. Leave out gpus=0 to have one.",
        wall_ns=time.time_ns(),
        mono_ns=time.monotonic_ns(),
    )


class SimulatedSampler:
    """Emits what a made-up machine reads, at once and then every `interval_s`. Takes the place of a `Sampler`."""

    def __init__(self, interval_s: float, emit: Callable[[TelemetryRead], None], gpus: int) -> None:
        """`emit` is called on the thread `telemetry`."""
        self.quiet = False
        """As of a `Sampler`; nobody is disturbed."""
        self._interval_s = interval_s
        self._emit = emit
        self._gpus = gpus
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._tick_until_stopped, name="telemetry", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End it; nothing is emitted afterwards."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(STOP_S)

    def _tick_until_stopped(self) -> None:
        start_s = due_s = time.monotonic()
        while not self._stopping.wait(max(0.0, due_s - time.monotonic())):
            self._emit(simulated_sample(due_s - start_s, self._gpus))
            due_s += self._interval_s


def _load(elapsed_s: float) -> float:
    """Return the load between 0 and 1: it rises and falls."""
    return (1 - math.cos(2 * math.pi * elapsed_s / PERIOD_S)) / 2


def _gpu(index: int, elapsed_s: float) -> GpuTelemetry:
    load = _load(elapsed_s + 3 * index)
    capped = load > 0.95
    values = {
        "kernel_active_pct": round(100 * load),
        "memory_active_pct": round(60 * load),
        "memory_used_bytes": _TOTAL_BYTES / 100 * round(50 * load),
        "memory_reserved_bytes": float(600 << 20),
        "memory_total_bytes": _TOTAL_BYTES,
        "sm_clock_mhz": 345.0 if not load else 1575.0 if capped else 1980.0,
        "memory_clock_mhz": 3201.0,
        "power_mw": min(78_000 + 650_000 * load, _LIMIT_MW),
        "power_average_mw": min(78_000 + 650_000 * _load(elapsed_s + 3 * index - 0.5), _LIMIT_MW),
        "temperature_c": round(32 + 35 * load),
        "throttle_bits": 4.0 if capped else 0.0 if load else 1.0,
        "throttled_power_cap_pct": 80.0 if capped else 0.0,
        "pcie_tx_bytes_per_s": 1e6 * round(100 * load),
        "pcie_rx_bytes_per_s": 1e6 * round(5_000 * load),
        "power_limit_mw": _LIMIT_MW,
        "slowdown_temperature_c": 92.0,
        "sm_clock_max_mhz": 1980.0,
        "memory_clock_max_mhz": 3201.0,
        "performance_state": 0.0,
    }
    readings = {
        key: Reading(round(float(values[key]), 3)) if key in values else Reading(None, "not-supported") for key in KEYS
    }
    return GpuTelemetry(
        index=index,
        uuid=f"GPU-SIM{index}",  # as the simulated agent calls it: rows are matched by it
        name="simulated GPU",
        pci_bus_id=f"00000000:{index:02X}:00.0",
        readings=readings,
        throttle=("power-capped",) if capped else () if load else ("idle",),
        processes=(),
        persistence=True,
    )
