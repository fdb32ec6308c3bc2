"""GPM, the counters of Hopper and later: how full the SMs are, not only whether a kernel runs. Off by default.

A number is the difference of two samples and takes 0.7 ms on an H200. It shows more than `kernel_active_pct`, which is
100 % both for a matrix product with the tensor cores at 56 % and for a loop on one SM.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from cpugpu_tui.machine.nvml.calls import Call, ask, newest
from cpugpu_tui.machine.nvml.returns import reason_of
from cpugpu_tui.model import Reading

METRICS = {"sm_occupancy_pct": 3, "tensor_active_pct": 5, "dram_active_pct": 10}
"""Key → NVML_GPM_METRIC_…: warps of the maximum, time with tensor work, DRAM bandwidth; all in %."""
APART_S = 0.1
"""Shortest time between two samples that the driver accepts."""
_FINAL = ("not-supported", "function-missing")


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
            self._refused = reason if reason in _FINAL else ""
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
