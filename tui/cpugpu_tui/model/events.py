"""What happened: the only kind of stream there is. One JSON object a line on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cpugpu_tui.model.devices import Ceilings, CoreWait, Device, GpuProcess, GpuTelemetry, Reading
from cpugpu_tui.model.plans import Case, OwnFile, Plan, Refused, WorkloadInfo


@dataclass(frozen=True, slots=True)
class Check:
    """Outcome of comparing the devices' results."""

    against: str
    """What the results were compared with: `float64 on the CPU` or a device name."""
    error: float
    """Largest error relative to the workload's own scale."""
    tolerance: float
    """What was allowed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Something that happened in a run. Both clocks are read when it is emitted."""

    seq: int = 0
    """Position in the run's stream, from 1."""
    wall_ns: int = 0
    """CLOCK_REALTIME."""
    mono_ns: int = 0
    """CLOCK_MONOTONIC of the machine that emitted it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Hello(Event):
    """The agent is ready to take a plan."""

    protocol: int
    environment: dict[str, Any] = field(default_factory=dict)
    """Facts that ride with every result: interpreter, torch, processor, threads, limits."""
    catalogue: tuple[WorkloadInfo, ...] = ()
    refused: tuple[Refused, ...] = ()
    """Files and packages that were named and cannot be used."""
    own_files: tuple[OwnFile, ...] = ()
    """Files whose workloads are in the catalogue."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkloadsLoading(Event):
    """The agent begins with a person's file or package: if it never speaks again, that one is why."""

    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DevicesFound(Event):
    """The devices of this run, in the order in which they are timed first."""

    devices: tuple[Device, ...]
    no_gpu: str | None = None
    """One sentence of cause and remedy when a GPU was wanted and none can be used."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunStarted(Event):
    """The first event of a run's stream; emitted by the controller."""

    run_id: str
    """Unique, sortable by time; any unique prefix names the run."""
    series_id: str
    """Runs of the same plan taken together (`5r`, `--repeat 5`) share it."""
    plan: Plan
    environment: dict[str, Any]
    """The agent's facts, see `Hello`, and the controller's: argv, worker mode, version."""
    number: int | None = None
    """Short number in the database; None when the run is not saved."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseStarted(Event):
    """A case becomes active; what was known of it before (from a dead agent) is void."""

    case: str
    """`Case.key`, as in all events."""
    flops: float = 0.0
    """Floating-point operations of one call; 0 where the count has no meaning."""
    bytes_moved: float = 0.0
    """Least memory traffic of one call, bytes read plus bytes written."""
    operations: int = 0
    """Calls' worth of work between the publication's two clock readings; 0 where nobody published this."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CasesChosen(Event):
    """A search goes on with further cases."""

    cases: tuple[Case, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorsPlaced(Event):
    """Where a case's tensors lie on one device, read from the tensors themselves."""

    case: str
    device: str
    inputs: tuple[str, ...]
    """One line each, like `[512, 512] float32 on cuda:0`; parameters of a model are one line together."""
    results: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibrated(Event):
    """Warm-up is over on this device; how the rounds will look."""

    case: str
    device: str
    estimate_ns: float
    """Time of one call, as far as warm-up could tell."""
    calls_per_block: int
    blocks: int
    rounds: int
    """Least half-rounds of this device; 1 with 1 block of 1 call means timed once."""
    threads: int
    """CPU threads in force."""
    stable: bool = True
    """Whether warm-up reached its 1 % criterion before its cap."""
    max_rounds: int = 0
    """Most half-rounds; in between the interval decides. 0 stands for `rounds`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceSampled(Event):
    """Raw samples of one device in one round."""

    case: str
    device: str
    round_index: int
    """From 1; 0 holds what is taken once before the rounds (`as_written`, `cold_start`)."""
    calls_per_block: int
    samples: dict[str, tuple[float, ...]]
    """Metric → ns per call, one number per block (or per call, for `device`)."""
    started_wall_ns: int = 0
    ended_wall_ns: int = 0
    started_mono_ns: int = 0
    ended_mono_ns: int = 0
    marks: tuple[str, ...] = ()
    """What was odd: `starved`, `launch-bound`, `clock-unsettled`, `page-faults`, … Never a deletion."""
    sm_clock_mhz: float | None = None
    """The GPU's SM clock when the half-round began; None on a CPU and where it cannot be read."""
    sm_clock_end_mhz: float | None = None
    """The same when it had ended."""
    throttled_ns: dict[str, float] | None = None
    """Throttle reason → time that the GPU was throttled by it meanwhile, by the driver's counters; only what the driver
    counts cheaply. None on a CPU and where nothing is counted."""
    watched_ns: float = 0.0
    """Time between the two readings of these counters: what shares are of."""
    power_mw: float | None = None
    """Power as it ended; None on a CPU, and for a half-round that its sensor is too slow for."""


EDGES = ("begin", "end")
"""Sides of a case: before its first call on a device, and after its last."""

CORES = "cores"
"""In place of a side: what is told of the threads and the cores when a case with a lack of cores is over."""

NO_CORE = "no-core"
"""Mark of a half-round whose threads waited for a core, however often it was repeated: it is no result."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineRead(Event):
    """What the machine said at one side of a case, outside all timed blocks."""

    case: str
    device: str
    edge: str
    """One of `EDGES`, or `CORES`."""
    readings: Mapping[str, Reading]
    """Keys carry units: `sm_clock_mhz`, `temperature_c`, `memory_used_bytes`, `energy_mj`, `throttled_…_ns`; the last
    two are counted since the driver was loaded."""
    processes: tuple[GpuProcess, ...] | None = None
    """None when they cannot be listed."""
    elapsed_ns: float = 0.0
    """Of an `end`: time since `begin`, by the clock that the counters go by."""
    cores: CoreWait | None = None
    """Of `CORES`: how the threads waited."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EnergyMeasured(Event):
    """An energy counter at both sides of a window of repeated calls, or of idleness; what it means is derived.

    Without a `reason` both counters have numbers; they may still mean nothing (`analysis.energy`).
    """

    case: str
    """Empty for idleness."""
    device: str
    calls: int = 0
    """Calls within the window; 0 for idleness."""
    elapsed_ns: float = 0.0
    """Length of the window."""
    begin_mj: float | None = None
    end_mj: float | None = None
    tick_ns: float = 0.0
    """How often the counter is refreshed."""
    scope: str = "gpu"
    """What is counted: `gpu`, `board` (a GPU in MIG mode), `module` (GPU and CPU together), `package` (processors)."""
    power_mw: tuple[float, ...] = ()
    """Instantaneous power, read evenly over the window between blocks."""
    reason: str | None = None
    """Why there is no window: a key of `telemetry.reasons.REASONS`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Gap(Event):
    """Nothing is timed for this long from now on: a user interface paints now and only now."""

    duration_ms: float


CALIBRATION = "calibration"
"""Phase in which a device's ceilings are measured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Progressed(Event):
    """What the agent is about to do; names the culprit if it dies doing it."""

    case: str
    device: str
    phase: str
    """`inputs`, `as written`, `first call`, `check`, `warm-up`, `round`, `kernels`, `energy`, `calibration`,
    `peers`, `gap`."""
    round_index: int = 0
    estimate_s: float | None = None
    """Expected length of this step, None if unknown."""
    elapsed_s: float | None = None
    """How long this step has lasted; only in long ones, which say so once a second."""
    note: str = ""
    """What the step says about itself, for example `epoch 3 of 10, loss 0.21`."""
    seconds_left: float | None = None
    """The agent's estimate for the rest of its plan, None if unknown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EpochFinished(Event):
    """A training inside `as_written` has seen all its images once more."""

    case: str
    device: str
    epoch: int
    """From 1."""
    epochs: int
    loss: float
    """Mean over the epoch's batches."""
    accuracy: float | None
    """Share of the test images that were recognised; None if it was not evaluated."""
    elapsed_ns: float
    """Time of this epoch's steps."""
    steps: int


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelsProfiled(Event):
    """One call of a finished case was profiled; comes after all cases, because the profiler slows launches."""

    case: str
    device: str
    count: int
    """Kernels, copies and fills that the GPU ran."""
    elapsed_ns: float
    """Sum of their times."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PeerMeasured(Event):
    """Copies from one GPU's memory to another's, after the cases of an experiment about copies."""

    source: Device
    target: Device
    has_access: bool | None
    """Whether one reaches the other's memory by itself; without, a copy goes by way of the host. None where nobody
    can tell."""
    latencies_ns: tuple[float, ...] = ()
    """Wall times of the smallest copies, from the call until both GPUs had finished."""
    size_bytes: int = 0
    """Size of the large copies; 0 where there were none."""
    elapsed_ns: tuple[float, ...] = ()
    """The GPUs' own times of these: between events of the source's stream, launches hidden."""
    problem: str = ""
    """Why there are no times, one sentence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CeilingsMeasured(Event):
    """One device has been calibrated."""

    ceilings: Ceilings


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseFinished(Event):
    """A case is complete; its half-rounds came before."""

    case: str
    check: Check | None = None
    """None when the results were not compared (see method.md, step 2)."""


FAILURES = ("oom", "unsupported", "mismatch", "error", "timeout", "crashed", "skipped")
"""Kinds of `CaseFailed`; `skipped` is no failure (time ran out, or the person stopped)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseFailed(Event):
    """A case has no result, or none that may be shown."""

    case: str
    kind: str
    """One of `FAILURES`."""
    message: str
    remedy: str = ""
    device: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TelemetryRead(Event):
    """One sweep over all GPUs and the host."""

    gpus: tuple[GpuTelemetry, ...] = ()
    host: dict[str, Reading] = field(default_factory=dict)
    """`cpu_pct`, `cpu_freq_mhz`, `memory_used_bytes`, `memory_total_bytes`, `load_1min`, `cpu_quota_cores`."""
    problem: str | None = None
    """Why there is no GPU telemetry, or that the driver has stopped answering: cause and remedy."""
    is_silent: bool = False
    """Whether the driver did not answer for any GPU. Older recordings only say so in `problem`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFinished(Event):
    """The last event of a stream."""

    status: str
    """`done`, `stopped` or `failed`."""
    message: str = ""
    remedy: str = ""
    exit_code: int = 0
    """What a headless run exits with."""


WIRE_TAGS: dict[type[Event], str] = {
    Hello: "Hello",
    WorkloadsLoading: "WorkloadsLoading",
    DevicesFound: "DevicesFound",
    RunStarted: "RunStarted",
    CaseStarted: "CaseStarted",
    CasesChosen: "CasesChosen",
    TensorsPlaced: "TensorsPlaced",
    Calibrated: "Calibrated",
    DeviceSampled: "HalfRoundTimed",
    MachineRead: "MachineRead",
    EnergyMeasured: "EnergyMeasured",
    Gap: "Gap",
    Progressed: "Progressed",
    EpochFinished: "EpochFinished",
    KernelsProfiled: "KernelsProfiled",
    PeerMeasured: "PeerMeasured",
    CeilingsMeasured: "CeilingsMeasured",
    CaseFinished: "CaseFinished",
    CaseFailed: "CaseFailed",
    TelemetryRead: "TelemetryRead",
    RunFinished: "RunFinished",
}
"""What each event is called on the wire, in JSON, exports, databases and recorded runs. A class may be renamed; a tag
stays, so that agents of the same protocol and everything that was ever written can be read."""

EVENTS: dict[str, type[Event]] = {tag: cls for cls, tag in WIRE_TAGS.items()}
"""Every event by its tag."""
