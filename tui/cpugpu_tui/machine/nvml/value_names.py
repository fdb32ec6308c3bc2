"""Keys of `GpuTelemetry.readings`, with units in their names, and how often each is read."""

from __future__ import annotations

FAST_KEYS = (
    "kernel_active_pct",
    "memory_active_pct",
    "memory_used_bytes",
    "memory_reserved_bytes",
    "memory_total_bytes",
    "sm_clock_mhz",
    "memory_clock_mhz",
    "power_mw",
    "power_average_mw",
    "temperature_c",
    "throttle_bits",
    "throttled_power_cap_pct",
    "throttled_sync_boost_pct",
    "throttled_thermal_pct",
    "pcie_tx_bytes_per_s",
    "pcie_rx_bytes_per_s",
    "nvlink_tx_bytes_per_s",
    "nvlink_rx_bytes_per_s",
    "sm_occupancy_pct",
    "tensor_active_pct",
    "dram_active_pct",
)
"""Read at every sample: below 0.01 ms each on an H200, the PCIe counters 0.13 ms. Rates and shares of time are
differences of the driver's counters since the last sample, by its own time stamps. PCIe rates cover the last 20 ms if
the counters have 32 bits and wrap too often. The last three come from GPM and are `not-asked` by default."""

SLOW_KEYS = (
    "power_limit_mw",
    "slowdown_temperature_c",
    "temperature_margin_c",
    "memory_temperature_c",
    "fan_pct",
    "performance_state",
    "sm_clock_max_mhz",
    "memory_clock_max_mhz",
    "pcie_generation",
    "pcie_width",
    "pcie_max_generation",
    "pcie_max_width",
    "nvlink_links",
    "ecc_corrected_count",
    "ecc_uncorrected_count",
    "energy_mj",
    "throttled_hw_thermal_pct",
    "throttled_power_brake_pct",
)
"""Read at most every 5 s: energy takes 2.8 to 16 ms, the last two 0.7 ms each, the maximum clocks 1.6 ms."""

KEYS = (*FAST_KEYS, *SLOW_KEYS)
"""All keys of `GpuTelemetry.readings`; each is always there, with a number or a reason."""
