"""Plausible ranges of readings: values outside are rejected even if the return code is success.

Broken drivers return garbage, such as 4,294,967,294 as a PCIe generation or 2,000,000,000 processes.
"""

from __future__ import annotations

from cpugpu_tui.model import Reading

MOST_GPUS = 64
"""Of one machine; the largest servers have 16."""
MOST_PROCESSES = 4096
"""Of one GPU or slice; the buffer for them takes 96 KiB."""
MOST_SLICES = 16
"""Of one GPU; MIG supports at most 7."""
MOST_LINKS = 36
"""NVLinks of one GPU: NVML_NVLINK_MAX_LINKS."""
MOST_CPUS = 8192
"""Of one machine; the maximum of Linux."""

_PERCENT = (0.0, 100.0)
_BYTES = (0.0, 2.0**50)
_MHZ = (0.0, 20_000.0)
_POWER_MW = (0.0, 20_000_000.0)
_TEMPERATURE_C = (-100.0, 300.0)
_COUNT = (0.0, 1e15)
_ENERGY_MJ = (0.0, 1e18)
"""1 kW for thirty years."""
COUNTED_NS = (0.0, 1e18)
"""Thirty years."""
MOST_SHARE = 10.0
"""Largest growth of a counter of nanoseconds, as a multiple of the time between two readings. Counter and time are not
read at the same instant, so values above 1 occur."""

LIMITS: dict[str, tuple[float, float]] = {
    # A GPU
    "kernel_active_pct": _PERCENT,
    "memory_active_pct": _PERCENT,
    "memory_used_bytes": _BYTES,
    "memory_reserved_bytes": _BYTES,
    "memory_total_bytes": _BYTES,
    "sm_clock_mhz": _MHZ,
    "memory_clock_mhz": _MHZ,
    "sm_clock_max_mhz": _MHZ,
    "memory_clock_max_mhz": _MHZ,
    "power_mw": _POWER_MW,
    "power_average_mw": _POWER_MW,
    "power_limit_mw": _POWER_MW,
    "temperature_c": _TEMPERATURE_C,
    "slowdown_temperature_c": _TEMPERATURE_C,
    "temperature_margin_c": (-300.0, 300.0),
    "memory_temperature_c": _TEMPERATURE_C,
    "fan_pct": (0.0, 200.0),  # NVML: a fan may turn faster than its nominal speed
    "performance_state": (0.0, 15.0),
    "throttle_bits": (0.0, 2.0**64),
    "throttled_power_cap_pct": _PERCENT,
    "throttled_sync_boost_pct": _PERCENT,
    "throttled_thermal_pct": _PERCENT,
    "throttled_hw_thermal_pct": _PERCENT,
    "throttled_power_brake_pct": _PERCENT,
    "throttled_power_cap_ns": COUNTED_NS,
    "throttled_sync_boost_ns": COUNTED_NS,
    "throttled_thermal_ns": COUNTED_NS,
    "throttled_hw_thermal_ns": COUNTED_NS,
    "throttled_power_brake_ns": COUNTED_NS,
    "pcie_generation": (0.0, 10.0),
    "pcie_max_generation": (0.0, 10.0),
    "pcie_width": (0.0, 32.0),
    "pcie_max_width": (0.0, 32.0),
    "pcie_tx_bytes_per_s": (0.0, 1e13),
    "pcie_rx_bytes_per_s": (0.0, 1e13),
    "nvlink_links": (0.0, float(MOST_LINKS)),
    "nvlink_tx_bytes_per_s": (0.0, 1e14),
    "nvlink_rx_bytes_per_s": (0.0, 1e14),
    "sm_occupancy_pct": (0.0, 110.0),  # GPM's are quotients of counters that are not read at one instant
    "tensor_active_pct": (0.0, 110.0),
    "dram_active_pct": (0.0, 110.0),
    "ecc_corrected_count": _COUNT,
    "ecc_uncorrected_count": _COUNT,
    "energy_mj": _ENERGY_MJ,
    # A process
    "cpu_cores": (0.0, float(MOST_CPUS)),
    # The host
    "cpu_pct": _PERCENT,
    "cpu_freq_mhz": _MHZ,
    "cpu_quota_cores": (0.0, 1e6),
    "load_1min": (0.0, 1e7),
}
"""Key of a reading → its smallest and largest possible value, in the key's unit."""


def plausible(key: str, reading: Reading) -> Reading:
    """Return the reading, or the reason `out-of-range` (also for NaN)."""
    if reading.value is None:
        return reading
    least, most = LIMITS[key]
    return reading if least <= reading.value <= most else Reading(None, "out-of-range")


def plausible_all(readings: dict[str, Reading]) -> dict[str, Reading]:
    """Apply `plausible` to all readings."""
    return {key: plausible(key, reading) for key, reading in readings.items()}
