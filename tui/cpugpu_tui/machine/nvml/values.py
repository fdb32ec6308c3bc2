"""The values of one GPU: their keys, and the fast and the slow tier that read them.

On an H200 the fast tier takes 0.6 ms (0.5 ms for the PCIe byte counters) and the slow one 4 to 18 ms, nearly all for
the energy counter. During a run the slow tier skips values that take over 0.2 ms.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cpugpu_tui.machine.limits import plausible, plausible_all
from cpugpu_tui.machine.nvml import calls, counters
from cpugpu_tui.machine.nvml.calls import mask_reading, throttle_bits
from cpugpu_tui.machine.nvml.counters import FINAL, LINKS, NOT_YET, Gpm, NvLink, Stamped, every, rate_per_s, share_pct
from cpugpu_tui.model import Reading

FAST_KEYS = (
    "kernel_active_pct", "memory_active_pct", "memory_used_bytes", "memory_reserved_bytes", "memory_total_bytes",
    "sm_clock_mhz", "memory_clock_mhz", "power_mw", "power_average_mw", "temperature_c", "throttle_bits",
    "throttled_power_cap_pct", "throttled_sync_boost_pct", "throttled_thermal_pct", "pcie_tx_bytes_per_s",
    "pcie_rx_bytes_per_s", "nvlink_tx_bytes_per_s", "nvlink_rx_bytes_per_s", "sm_occupancy_pct", "tensor_active_pct",
    "dram_active_pct",
)  # fmt: skip
"""Read at every sample: below 0.01 ms each on an H200, the PCIe counters 0.13 ms. Rates and shares of time are
differences of the driver's counters since the last sample, by its own time stamps. PCIe rates cover the last 20 ms if
the counters have 32 bits and wrap too often. The last three come from GPM and are `not-asked` by default."""

SLOW_KEYS = (
    "power_limit_mw", "slowdown_temperature_c", "temperature_margin_c", "memory_temperature_c", "fan_pct",
    "performance_state", "sm_clock_max_mhz", "memory_clock_max_mhz", "pcie_generation", "pcie_width",
    "pcie_max_generation", "pcie_max_width", "nvlink_links", "ecc_corrected_count", "ecc_uncorrected_count",
    "energy_mj", "throttled_hw_thermal_pct", "throttled_power_brake_pct",
)  # fmt: skip
"""Read at most every 5 s: energy takes 2.8 to 16 ms, the last two 0.7 ms each, the maximum clocks 1.6 ms."""

KEYS = (*FAST_KEYS, *SLOW_KEYS)
"""All keys of `GpuTelemetry.readings`; each is always there, with a number or a reason."""


def pcie_most_bytes_per_s(generation: float | None, width: float | None) -> float:
    """Return an upper bound of a link's rate: 0.25 GB/s per lane in generation 1, doubled by each generation.

    An unknown link counts as generation 6 with 16 lanes.
    """
    return 0.25e9 * 2 ** ((generation or 6) - 1) * (width or 16)


class FastTier:
    """Values that change all the time, and the counters behind the rates."""

    def __init__(self, gpm: Gpm | None) -> None:
        """`gpm` is None unless it is enabled."""
        self._gpm = gpm
        self._links = NvLink()
        self._counts: dict[str, Stamped] = {}
        self._glanced: dict[str, Stamped] = {}

    def glance(self, nvml: Any, handle: Any, now_us: int) -> bool:
        """Read PCIe counters that wrap between samples (32 bits: 4.3 GB), and return whether there are any.

        `read` must follow within some ten milliseconds. Raise NVMLError if the GPU is lost.
        """
        if any(self._counts.get(field.key, NOT_YET).bits < 64 for field in counters.PCIE):
            self._glanced = counters.read_fields(nvml, handle, counters.PCIE, now_us)
        return bool(self._glanced)

    def read(
        self, nvml: Any, handle: Any, links: Stamped, pcie_most_per_s: float, now_s: float, now_us: int
    ) -> dict[str, Reading]:
        """Return all readings of FAST_KEYS; raise NVMLError if the GPU is lost.

        `links` is the number of NVLinks. `now_s` is monotonic, `now_us` microseconds since the epoch.
        """
        asked = (counters.POWER_INSTANT, counters.POWER_AVERAGE, *counters.THROTTLED, *counters.PCIE)
        found = counters.read_fields(nvml, handle, asked, now_us)
        found |= self._links.read(nvml, handle, links, now_us)
        readings = plausible_all({
            **calls.utilisation_readings(nvml, handle),
            **calls.memory_readings(nvml, handle),
            **{key: calls.reading(calls.ask(nvml, handle, call)) for key, call in calls.FAST.items()},
            "throttle_bits": mask_reading(calls.ask(nvml, handle, throttle_bits)),
            **{key: value.reading(now_us) for key, value in self._derived(found, pcie_most_per_s).items()},
            **(self._gpm.read(nvml, handle, now_s) if self._gpm else every("not-asked")),
        })  # fmt: skip
        if readings["power_mw"].value is None:
            usage = calls.reading(calls.ask(nvml, handle, calls.power_usage_mw))
            readings["power_mw"] = plausible("power_mw", usage)
        self._counts, self._glanced = found, {}
        return readings

    def _derived(self, found: dict[str, Stamped], pcie_most_per_s: float) -> dict[str, Stamped]:
        """Return powers unchanged, and counters as shares and rates since their last reading."""
        shares = {field.key for field in counters.THROTTLED}
        pcie = {field.key for field in counters.PCIE}
        derived: dict[str, Stamped] = {}
        for key, value in found.items():
            before = self._counts.get(key)
            if key in shares:
                value = share_pct(before, value)
            elif key in pcie:
                value = rate_per_s(self._glanced.get(key) if value.bits < 64 else before, value, pcie_most_per_s)
            elif key.startswith("nvlink"):
                value = rate_per_s(before, value)
            derived[key] = value
        return derived

    def close(self, nvml: Any) -> None:
        """Free what the driver holds for us."""
        if self._gpm:
            self._gpm.close(nvml)


class SlowTier:
    """Values that rarely change or are costly, each with its time."""

    def __init__(self) -> None:
        self._values: dict[str, tuple[Reading, float]] = {}
        self._counts: dict[str, Stamped] = {}
        self.links = NOT_YET
        """Number of NVLinks."""

    def read(self, nvml: Any, handle: Any, quiet: bool, now_s: float, now_us: int) -> None:
        """Read the values; raise NVMLError if the GPU is lost. With `quiet`, costly values are left to age."""
        costly = () if quiet else (counters.ENERGY, *counters.THROTTLED_COSTLY)
        found = counters.read_fields(nvml, handle, (counters.MEMORY_TEMPERATURE, LINKS, *costly), now_us)
        self.links = found[LINKS.key]
        for field in counters.THROTTLED_COSTLY:
            if (count := found.get(field.key)) is not None:
                found[field.key] = share_pct(self._counts.get(field.key), count)
                self._counts[field.key] = count
        readings = {key: value.reading(now_us) for key, value in found.items()}
        asked = {**calls.SLOW, **({} if quiet else {**calls.COSTLY, **self._still_unknown()})}
        readings |= {key: calls.reading(calls.ask(nvml, handle, call)) for key, call in asked.items()}
        self._values |= {key: (reading, now_s) for key, reading in plausible_all(readings).items()}

    def readings(self, now_s: float) -> dict[str, Reading]:
        """Return all readings of SLOW_KEYS with their ages."""
        return {key: self._aged(key, now_s) for key in SLOW_KEYS}

    def value(self, key: str) -> float | None:
        """Return the last number under a key."""
        return self._values[key][0].value if key in self._values else None

    def _still_unknown(self) -> dict[str, calls.Call]:
        """Return the calls of ONCE without a final result yet."""
        known = {
            key for key, (reading, _) in self._values.items() if reading.value is not None or reading.reason in FINAL
        }
        return {key: call for key, call in calls.ONCE.items() if key not in known}

    def _aged(self, key: str, now_s: float) -> Reading:
        if key not in self._values:
            return Reading(None, "not-yet")
        reading, read_s = self._values[key]
        return replace(reading, age_s=reading.age_s + now_s - read_s)
