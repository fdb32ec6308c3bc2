"""A run for export: its saved events in the order of `Store.load`, and its results case by case."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from cpugpu_tui import model
from cpugpu_tui.analysis.costs import END_TO_END, NEVER, PINNED, RESIDENT, calls_to_pay, energy
from cpugpu_tui.analysis.pairs import Pair
from cpugpu_tui.analysis.slow_gpus import Standing
from cpugpu_tui.compare.comparison import differing_pairs
from cpugpu_tui.decide.stats import median
from cpugpu_tui.render.gpus import row_standings
from cpugpu_tui.render.receipts import eager_ns
from cpugpu_tui.render.sentences import results_differ, sentences
from cpugpu_tui.render.verdicts import UNSETTLED_CODE
from cpugpu_tui.report.report import judged
from cpugpu_tui.session.event_stream import BESIDE
from cpugpu_tui.state.device_times import DeviceTimes, Extent
from cpugpu_tui.state.folding import folded
from cpugpu_tui.state.recorded_gpu import with_recorded
from cpugpu_tui.state.row import Row
from cpugpu_tui.state.state import RunState
from cpugpu_tui.store import Store
from cpugpu_tui.timing.channel import encode


@dataclass(frozen=True)
class Metric:
    """Summary of the samples of one metric on one device."""

    samples: int
    """Number of samples. Latency, kernel time and calls with copies count all starts, parts of a call the first.
    A recorded GPU has one for each round, its median."""
    median_ns: float
    """Median, ns per call. With several starts, the geometric mean of their medians for latency, kernel time and calls
    with copies."""
    min_ns: float
    """Minimum of these samples, ns per call."""
    max_ns: float
    """Maximum of these samples, ns per call."""


@dataclass(frozen=True)
class Lead:
    """Comparison of the CPU with a GPU."""

    speedup: float
    """CPU latency divided by GPU latency; below 1 the CPU is faster."""
    low: float | None
    """Lower end of the 95 % confidence interval; None with too few rounds. It is about the mean over starts of the
    process if `covers_starts`, or else holds within the one start that was timed."""
    high: float | None
    """Upper end of the 95 % confidence interval; None with too few rounds."""
    rounds: int
    """Number of rounds."""
    verdict: str
    """Device that clearly wins: `GPU` or `CPU`. Otherwise `tie` (equally fast), `undecided` (too close to call),
    `GPU, no interval`, `CPU, no interval` or `too few rounds` (not judged)."""
    starts: int = 1
    """Starts of the process in which both devices were timed."""
    covers_starts: bool = False
    """Whether the interval is about other starts too: of several starts, or of earlier ones in the history."""
    within_low: float | None = None
    """If earlier starts gave the interval: lower end of what was seen within this start; None otherwise."""
    within_high: float | None = None
    """Upper end of it."""


@dataclass(frozen=True)
class DeviceResult:
    """One case on one device."""

    label: str
    """Model of the device."""
    threads: int | None
    """CPU threads in force; None if unknown."""
    metrics: dict[str, Metric]
    """Name of the metric → summary. The names are those in the events `HalfRoundTimed`."""
    marks: tuple[str, ...]
    """Marks: what disturbed the times, such as `throttled`."""
    kernels: int | None
    """Number of kernels, copies and fills in one call on a GPU; None if it was not profiled."""
    energy_j: float | None
    """Energy of one call, J; None if unknown."""
    lead: Lead | None = None
    """The CPU compared with this GPU, with resident inputs; None on the CPU, or if one of them has no times."""
    lead_pageable: Lead | None = None
    """The same with copies from and to pageable host memory."""
    lead_pinned: Lead | None = None
    """The same with copies from and to pinned host memory."""
    over_model: float | None = None
    """Latency divided by the median of all GPUs of this model in the run; None for a single GPU."""
    is_slow: bool = False
    """Whether it is clearly slower than the other GPUs of its model."""
    discarded: int = 0
    """Number of half-rounds that were repeated because threads waited for a core."""
    waited_share: float | None = None
    """Share of the time (0 to 1) that threads waited for a core, in half-rounds above the limit; None without any."""
    one_thread_ns: float | None = None
    """Latency with one CPU thread, ns. Timed only if threads lacked a core (mark `no-core`); None otherwise."""
    compile_s: float | None = None
    """Cost of compiling the case, s; None if it was not compiled."""
    calls_to_pay: int | None = None
    """Calls after which that cost has paid; None if never, or if the run has no eager row of the same size."""
    compile_pays: bool | None = None
    """Whether it ever pays; None if unknown."""


@dataclass(frozen=True)
class CaseResult:
    """One case of a run."""

    case: str
    """Key of the case, as in the events: workload/variant/size/dtype/tTHREADS."""
    workload: str
    """Name of the workload."""
    variant: str
    """Way to write the work, such as `vectorized`; `default` if there is only one."""
    size: int
    """Size on the workload's axis."""
    dtype: str
    """Data type, such as `float32`."""
    threads: int
    """Requested CPU threads; 0 stands for all."""
    status: str
    """`ok`, the kind of failure, or `pending` if the run ended before this case."""
    message: str
    """Why the case has no result, or how it differs from that of the other code of a duet; otherwise empty."""
    flops: float | None
    """Floating-point operations per call; None if the count has no meaning."""
    bytes_moved: float | None
    """Least memory traffic per call, bytes read plus bytes written; None if unknown."""
    error: float | None
    """Largest difference between the devices' results, relative to their scale; None if not compared."""
    devices: dict[str, DeviceResult]
    """`cpu` or `cuda:N` → result on this device."""
    lead: Lead | None
    """The CPU compared with the first GPU, with resident inputs; None if one of them has no times."""
    lead_pageable: Lead | None
    """The same with copies from and to pageable host memory."""
    lead_pinned: Lead | None
    """The same with copies from and to pinned host memory."""


def case_results(state: RunState, differing: Iterable[Pair] = ()) -> list[CaseResult]:
    """Return the results of all cases, in the plan's order. `differing`: see `ExportedRun`."""
    labels = {device.name: device.label for device in state.devices}
    differs = {pair.case: f"The two codes gave {pair.trouble}." for pair in differing}
    return [_case_result(state, row, labels, differs.get(row.case.key, "")) for row in state.rows.values()]


def _case_result(state: RunState, row: Row, labels: dict[str, str], differs: str) -> CaseResult:
    case, stand = row.case, row_standings(state, row)
    return CaseResult(
        case.key, case.workload, case.variant, case.size, case.dtype, case.threads,
        row.status,
        row.failure.message if row.failure is not None else differs,
        (row.started.flops or None) if row.started is not None else None,
        (row.started.bytes_moved or None) if row.started is not None else None,
        row.check.error if row.check is not None else None,
        {
            name: _device_result(state, row, times, labels.get(name, name), stand.get(name))
            for name, times in row.times.items()
        },
        **_leads(state, row),
    )  # fmt: skip


def _device_result(
    state: RunState, row: Row, times: DeviceTimes, label: str, standing: Standing | None
) -> DeviceResult:
    alone = row.on(times.device) if times.device != "cpu" else None
    compile_ns = times.compiled.elapsed_ns if times.compiled is not None else None
    calls = None if compile_ns is None else calls_to_pay(compile_ns, eager_ns(state, row, times), times.latency_ns)
    return DeviceResult(
        label,
        times.calibrated.threads if times.calibrated is not None else None,
        {name: _in_short(times, name, samples) for name, samples in times.samples.items() if samples},
        (*times.marks, *(() if times.has_settled else (UNSETTLED_CODE,))),
        times.kernels.count if times.kernels is not None else None,
        energy(times.energy).joules_per_call.value,
        **(dict.fromkeys(LEADS) if alone is None else _leads(state, alone)),
        over_model=None if standing is None else standing.ratio,
        is_slow=standing is not None and standing.is_slow,
        discarded=len(times.cores.discarded) if times.cores is not None else 0,
        waited_share=times.cores.share if times.cores is not None else None,
        one_thread_ns=median(times.cores.one_thread_ns) if times.cores and times.cores.one_thread_ns else None,
        compile_s=None if compile_ns is None else compile_ns / 1e9,
        calls_to_pay=int(calls) if calls is not None and calls != NEVER else None,
        compile_pays=None if calls is None else calls != NEVER,
    )


def _in_short(times: DeviceTimes, name: str, samples: tuple[float, ...]) -> Metric:
    """Return the summary of a metric with at least one sample, over all starts as the median is."""
    count, least_ns, most_ns = times.later_extent.get(name, Extent(0, samples[0], samples[0]))
    return Metric(len(samples) + count, times.median_ns(name) or 0.0, min(least_ns, *samples), max(most_ns, *samples))


LEADS = {"lead": RESIDENT, "lead_pageable": END_TO_END, "lead_pinned": PINNED}
"""Field of a result → the condition under which the CPU is compared with a GPU."""


def _leads(state: RunState, row: Row) -> dict[str, Lead | None]:
    found = {name: judged(state, row, key).comparison for name, key in LEADS.items()}
    return {
        name: None if each is None else Lead(
            each.speedup, each.low, each.high, each.rounds, each.verdict, each.starts, each.covers_starts,
            each.within_low, each.within_high,
        )
        for name, each in found.items()
    }  # fmt: skip


# ------------------------------------------------------------------ stream


CASE_EVENTS = (model.CaseStarted, model.Calibrated, model.DeviceSampled, model.CaseFinished, model.CaseFailed)
"""Events of one case."""

KEPT = (model.RunStarted, model.DevicesFound, *CASE_EVENTS, *BESIDE, model.TelemetryRead, model.RunFinished)
"""Events that are saved and exported."""


@dataclass(frozen=True)
class ExportedRun:
    """One run, with the events that `kept` returns."""

    events: tuple[model.Event, ...]
    is_running: bool = False
    """Whether it has no end because it has not ended yet."""
    differing: tuple[Pair, ...] = ()
    """Of a duet, the pairs with the other code whose results differ."""

    @property
    def status(self) -> str:
        """Its status, in the words of the history."""
        finished = self.state.finished
        return finished.status if finished is not None else "running" if self.is_running else "interrupted"

    @cached_property
    def state(self) -> RunState:
        """The state after all events, beside the recorded GPU if it has one. Telemetry does not change it."""
        return with_recorded(folded(self.events))

    @property
    def sentences(self) -> list[str]:
        """The sentences about it, most important first, without the meanings of marks."""
        return [*sentences(self.state), *filter(None, [results_differ(pair.size for pair in self.differing)])]

    @property
    def started(self) -> model.RunStarted:
        """The first event."""
        first = self.events[0]
        assert isinstance(first, model.RunStarted)
        return first

    @property
    def file_stem(self) -> str:
        """Name of a file or folder for this run: its name and id, in ASCII letters, digits and `-_.+`."""
        name = "".join(sign if sign.isascii() and (sign.isalnum() or sign in "-+") else "_" for sign in self.name)
        return f"{name[:80]}-{self.started.run_id}"

    @property
    def name(self) -> str:
        """Preset or workload that was run."""
        return self.started.plan.name


def exported(events: Iterable[model.Event], *, is_running: bool = False) -> ExportedRun:
    """Return a run for export, from live or loaded events.

    The run's number is left out, because it differs between databases.

    Raises:
        ValueError: the events have no `RunStarted`.
    """
    return ExportedRun(tuple(kept(events)), is_running)


def exported_from(store: Store, run_id: str) -> ExportedRun:
    """Return a saved run for export."""
    events, is_running = store.load(run_id), store.summary(run_id).status == "running"
    return replace(exported(events, is_running=is_running), differing=differing_pairs(store, events)[0])


def ndjson(runs: Sequence[ExportedRun]) -> Iterator[bytes]:
    """Yield the events of the runs, one per line, as `run --json` prints them. Each run begins with `RunStarted`."""
    for run in runs:
        yield from map(encode, run.events)


def kept(events: Iterable[model.Event]) -> list[model.Event]:
    """Return the events that `Store.load` would return after saving, without the run's number.

    The order is `RunStarted`, `DevicesFound`, the last complete attempt of each case and other events by `seq`, and
    `RunFinished`.

    Raises:
        ValueError: the events have no `RunStarted`.
    """
    started: model.RunStarted | None = None
    found: model.DevicesFound | None = None
    finished: model.RunFinished | None = None
    open_cases: dict[str, list[model.Event]] = {}
    cases: dict[str, list[model.Event]] = {}
    beside: list[model.Event] = []
    for event in events:
        match event:
            case model.RunStarted():
                # Sorted, because the history stores facts in parts and returns them in another order.
                started = replace(event, number=None, environment=dict(sorted(event.environment.items())))
            case model.DevicesFound():
                found = event
            case model.RunFinished():
                finished = event
            case model.CaseStarted():
                open_cases[event.case] = [event]
            case model.DeviceSampled(start=start) if start and event.case in cases:
                cases[event.case].append(event)
            case model.Calibrated() | model.DeviceSampled():
                open_cases.setdefault(event.case, []).append(event)
            case model.CaseFinished() | model.CaseFailed():
                cases.pop(event.case, None)
                cases[event.case] = [*open_cases.pop(event.case, []), event]
            case _ if isinstance(event, (*BESIDE, model.TelemetryRead)):
                beside.append(event)
    if started is None:
        raise ValueError("the events have no RunStarted")
    middle = heapq.merge(*cases.values(), beside, key=lambda event: (event.seq, event.wall_ns))
    return [event for event in (started, found, *middle, finished) if event is not None]
