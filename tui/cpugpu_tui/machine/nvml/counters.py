"""Field values (many numbers in one call, each with time stamp, type and return code) and their differences.

Fields are named by number here, because nvidia-ml-py and drivers learn their names years apart. A counter that
decreases has wrapped if it has 32 bits; otherwise it was reset (64 bits of bytes last nine years at 64 GB/s). A 32-bit
counter that may have wrapped more than once is useless.

GPM, the counters of Hopper and later, shows how full the SMs are. A number is the difference of two samples and takes
0.7 ms on an H200. It shows more than `kernel_active_pct`, which is 100 % both for a matrix product with the tensor
cores at 56 % and for a loop on one SM.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, NamedTuple

from cpugpu_tui.machine.limits import MOST_LINKS, MOST_SHARE
from cpugpu_tui.machine.nvml.calls import GONE, NO_NUMBERS, Call, ask, newest, reason_of, reason_of_field
from cpugpu_tui.model import Reading
from cpugpu_tui.model.throttling import SHARE_KEYS


@dataclass(frozen=True)
class Stamped:
    """A value with its time, or the reason why it is missing."""

    value: float | None
    reason: str | None = None
    """A key of `machine.text.REASONS`."""
    at_us: int = 0
    """Microseconds since the epoch."""
    is_stamped: bool = False
    """Whether `at_us` comes from the driver; otherwise it is the time of the call."""
    bits: int = 64
    """Width of the value: a counter wraps at 2 to this power."""

    def reading(self, now_us: int) -> Reading:
        """Return a Reading with the age at `now_us`, at least 0."""
        if self.value is None:
            return Reading(None, self.reason)
        return Reading(float(self.value), None, max(0, now_us - self.at_us) / 1e6, self.is_stamped)


FINAL = ("not-supported", "function-missing")
"""Reasons that a retry does not change."""

NOT_YET = Stamped(None, "not-yet")
"""No earlier value to take the difference from."""


def share_pct(before: Stamped | None, after: Stamped) -> Stamped:
    """Return how much a counter of nanoseconds grew, in % of the time between two readings.

    At most 100, because the counter and its time stamp are not taken at the same instant.
    """
    rate = rate_per_s(before, after)
    if rate.value is None:
        return rate
    share = rate.value / 1e9
    return replace(rate, value=min(100.0, 100 * share)) if share <= MOST_SHARE else Stamped(None, "out-of-range")


def rate_per_s(before: Stamped | None, after: Stamped, most_per_s: float = 0.0) -> Stamped:
    """Return the increase of a counter per second between two readings, with the time of the later one.

    `most_per_s` is the largest possible increase: a 32-bit counter that could have wrapped is `window-too-long`. The
    reason is `not-yet` without an earlier number or without time between them.
    """
    if after.value is None:
        return after
    if before is None or before.value is None or after.at_us <= before.at_us:
        return NOT_YET
    elapsed_s = (after.at_us - before.at_us) / 1e6
    if before.value < 0 or after.value < 0:
        return Stamped(None, "out-of-range")
    increase = after.value - before.value
    if after.bits < 64:
        if most_per_s * elapsed_s >= 2**after.bits:
            return Stamped(None, "window-too-long")
        increase %= 2**after.bits
    if increase < 0:
        return Stamped(None, "counter-reset")
    return replace(after, value=increase / elapsed_s, bits=64)


SANE_US = 60_000_000
"""Stamps further away than this are ignored. On an H200 they are microseconds old, 0.1 s for sensors."""


class Field(NamedTuple):
    """A field and the key of its value."""

    key: str
    number: int
    """NVML_FI_DEV_…"""
    scope: int = 0
    """Part of the GPU; for NVLink, the link."""


POWER_AVERAGE, POWER_INSTANT = Field("power_average_mw", 185), Field("power_mw", 186)
THROTTLED_BY = {
    "power-capped": Field(SHARE_KEYS["power-capped"], 74),
    "sync-boost": Field(SHARE_KEYS["sync-boost"], 76),
    "thermal": Field(SHARE_KEYS["thermal"], 269),
}
"""Throttle word → its counter, ns since the driver was loaded; below 0.01 ms each."""
THROTTLED_BY_COSTLY = {
    "hw-thermal": Field(SHARE_KEYS["hw-thermal"], 270),
    "power-brake": Field(SHARE_KEYS["power-brake"], 271),
}
"""The same for counters that take 0.7 ms each."""
THROTTLED, THROTTLED_COSTLY = tuple(THROTTLED_BY.values()), tuple(THROTTLED_BY_COSTLY.values())
PCIE = (Field("pcie_tx_bytes_per_s", 197), Field("pcie_rx_bytes_per_s", 198))
"""Bytes; 0.13 ms each. An H200 reports 32-bit numbers, as its kernel module counts
(NV2080_CTRL_CMD_BUS_GET_PEX_UTIL_COUNTERS): at 63 GB/s such a counter wraps every 68 ms."""
MEMORY_TEMPERATURE = Field("memory_temperature_c", 82)
ENERGY = Field("energy_mj", 83)
"""Millijoules since the driver was loaded; 2.8 to 16 ms."""

_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Members of the union by nvmlValueType_t."""
_BITS = {1: 32, 5: 32, 6: 16}


def decoded(raw: Any, now_us: int) -> Stamped:
    """Decode a c_nvmlFieldValue_t; `now_us` is its time if the driver gives none."""
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
    """Return all fields by key, in one call; raise NVMLError if the GPU is lost.

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


LINKS = Field("nvlink_links", 91)
"""Number of links of the GPU, connected or not."""
LINK_KEYS = ("nvlink_tx_bytes_per_s", "nvlink_rx_bytes_per_s")
"""Their counters hold data in KiB, without protocol overhead, in 64 bits."""
_LINK_NUMBERS = (138, 139)
_ALL_LINKS = 0xFFFF_FFFF


def summed_bytes(links: Sequence[Stamped]) -> Stamped:
    """Return the sum over all links that answered, in bytes, or the first reason if none did."""
    known = [link for link in links if link.value is not None]
    if not known:
        return links[0]
    total = 1024 * sum(link.value for link in known if link.value is not None)
    return Stamped(total, None, max(link.at_us for link in known), all(link.is_stamped for link in known))


class NvLink:
    """The byte counters of one GPU's links, read in the way that its driver supports."""

    def __init__(self) -> None:
        self._way: Sequence[int] = (_ALL_LINKS,)
        self._refused = ""

    def read(self, nvml: Any, handle: Any, links: Stamped, now_us: int) -> dict[str, Stamped]:
        """Return bytes sent and received so far; `links` is the value of `LINKS`. Raise NVMLError for a lost GPU."""
        if links.value is None or self._refused:
            return dict.fromkeys(LINK_KEYS, Stamped(None, self._refused or links.reason))
        if not 0 < links.value <= MOST_LINKS:
            return dict.fromkeys(LINK_KEYS, Stamped(None, "not-supported"))
        found = self._ask(nvml, handle, now_us)
        if self._way == (_ALL_LINKS,) and all(value.reason in FINAL for value in found.values()):
            self._way = tuple(range(int(links.value)))  # only newer drivers know the sum of all links
            found = self._ask(nvml, handle, now_us)
            if all(value.reason in FINAL for value in found.values()):
                self._refused = found[LINK_KEYS[0]].reason or ""
        return found

    def _ask(self, nvml: Any, handle: Any, now_us: int) -> dict[str, Stamped]:
        fields = [
            Field(f"{key} {link}", number, link)
            for key, number in zip(LINK_KEYS, _LINK_NUMBERS, strict=True)
            for link in self._way
        ]
        values = list(read_fields(nvml, handle, fields, now_us).values())
        half = len(self._way)
        return {LINK_KEYS[0]: summed_bytes(values[:half]), LINK_KEYS[1]: summed_bytes(values[half:])}


# ------------------------------------------------------------------ gpm


METRICS = {"sm_occupancy_pct": 3, "tensor_active_pct": 5, "dram_active_pct": 10}
"""Key → NVML_GPM_METRIC_…: warps of the maximum, time with tensor work, DRAM bandwidth; all in %."""
APART_S = 0.1
"""Shortest time between two samples that the driver accepts."""


def every(reason: str) -> dict[str, Reading]:
    """Return all of GPM's readings with one reason."""
    return dict.fromkeys(METRICS, Reading(None, reason))


def _named(name: str, *arguments: Any) -> Call:
    """Return a call that older nvidia-ml-py or drivers may lack."""
    return lambda nvml, _: newest(nvml, (name,), *arguments)


def _refusal(nvml: Any, handle: Any) -> str:
    """Return why this GPU has no GPM; empty if it has."""
    support = ask(nvml, handle, _named("nvmlGpmQueryDeviceSupport", handle))
    if isinstance(support, Reading):
        return support.reason or "unknown"
    return "" if support.isSupportedDevice else "not-supported"


class Gpm:
    """The last two samples of one GPU."""

    def __init__(self) -> None:
        self._refused = ""
        self._is_supported = False
        self._samples: list[Any] = []
        """The earlier and the later sample, both to be freed here."""
        self._taken_s: list[float] = []
        """Times of the samples that hold values."""
        self._last = every("not-yet")

    def read(self, nvml: Any, handle: Any, now_s: float) -> dict[str, Reading]:
        """Return the metrics between the last two samples; raise NVMLError if the GPU is lost."""
        if not self._is_supported:
            # Final refusals are remembered; others are tried again.
            reason = self._refused or _refusal(nvml, handle)
            self._refused = reason if reason in FINAL else ""
            if reason:
                return every(reason)
            self._is_supported = True
        if self._taken_s and now_s - self._taken_s[-1] < APART_S:
            return self._aged(now_s)
        failure = self._sample(nvml, handle, now_s)
        if failure or len(self._taken_s) < 2:
            self._last = every(failure or "not-yet")
        else:
            self._last = self._difference(nvml)
        return self._aged(now_s)

    def close(self, nvml: Any) -> None:
        """Free the samples, which take some KiB of the driver each."""
        for sample in self._samples:
            with suppress(nvml.NVMLError):
                nvml.nvmlGpmSampleFree(sample)
        self._samples.clear()
        self._taken_s.clear()
        self._refused, self._is_supported, self._last = "", False, every("not-yet")

    def _sample(self, nvml: Any, handle: Any, now_s: float) -> str:
        """Replace the older sample; return why not if the driver refuses."""
        if len(self._samples) < 2:
            sample = ask(nvml, handle, _named("nvmlGpmSampleAlloc"))
            if isinstance(sample, Reading):
                return sample.reason or "unknown"
            self._samples.append(sample)
        else:
            self._samples.reverse()
        taken = ask(nvml, handle, _named("nvmlGpmSampleGet", handle, self._samples[-1]))
        if isinstance(taken, Reading):
            self._taken_s.clear()
            return taken.reason or "unknown"
        self._taken_s = [*self._taken_s[-1:], now_s]
        return ""

    def _difference(self, nvml: Any) -> dict[str, Reading]:
        """Return the metrics between both samples."""
        question = nvml.c_nvmlGpmMetricsGet_t()
        question.version = nvml.NVML_GPM_METRICS_GET_VERSION
        question.numMetrics = len(METRICS)
        question.sample1, question.sample2 = self._samples
        for place, number in enumerate(METRICS.values()):
            question.metrics[place].metricId = number
        answer = ask(nvml, None, _named("nvmlGpmMetricsGet", question))
        if isinstance(answer, Reading):
            return every(answer.reason or "unknown")
        return {key: _metric(answer.metrics[place]) for place, key in enumerate(METRICS)}

    def _aged(self, now_s: float) -> dict[str, Reading]:
        age_s = now_s - self._taken_s[-1] if self._taken_s else 0.0
        return {
            key: last if last.value is None else Reading(last.value, None, age_s) for key, last in self._last.items()
        }


def _metric(metric: Any) -> Reading:
    """Return one metric, which has its own return code and is NaN if nothing was counted."""
    if metric.nvmlReturn != 0:
        return Reading(None, reason_of(metric.nvmlReturn))
    return Reading(float(metric.value)) if metric.value == metric.value else Reading(None, "unknown")
