"""Plausible ranges of readings: values outside are rejected even if the return code is success.

Broken drivers return garbage, such as 4,294,967,294 as a PCIe generation or 2,000,000,000 processes.
"""

from __future__ import annotations

from cpugpu_tui import model

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

COUNTED_NS = (0.0, 1e18)
"""Range of a counter of nanoseconds: up to thirty years."""
MOST_SHARE = 10.0
"""A counter of nanoseconds may grow by at most this multiple of the time between two readings. It exceeds 1 because
counter and clock are not read at the same instant."""

_RANGES: tuple[tuple[float, float, str], ...] = (
    (0.0, 100.0, "kernel_active_pct memory_active_pct throttled_power_cap_pct throttled_sync_boost_pct"
                 " throttled_thermal_pct throttled_hw_thermal_pct throttled_power_brake_pct cpu_pct"),
    (0.0, 110.0, "sm_occupancy_pct tensor_active_pct dram_active_pct"),  # quotients of counters read one after another
    (0.0, 200.0, "fan_pct"),  # NVML: a fan may turn faster than its nominal speed
    (0.0, 2.0**50, "memory_used_bytes memory_reserved_bytes memory_total_bytes"),
    (0.0, 1e13, "pcie_tx_bytes_per_s pcie_rx_bytes_per_s"),
    (0.0, 1e14, "nvlink_tx_bytes_per_s nvlink_rx_bytes_per_s"),
    (0.0, 10.0, "pcie_generation pcie_max_generation"),
    (0.0, 32.0, "pcie_width pcie_max_width"),
    (0.0, float(MOST_LINKS), "nvlink_links"),
    (0.0, 20_000.0, "sm_clock_mhz memory_clock_mhz sm_clock_max_mhz memory_clock_max_mhz cpu_freq_mhz"),
    (0.0, 20_000_000.0, "power_mw power_average_mw power_limit_mw"),
    (0.0, 1e18, "energy_mj"),  # 1 kW for thirty years
    (-100.0, 300.0, "temperature_c slowdown_temperature_c memory_temperature_c"),
    (-300.0, 300.0, "temperature_margin_c"),
    (0.0, 15.0, "performance_state"),
    (0.0, 2.0**64, "throttle_bits"),
    (*COUNTED_NS, "throttled_power_cap_ns throttled_sync_boost_ns throttled_thermal_ns throttled_hw_thermal_ns"
                  " throttled_power_brake_ns"),
    (0.0, 1e15, "ecc_corrected_count ecc_uncorrected_count"),
    (0.0, float(MOST_CPUS), "cpu_cores"),
    (0.0, 1e6, "cpu_quota_cores"),
    (0.0, 1e7, "load_1min"),
)  # fmt: skip
"""Smallest and largest possible value, in the unit of the keys, and the keys of the readings that have these limits."""

LIMITS = {key: (least, most) for least, most, keys in _RANGES for key in keys.split()}
"""Key of a reading → its smallest and largest possible value."""


def plausible(key: str, reading: model.Reading) -> model.Reading:
    """Return the reading, or the reason `out-of-range` (also for NaN)."""
    if reading.value is None:
        return reading
    least, most = LIMITS[key]
    return reading if least <= reading.value <= most else model.Reading(None, "out-of-range")


def plausible_all(readings: dict[str, model.Reading]) -> dict[str, model.Reading]:
    """Apply `plausible` to all readings."""
    return {key: plausible(key, reading) for key, reading in readings.items()}
