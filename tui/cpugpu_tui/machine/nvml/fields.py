"""Field values: many numbers in one call, each with its own time stamp, type and return code.

Their numbers are ours to name: nvidia-ml-py and drivers learn the names years apart, the numbers never change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from cpugpu_tui.machine.nvml.counters import Stamped
from cpugpu_tui.machine.nvml.returns import GONE, NO_NUMBERS, reason_of, reason_of_field

SANE_US = 60_000_000
"""A stamp older than this, or as far in the future, is no stamp: an H200's are microseconds old, its sensors' 0.1 s."""


@dataclass(frozen=True)
class Field:
    """What is asked under which key."""

    key: str
    number: int
    """NVML_FI_DEV_…"""
    scope: int = 0
    """Which part of the GPU; for NVLink the link."""


POWER_AVERAGE, POWER_INSTANT = Field("power_average_mw", 185), Field("power_mw", 186)
THROTTLED_BY = {
    "power-capped": Field("throttled_power_cap_pct", 74),
    "sync-boost": Field("throttled_sync_boost_pct", 76),
    "thermal": Field("throttled_thermal_pct", 269),
}
"""Throttle word → its counter: nanoseconds since the driver was loaded; below 0.01 ms each."""
THROTTLED_BY_COSTLY = {
    "hw-thermal": Field("throttled_hw_thermal_pct", 270),
    "power-brake": Field("throttled_power_brake_pct", 271),
}
"""The same, but 0.7 ms each."""
THROTTLED, THROTTLED_COSTLY = tuple(THROTTLED_BY.values()), tuple(THROTTLED_BY_COSTLY.values())
PCIE = (Field("pcie_tx_bytes_per_s", 197), Field("pcie_rx_bytes_per_s", 198))
"""Bytes; 0.13 ms each. An H200 gives them as 32-bit numbers, which is what the kernel module counts them in
(NV2080_CTRL_CMD_BUS_GET_PEX_UTIL_COUNTERS): at 63 GB/s such a counter goes round every 68 ms."""
MEMORY_TEMPERATURE = Field("memory_temperature_c", 82)
ENERGY = Field("energy_mj", 83)
"""Millijoules since the driver was loaded; 2.8 to 16 ms."""

_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Members of the union by nvmlValueType_t."""
_BITS = {1: 32, 5: 32, 6: 16}


def decoded(raw: Any, now_us: int) -> Stamped:
    """Return one answered c_nvmlFieldValue_t; `now_us` is its time when the driver gives none."""
    kind = int(raw.valueType)
    if raw.nvmlReturn != 0:
        return Stamped(None, reason_of_field(raw.nvmlReturn))
    if not 0 <= kind < len(_MEMBERS):
        return Stamped(None, "unknown")
    value = getattr(raw.value, _MEMBERS[kind])
    if not isfinite(value) or value in NO_NUMBERS:
        return Stamped(None, "no-value")
    is_stamped = abs(now_us - raw.timestamp) <= SANE_US
    return Stamped(value, None, int(raw.timestamp) if is_stamped else now_us, is_stamped, _BITS.get(kind, 64))


def read_fields(nvml: Any, handle: Any, fields: Sequence[Field], now_us: int) -> dict[str, Stamped]:
    """Return all fields in one call by their keys; raise NVMLError when the GPU is lost.

    `now_us` is the host's clock, microseconds since the epoch.
    """
    if not fields:
        return {}
    try:
        values = nvml.nvmlDeviceGetFieldValues(handle, [(field.number, field.scope) for field in fields])
    except nvml.NVMLError as error:
        if error.value in GONE:
            raise
        return {field.key: Stamped(None, reason_of(error.value)) for field in fields}
    except Exception:  # noqa: BLE001 - as in `ask`
        return {field.key: Stamped(None, "call-failed") for field in fields}
    for raw in values:
        if raw.nvmlReturn in GONE:
            raise nvml.NVMLError(raw.nvmlReturn)
    return {field.key: decoded(raw, now_us) for field, raw in zip(fields, values, strict=True)}
