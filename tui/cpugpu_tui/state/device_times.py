"""The times of one case on one device, collected from events."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from sys import intern
from typing import Any, NamedTuple

from cpugpu_tui import model
from cpugpu_tui.analysis.costs import WhatIf, gpu_rounds
from cpugpu_tui.decide.comparison import Comparison
from cpugpu_tui.decide.correlation import Correlation
from cpugpu_tui.decide.starts import earlier_spread
from cpugpu_tui.decide.stats import median
from cpugpu_tui.decide.verdict import compare, compare_apart, start_logs, typical_ns
from cpugpu_tui.machine.device_state import company
from cpugpu_tui.state.packed import Numbers, Readings, Rounds, Series, prime, slot_cached_property

ROUND_METRICS = (model.PAGEABLE, model.PINNED, model.DEVICE)
"""Metrics besides latency that are compared between devices, round by round."""
MetricRounds = Mapping[str, Mapping[int, float]]
"""Metric → round index → median of that round, ns."""

ENOUGH_FOR_TAILS = 200
"""Single calls needed for p90 and p99 (method.md)."""


class Extent(NamedTuple):
    """How many samples of a metric there are, and between which times."""

    samples: int
    least_ns: float
    most_ns: float


@dataclass(frozen=True)
class DeviceTimes:
    """Times and readings of one case on one device."""

    device: str
    calibrated: model.Calibrated | None = None
    round_ns: Mapping[int, float] = field(default_factory=dict)
    """Round index → median latency of that round's blocks, ns."""
    samples: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Metric → all raw samples so far, ns."""
    other_round_ns: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    """`PAGEABLE`, `PINNED`, `DEVICE` → round index → median of that round, ns."""
    later: Mapping[int, MetricRounds] = field(default_factory=dict)
    """Further start of the process → metric → round index → median of that round, ns. All else is of the first."""
    later_extent: Mapping[str, Extent] = field(default_factory=dict)
    """Metric → number and extremes of the samples of further starts, for exports."""
    earlier: tuple[Mapping[str, float], ...] = ()
    """Earlier starts of the process in the history, oldest first: metric → ns."""
    marked_ns: Sequence[float] = ()
    """Latency of blocks in half-rounds with a mark, ns."""
    marks: tuple[str, ...] = ()
    clocks_mhz: Sequence[float] = ()
    """SM clock at the start of each half-round, MHz."""
    end_clocks_mhz: Sequence[float] = ()
    """SM clock at the end of each half-round, MHz."""
    throttled_ns: Mapping[str, float] = field(default_factory=dict)
    """Throttle reason → its time within half-rounds, ns."""
    watched_ns: float = 0.0
    """Length of the half-rounds whose throttle reasons were counted, ns; 0 if the driver has no counters."""
    mark_counts: Mapping[str, int] = field(default_factory=dict)
    """Mark → number of half-rounds with it."""
    powers_mw: Sequence[float] = ()
    """Power in each half-round that is long enough for the sensor, mW."""
    edges: Mapping[str, model.MachineRead] = field(default_factory=dict)
    """`begin`, `end` → readings of the driver at this side of the case."""
    cores: model.CoreWait | None = None
    """Waiting of threads for a core; None if no half-round was above the limit."""
    energy: model.EnergyMeasured | None = None
    """Energy of repeated calls, or of a long one."""
    epochs: tuple[model.EpochFinished, ...] = ()
    """Epochs of a training timed by the paper's clock."""
    kernels: model.KernelsProfiled | None = None
    """Kernels of one profiled call."""
    traced: model.CodeTraced | None = None
    """What one call of own code executed."""
    compiled: model.CodeCompiled | None = None
    """What compiling it cost."""
    lines: model.LinesProfiled | None = None
    """Lines of own code that cost most in a profiled call."""
    placed: model.TensorsPlaced | None = None
    """Device and shape of its tensors."""

    @property
    def starts(self) -> int:
        """Number of starts of the process in which it was timed."""
        return 1 + len(self.later)

    @property
    def kernels_ns(self) -> float | None:
        """Sum of the kernel times of one call, ns."""
        return self.kernels.elapsed_ns if self.kernels is not None else None

    def rounds_under(self, what_if: WhatIf, rounds: MetricRounds) -> Mapping[int, float]:
        """Return this GPU's times under a what-if, from its rounds of each metric.

        Warm kernels are timed only once, so their rounds are the cold ones times warm / cold.
        """
        cold_ns, warm_ns = self.median_ns(model.DEVICE), self.median_ns(model.DEVICE_WARM)
        if what_if.metric == model.DEVICE_WARM and cold_ns and warm_ns:
            return {index: ns * warm_ns / cold_ns for index, ns in rounds.get(model.DEVICE, {}).items()}
        return gpu_rounds(what_if, rounds)

    @property
    def has_settled(self) -> bool:
        """Whether the latency settled during warm-up; True if unknown."""
        return self.calibrated is None or self.calibrated.stable

    @property
    def is_starved(self) -> bool:
        """Whether threads lacked a core in a half-round even after repeats. Its times are not a result then."""
        return model.NO_CORE in self.marks

    @slot_cached_property
    def latency_ns(self) -> float | None:
        """Latency as `median_ns` gives it, ns."""
        return self.median_ns(model.LATENCY)

    def median_ns(self, metric: str) -> float | None:
        """Median of a metric, ns; None without samples. With several starts, the geometric mean of their medians.

        For metrics compared between devices it is the median of rounds, so that the shown times give the shown speedup.
        For others it is the median of samples.
        """
        rounds = self.round_ns if metric == model.LATENCY else self.other_round_ns.get(metric, {})
        typical = typical_ns(rounds, [metrics.get(metric, {}) for metrics in self.later.values()])
        samples = self.samples.get(metric)
        return typical if typical is not None else median(samples) if samples else None

    @property
    def timed_once(self) -> bool:
        """Whether the call was too long to time it more than once."""
        return len(self.samples.get(model.LATENCY, ())) == 1

    @property
    def single_calls_ns(self) -> tuple[float, ...]:
        """Times of calls that were timed separately, ns: blocks of one call, or single calls."""
        is_one = self.calibrated is not None and self.calibrated.calls_per_block == 1
        return self.samples.get(model.LATENCY if is_one else model.SINGLE, ())

    @property
    def clean_ns(self) -> tuple[float, ...]:
        """Latency of blocks in half-rounds without a mark, ns."""
        clean = list(self.samples.get(model.LATENCY, ()))
        for ns in self.marked_ns:
            clean.remove(ns)
        return tuple(clean)

    def with_edge(self, event: model.MachineRead) -> DeviceTimes:
        """Add the readings of one side of the case, and a mark if others use the GPU; or the waits for a core."""
        if event.edge == model.CORES:
            return replace(self, cores=_without_samples(event.cores))
        found = company([(event.processes, event.readings.get("memory_used_bytes", model.Reading(None, "not-asked")))])
        shared = ("shared-gpu",) if found is not None and found.is_shared else ()
        marks = tuple(dict.fromkeys((*self.marks, *shared)))
        return replace(self, edges={**self.edges, event.edge: event}, marks=marks)

    def with_half_round(self, event: model.DeviceSampled) -> DeviceTimes:
        """Add a half-round."""
        if event.start:
            return self._with_later(event)
        samples = dict(self.samples)
        for metric, values in event.samples.items():
            samples[metric] = samples.get(metric, ()) + tuple(values)
        rounds = dict(self.round_ns)
        latency = event.samples.get(model.LATENCY)
        is_round = event.round_index > 0  # 0: taken once, before the rounds
        if latency and is_round:
            rounds[event.round_index] = median(latency)
        others = dict(self.other_round_ns)
        for name in ROUND_METRICS:
            if event.samples.get(name) and is_round:
                others[name] = {**others.get(name, {}), event.round_index: median(event.samples[name])}
        counts = dict(self.mark_counts)
        for mark in event.marks:
            counts[mark] = counts.get(mark, 0) + 1
        throttled = dict(self.throttled_ns)
        for word, throttled_ns in (event.throttled_ns or {}).items():
            throttled[word] = throttled.get(word, 0.0) + throttled_ns
        return replace(
            self, samples=samples, round_ns=rounds, other_round_ns=others,
            marked_ns=(*self.marked_ns, *(latency or ())) if event.marks else self.marked_ns,
            marks=tuple(dict.fromkeys((*self.marks, *event.marks))),
            clocks_mhz=_with_known(self.clocks_mhz, event.sm_clock_mhz),
            end_clocks_mhz=_with_known(self.end_clocks_mhz, event.sm_clock_end_mhz),
            powers_mw=_with_known(self.powers_mw, event.power_mw), mark_counts=counts, throttled_ns=throttled,
            watched_ns=self.watched_ns + (event.watched_ns if event.throttled_ns is not None else 0.0),
        )  # fmt: skip

    def _with_later(self, event: model.DeviceSampled) -> DeviceTimes:
        """Add a half-round of a further start; skip it if its threads lacked a core, because there are other starts."""
        if event.round_index <= 0 or model.NO_CORE in event.marks:
            return self
        metrics: dict[str, Mapping[int, float]] = dict(self.later.get(event.start, {}))
        extent = dict(self.later_extent)
        for name in (model.LATENCY, *ROUND_METRICS):
            if values := event.samples.get(name):
                metrics[name] = {**metrics.get(name, {}), event.round_index: median(values)}
                known = extent.get(name, Extent(0, math.inf, -math.inf))
                extent[name] = Extent(
                    known.samples + len(values), min(known.least_ns, *values), max(known.most_ns, *values)
                )
        return replace(self, later={**self.later, event.start: metrics}, later_extent=extent)

    def packed(self) -> DeviceTimes:
        """Return a copy that needs a third of the memory and can still grow."""
        edges = {edge: replace(read, readings=Readings(read.readings)) for edge, read in self.edges.items()}
        known = self.calibrated
        return replace(
            self, device=intern(self.device),
            calibrated=replace(known, case=intern(known.case), device=intern(known.device)) if known else None,
            samples=Series(self.samples), round_ns=Numbers(self.round_ns),
            other_round_ns=Rounds(self.other_round_ns) if self.other_round_ns else NOTHING,
            clocks_mhz=_in_array(self.clocks_mhz), end_clocks_mhz=_in_array(self.end_clocks_mhz),
            powers_mw=_in_array(self.powers_mw), mark_counts=self.mark_counts or NOTHING,
            throttled_ns=self.throttled_ns or NOTHING, edges=edges or NOTHING,
            later_extent=self.later_extent or NOTHING,
        )  # fmt: skip


prime(DeviceTimes("cpu"))  # later ones then take less memory


def compared(
    cpu: DeviceTimes, gpu: DeviceTimes, others: Correlation, rounds_of: Callable[[MetricRounds], Mapping[int, float]]
) -> Comparison | None:
    """Compare two devices in all starts that timed both; a recorded GPU, which has starts of its own, in all of each.

    `others` is the correlation of rounds in other cases; `rounds_of` makes the GPU's rounds from its metrics.
    """
    if gpu.device == model.RECORDED:
        metrics = [{model.LATENCY: gpu.round_ns, **gpu.other_round_ns}, *gpu.later.values()]
        on_cpu = [cpu.round_ns, *(each.get(model.LATENCY, {}) for each in cpu.later.values())]
        known_ns = [each[model.LATENCY] for each in cpu.earlier if model.LATENCY in each]
        return compare_apart(on_cpu, [rounds_of(each) for each in metrics], others, known_ns)
    own = rounds_of({model.LATENCY: gpu.round_ns, **gpu.other_round_ns})
    both = [start for start in cpu.later if start in gpu.later]
    later = [(cpu.later[start].get(model.LATENCY, {}), rounds_of(gpu.later[start])) for start in both]
    # An earlier start has one time for each metric, which counts as its only round.
    past = [[{name: {1: ns} for name, ns in each.items()} for each in times.earlier] for times in (cpu, gpu)]
    pairs = [(on_cpu.get(model.LATENCY, {}), rounds_of(on_gpu)) for on_cpu, on_gpu in zip(*past, strict=False)]
    return compare(cpu.round_ns, own, others, later, earlier_spread(start_logs(pairs)))


NOTHING: Mapping[str, Any] = Series({})
"""Shared by all objects, because an empty dictionary takes 64 bytes."""


def _without_samples(cores: model.CoreWait | None) -> model.CoreWait | None:
    """Drop the samples of discarded half-rounds, which are in the history."""
    if cores is None:
        return None
    return replace(cores, discarded=tuple(replace(each, samples={}) for each in cores.discarded))


def _in_array(values: Sequence[float]) -> Sequence[float]:
    return array("d", values) if values else ()


def _with_known(values: Sequence[float], value: float | None) -> Sequence[float]:
    return values if value is None else (*values, value)
