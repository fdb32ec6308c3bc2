"""What a run's numbers come to, case by case: what JSON and CSV hold for people who do not want to fold events."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cpugpu_tui.analysis.alike import Standing
from cpugpu_tui.analysis.energy import energy
from cpugpu_tui.decide.stats import median
from cpugpu_tui.decide.verdict import Comparison
from cpugpu_tui.model import PAGEABLE, PINNED
from cpugpu_tui.render.gpus import row_standings
from cpugpu_tui.render.insight import end_to_end
from cpugpu_tui.render.marks import UNSETTLED_CODE
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.state import Row, RunState


@dataclass(frozen=True)
class Metric:
    """The samples of one metric on one device, in short."""

    samples: int
    """How many."""
    median_ns: float
    min_ns: float
    max_ns: float


@dataclass(frozen=True)
class Lead:
    """CPU against a GPU."""

    speedup: float
    """Time of the CPU / time of the GPU."""
    low: float | None
    """Lower end of the 95 % interval; None with too few rounds."""
    high: float | None
    rounds: int
    verdict: str
    """`GPU`, `CPU`, `tie`, `undecided`, `GPU, no interval`, `CPU, no interval` or `too few rounds`."""


@dataclass(frozen=True)
class DeviceResult:
    """One case on one device."""

    label: str
    """What the device is."""
    threads: int | None
    """CPU threads in force; None where that is not known."""
    metrics: dict[str, Metric]
    """By name, see the events tagged `HalfRoundTimed`; all times are of one call."""
    marks: tuple[str, ...]
    """What was odd."""
    kernels: int | None
    """Kernels, copies and fills of one call on a GPU; None where it was not profiled."""
    energy_j: float | None
    """Joules of one call; None where they were not measured or cannot be told."""
    lead: Lead | None = None
    """The CPU against this GPU; None on the CPU, and as below."""
    lead_pageable: Lead | None = None
    lead_pinned: Lead | None = None
    over_model: float | None = None
    """Its time over the median of the run's GPUs of its model; None where it is the only one."""
    is_slow: bool = False
    """Whether it is slow beside these."""
    discarded: int = 0
    """Half-rounds that were repeated because threads waited for a core."""
    waited_share: float | None = None
    """Share of the time that the threads waited, in half-rounds above the limit; None without any."""
    one_thread_ns: float | None = None
    """Latency on one thread, timed beside where threads lacked a core (mark `no-core`); None elsewhere."""


@dataclass(frozen=True)
class CaseResult:
    """One case of a run."""

    case: str
    """Its key, by which the events name it."""
    workload: str
    variant: str
    size: int
    dtype: str
    threads: int
    """CPU threads that were asked for; 0 stands for all."""
    status: str
    """`ok`, the kind of failure, or `pending` for what a broken-off run did not reach."""
    message: str
    """Why there is no result; empty where there is one."""
    flops: float | None
    """Floating-point operations of one call; None where the count has no meaning."""
    bytes_moved: float | None
    """Least memory traffic of one call; None where it is not known."""
    error: float | None
    """Largest difference of the devices' results, relative to the workload's scale; None where not compared."""
    devices: dict[str, DeviceResult]
    lead: Lead | None
    """The CPU against the first GPU, data resident on each; None where one of them has no times."""
    lead_pageable: Lead | None
    """Data starts and ends on the host, in pageable memory."""
    lead_pinned: Lead | None
    """The same in pinned memory."""


def case_results(state: RunState) -> list[CaseResult]:
    """Return the results of all cases, in the plan's order."""
    labels = {device.name: device.label for device in state.devices}
    return [_case_result(state, row, labels) for row in state.rows.values()]


def _case_result(state: RunState, row: Row, labels: dict[str, str]) -> CaseResult:
    case, stand = row.case, row_standings(state, row)
    return CaseResult(
        case.key, case.workload, case.variant, case.size, case.dtype, case.threads,
        row.status,
        row.failure.message if row.failure is not None else "",
        (row.started.flops or None) if row.started is not None else None,
        (row.started.bytes_moved or None) if row.started is not None else None,
        row.check.error if row.check is not None else None,
        {
            name: _device_result(row, times, labels.get(name, name), stand.get(name))
            for name, times in row.times.items()
        },
        _lead(row.comparison),
        _lead(end_to_end(row, PAGEABLE)),
        _lead(end_to_end(row, PINNED)),
    )  # fmt: skip


def _device_result(row: Row, times: DeviceTimes, label: str, standing: Standing | None) -> DeviceResult:
    alone = row.on(times.device) if times.device != "cpu" else None
    return DeviceResult(
        label,
        times.calibrated.threads if times.calibrated is not None else None,
        {
            name: replace(in_short(samples), median_ns=times.median_ns(name) or 0.0)
            for name, samples in times.samples.items()
            if samples
        },
        (*times.marks, *(() if times.is_settled else (UNSETTLED_CODE,))),
        times.kernels.count if times.kernels is not None else None,
        energy(times.energy).joules_per_call.value,
        None if alone is None else _lead(alone.comparison),
        None if alone is None else _lead(end_to_end(alone, PAGEABLE)),
        None if alone is None else _lead(end_to_end(alone, PINNED)),
        None if standing is None else standing.ratio,
        standing is not None and standing.is_slow,
        len(times.cores.discarded) if times.cores is not None else 0,
        times.cores.share if times.cores is not None else None,
        median(times.cores.one_thread_ns) if times.cores is not None and times.cores.one_thread_ns else None,
    )


def in_short(samples: tuple[float, ...]) -> Metric:
    """Return at least one sample in short."""
    return Metric(len(samples), median(samples), min(samples), max(samples))


def _lead(found: Comparison | None) -> Lead | None:
    return None if found is None else Lead(found.speedup, found.low, found.high, found.rounds, found.verdict)
