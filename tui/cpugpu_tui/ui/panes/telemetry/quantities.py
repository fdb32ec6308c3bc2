"""How each reading of a GPU and of the host is shown: label, number with unit, range of its history."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from cpugpu_tui.model import Reading
from cpugpu_tui.model.quantities import gib, significant

STALE_S = 2.5
"""Readings older than this (two readings, one per second) are dimmed."""
SLOW_S = 6.0
"""Greatest normal age of readings that are taken every five seconds."""
SLOW_STALE_S = 12.5
"""Like STALE_S, for readings taken every five seconds: the host's clock and quota, a GPU's limits."""
LANE_BYTES_PER_S = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
"""PCIe generation → bytes per second of one lane in one direction, after line coding."""
NVLINK_BYTES_PER_S = 25e9
"""Per link and direction, from Volta to Hopper (18 links: 450 GB/s). Faster links reach the edge of the range."""

Readings = Mapping[str, Reading]


class Quantity(NamedTuple):
    """How one key of `readings` is shown."""

    label: str
    text: Callable[[float], str]
    """Formats a number with its unit."""
    top: float | str | None = None
    """Upper end of its history (the lower is 0): a number, or the key of a reading. None if it has no history."""
    else_top: float | None = None
    """Upper end if that reading is unknown. The range never follows the values, so that bars stay comparable."""
    is_slow: bool = False
    """Whether it is read only every five seconds."""

    @property
    def stale_s(self) -> float:
        """Age in seconds above which a reading is old."""
        return SLOW_STALE_S if self.is_slow else STALE_S

    def is_stale(self, reading: Reading) -> bool:
        """Whether a number is older than `stale_s`."""
        return reading.value is not None and reading.age_s > self.stale_s


def percent_text(value: float) -> str:
    """Format a percentage: `97%`; `<1%` for values between 0 and 0.5."""
    return "<1%" if 0 < value < 0.5 else f"{value:.0f}%"


def bytes_text(value: float) -> str:
    """Format bytes: `12.1 GiB`."""
    return f"{gib(value)} GiB"


def bandwidth_text(value: float) -> str:
    """Format a rate: `63 GB/s` or `300 MB/s`."""
    return f"{value / 1e9:.3g} GB/s" if value >= 1e9 else f"{value / 1e6:.0f} MB/s"


def _form(form: str, scale: float = 1.0) -> Callable[[float], str]:
    return lambda value: form.format(value / scale)


def _energy_text(value: float) -> str:
    joules = value / 1e3
    for size, unit in ((1e9, "GJ"), (1e6, "MJ"), (1e3, "kJ")):
        if joules >= size:
            return f"{significant(joules / size)} {unit}"
    return f"{significant(joules)} J"


def _share(label: str, is_slow: bool = False) -> Quantity:
    return Quantity(label, percent_text, 100.0, is_slow=is_slow)


_MHZ, _WATTS, _CELSIUS, _COUNT = _form("{:.0f} MHz"), _form("{:.0f} W", 1000.0), _form("{:.0f} C"), _form("{:,.0f}")

GPU_GROUPS: dict[str, dict[str, Quantity]] = {
    "Work": {
        "kernel_active_pct": _share("kernel-active"),
        "memory_active_pct": _share("memory-active"),
        "sm_occupancy_pct": _share("SM occupancy"),
        "tensor_active_pct": _share("tensor cores active"),
        "dram_active_pct": _share("DRAM active"),
    },
    "Memory": {
        "memory_used_bytes": Quantity("used", bytes_text, "memory_total_bytes"),
        "memory_reserved_bytes": Quantity("reserved by the driver", bytes_text, "memory_total_bytes"),
        "memory_total_bytes": Quantity("total", bytes_text),
    },
    "Clocks": {
        "sm_clock_mhz": Quantity("SM clock", _MHZ, "sm_clock_max_mhz", 3000.0),
        "sm_clock_max_mhz": Quantity("max SM clock", _MHZ, is_slow=True),
        "memory_clock_mhz": Quantity("memory clock", _MHZ, "memory_clock_max_mhz", 15000.0),
        "memory_clock_max_mhz": Quantity("max memory clock", _MHZ, is_slow=True),
        "performance_state": Quantity("performance state", _form("P{:.0f}"), is_slow=True),
    },
    "Power": {
        "power_mw": Quantity("power now", _WATTS, "power_limit_mw", 1_000_000.0),
        "power_average_mw": Quantity("power, 1 s average", _WATTS, "power_limit_mw", 1_000_000.0),
        "power_limit_mw": Quantity("power limit", _WATTS, is_slow=True),
        "energy_mj": Quantity("energy since driver load", _energy_text, is_slow=True),
    },
    "Temperature": {
        "temperature_c": Quantity("GPU", _CELSIUS, "slowdown_temperature_c", 100.0),
        "slowdown_temperature_c": Quantity("throttles at", _CELSIUS, is_slow=True),
        "temperature_margin_c": Quantity("margin to throttling", _CELSIUS, 100.0, is_slow=True),
        "memory_temperature_c": Quantity("memory", _CELSIUS, 110.0, is_slow=True),
        "fan_pct": _share("fan", is_slow=True),
    },
    "Throttling (share of time)": {
        "throttled_power_cap_pct": _share("by the power cap"),
        "throttled_sync_boost_pct": _share("by sync boost"),
        "throttled_thermal_pct": _share("by heat (driver)"),
        "throttled_hw_thermal_pct": _share("by heat (hardware)", is_slow=True),
        "throttled_power_brake_pct": _share("by the power brake", is_slow=True),
        "throttle_bits": Quantity("current reasons (bit mask)", lambda value: f"0x{int(value):x}"),
    },
    "Links": {
        "pcie_generation": Quantity("PCIe generation", _COUNT, "pcie_max_generation", 6.0, is_slow=True),
        "pcie_max_generation": Quantity("max PCIe generation", _COUNT, is_slow=True),
        "pcie_width": Quantity("PCIe lanes", _COUNT, "pcie_max_width", 16.0, is_slow=True),
        "pcie_max_width": Quantity("max PCIe lanes", _COUNT, is_slow=True),
        "pcie_tx_bytes_per_s": Quantity("PCIe, GPU to host", bandwidth_text, "pcie"),
        "pcie_rx_bytes_per_s": Quantity("PCIe, host to GPU", bandwidth_text, "pcie"),
        "nvlink_links": Quantity("NVLink links", _COUNT, is_slow=True),
        "nvlink_tx_bytes_per_s": Quantity("NVLink, sent", bandwidth_text, "nvlink"),
        "nvlink_rx_bytes_per_s": Quantity("NVLink, received", bandwidth_text, "nvlink"),
    },
    "Memory errors (ECC) since driver load": {
        "ecc_corrected_count": Quantity("corrected", _COUNT, is_slow=True),
        "ecc_uncorrected_count": Quantity("uncorrected", _COUNT, is_slow=True),
    },
}  # fmt: skip
"""Heading → key → how it is shown, in reading order; holds every key of `machine.nvml.values`."""

GPU = {key: quantity for group in GPU_GROUPS.values() for key, quantity in group.items()}
"""`GPU_GROUPS` without the headings."""

HOST = {
    "cpu_pct": _share("CPU busy"),
    "load_1min": Quantity("load, 1 min average", _form("{:.2f}")),
    "memory_used_bytes": Quantity("memory used", bytes_text, "memory_total_bytes"),
    "memory_total_bytes": Quantity("memory total", bytes_text),
    "cpu_freq_mhz": Quantity("CPU clock", _MHZ, 6000.0, is_slow=True),
    "cpu_quota_cores": Quantity("cores allowed (cgroup)", _form("{:.3g}"), is_slow=True),
}
"""Keys of `TelemetryRead.host`, in reading order."""

PROCESS = {
    "kernel_active_pct": _share("GPU share", is_slow=True),
    "cpu_cores": Quantity("CPU share", lambda value: f"{value:.{1 if value < 99.95 else 0}f} cores", is_slow=True),
}
"""Keys of `GpuProcess.readings`, in reading order."""


def known(readings: Readings, key: str) -> float | None:
    """Return a reading's number; None if there is none."""
    reading = readings.get(key)
    return reading.value if reading is not None else None


def top_of(quantity: Quantity, readings: Readings) -> float | None:
    """Return the upper end of a history's range; None if it has no fixed one."""
    if isinstance(quantity.top, float) or quantity.top is None:
        return quantity.top
    if quantity.top == "pcie":
        return pcie_bytes_per_s(readings)
    if quantity.top == "nvlink":
        links = known(readings, "nvlink_links")
        return links * NVLINK_BYTES_PER_S if links else None
    return known(readings, quantity.top) or quantity.else_top


def pcie_bytes_per_s(readings: Readings) -> float | None:
    """Return the slot's rate in one direction at its maximum; an idle link is slower."""
    generation, lanes = known(readings, "pcie_max_generation"), known(readings, "pcie_max_width")
    if generation is None or lanes is None:
        return None
    return LANE_BYTES_PER_S.get(int(generation), LANE_BYTES_PER_S[6]) * lanes
