"""Events of a run, from agent to session, database and screens. On the wire: one JSON object per line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cpugpu_tui.model.catalogue import Refused, WorkloadInfo
from cpugpu_tui.model.devices import Ceilings, Check, CoreWait, Device, EventClock, GpuProcess, GpuTelemetry, Reading
from cpugpu_tui.model.event import Event
from cpugpu_tui.model.line_costs import CodeCompiled as CodeCompiled
from cpugpu_tui.model.line_costs import CodeTraced as CodeTraced
from cpugpu_tui.model.line_costs import LineCost as LineCost
from cpugpu_tui.model.line_costs import LinesProfiled as LinesProfiled
from cpugpu_tui.model.plans import Case, OwnFile, Plan


@dataclass(frozen=True, kw_only=True, slots=True)
class Hello(Event):
    """The agent is ready to take a plan."""

    protocol: int
    environment: dict[str, Any] = field(default_factory=dict)
    """Environment that is saved with every result: interpreter, torch, processor, threads, limits."""
    catalogue: tuple[WorkloadInfo, ...] = ()
    refused: tuple[Refused, ...] = ()
    """Workload files and packages that could not be loaded."""
    own_files: tuple[OwnFile, ...] = ()
    """Files whose workloads are in the catalogue."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkloadsLoading(Event):
    """The agent is about to load a workload file or package; names the cause if it then hangs or dies."""

    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DevicesFound(Event):
    """The devices of this run, in the order of the first round."""

    devices: tuple[Device, ...]
    no_gpu: str | None = None
    """Cause and remedy if a GPU was requested and none can be used."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunStarted(Event):
    """The first event of a run's stream; emitted by the controller."""

    run_id: str
    """Unique and sortable by time; any unique prefix names the run."""
    series_id: str
    """Common to runs of the same plan in one series (`5r`, `--repeat 5`)."""
    plan: Plan
    environment: dict[str, Any]
    """The agent's environment, see `Hello`, and the controller's: argv, worker mode, version."""
    number: int | None = None
    """Run number in the database; None if the run is not saved."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseStarted(Event):
    """A case becomes active. Discard earlier samples of it, which are from an agent that died."""

    case: str
    """`Case.key`, as in all events."""
    flops: float = 0.0
    """Floating-point operations of one call; 0 if the count has no meaning."""
    bytes_moved: float = 0.0
    """Least memory traffic of one call: bytes read plus bytes written."""
    operations: int = 0
    """Number of calls between the publication's two clock readings; 0 without a publication."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CasesChosen(Event):
    """A search adds further cases."""

    cases: tuple[Case, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorsPlaced(Event):
    """Shapes, dtypes and devices of a case's tensors, read from the tensors themselves."""

    case: str
    device: str
    inputs: tuple[str, ...]
    """One line per tensor, like `[512, 512] float32 on cuda:0`; one line for all parameters of a model."""
    results: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibrated(Event):
    """Warm-up of a case on one device has ended; sizes of its blocks and rounds."""

    case: str
    device: str
    estimate_ns: float
    """Time of one call, estimated by warm-up, ns."""
    calls_per_block: int
    blocks: int
    rounds: int
    """Least half-rounds of this device. 1 with 1 block of 1 call means: timed once."""
    threads: int
    """Number of CPU threads that torch uses."""
    stable: bool = True
    """Whether warm-up reached its 1 % criterion before its time limit."""
    max_rounds: int = 0
    """Most half-rounds; between least and most, the interval decides. 0 means the same as `rounds`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceSampled(Event):
    """Raw samples of one device in one round."""

    case: str
    device: str
    round_index: int
    """From 1; 0 for metrics that are taken once before the rounds (`as_written`, `cold_start`)."""
    calls_per_block: int
    samples: dict[str, tuple[float, ...]]
    """Metric → ns per call, one number per block (for `device`: per call)."""
    started_wall_ns: int = 0
    ended_wall_ns: int = 0
    started_mono_ns: int = 0
    ended_mono_ns: int = 0
    marks: tuple[str, ...] = ()
    """Disturbances: `blocking`, `launch-bound`, `clock-unsettled`, `page-faults`, … Marked samples are kept."""
    sm_clock_mhz: float | None = None
    """SM clock of the GPU at the start of the half-round, MHz; None on a CPU or if it cannot be read."""
    sm_clock_end_mhz: float | None = None
    """The same at the end of the half-round."""
    throttled_ns: dict[str, float] | None = None
    """Throttle reason → time that the GPU was throttled by it in the half-round, ns, from driver counters that are
    fast to read. None on a CPU or without counters."""
    watched_ns: float = 0.0
    """Time between the two readings of these counters, ns; the denominator of throttled shares."""
    power_mw: float | None = None
    """Power at the end of the half-round, mW; None on a CPU, or if the half-round is too short for the sensor."""
    start: int = 0
    """Start of the process that took the samples: 0 for the first one of the run. Rounds are counted in each start."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineRead(Event):
    """State of the machine before or after a case, read outside all timed blocks."""

    case: str
    device: str
    edge: str
    """One of `EDGES`, or `CORES`."""
    readings: Mapping[str, Reading]
    """Names with units: `sm_clock_mhz`, `temperature_c`, `memory_used_bytes`, `energy_mj`, `throttled_…_ns`. The last
    two are counters that start when the driver is loaded."""
    processes: tuple[GpuProcess, ...] | None = None
    """Processes on the GPU; None if they cannot be listed."""
    elapsed_ns: float = 0.0
    """With `end`: time since `begin` on the clock of the counters, ns."""
    cores: CoreWait | None = None
    """With `CORES`: how long the threads waited for a core."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EnergyMeasured(Event):
    """Energy counter before and after a window of repeated calls, or of an idle device.

    Without a `reason` both values are present. `analysis.energy` decides whether they are usable.
    """

    case: str
    """`Case.key`; empty for the idle window."""
    device: str
    calls: int = 0
    """Calls within the window; 0 for the idle window."""
    elapsed_ns: float = 0.0
    """Length of the window, ns."""
    begin_mj: float | None = None
    end_mj: float | None = None
    tick_ns: float = 0.0
    """Refresh interval of the counter, ns."""
    scope: str = "gpu"
    """Hardware that the counter covers: `gpu`, `board` (GPU in MIG mode), `module` (GPU and CPU), `package` (CPUs)."""
    power_mw: tuple[float, ...] = ()
    """Instantaneous power, read at even intervals between blocks, mW."""
    reason: str | None = None
    """Why the window is missing: a key of `machine.text.REASONS`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Gap(Event):
    """Timing pauses for this long. A user interface must paint only in gaps."""

    duration_ms: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Progressed(Event):
    """The agent's next step, announced in advance; names the cause if the agent dies in it."""

    case: str
    device: str
    phase: str
    """`inputs`, `as written`, `first call`, `loading the compiler`, `compile`, `check`, `warm-up`, `round`, `lines`,
    `kernels`, `energy`, `calibration`, `peers`, `gap`, `turn`."""
    round_index: int = 0
    estimate_s: float | None = None
    """Expected length of this step, seconds; None if unknown."""
    elapsed_s: float | None = None
    """Elapsed time of this step, seconds; only in long steps, which report once per second."""
    note: str = ""
    """Progress of the step, for example `epoch 3 of 10, loss 0.21`."""
    seconds_left: float | None = None
    """Estimated time for the rest of the plan, seconds; None if unknown."""

    @property
    def step(self) -> str:
        """Return the phase and where it is: `round on cuda:0`; `round` where one announcement is for all devices."""
        return f"{self.phase} on {self.device}" if self.device else self.phase


@dataclass(frozen=True, kw_only=True, slots=True)
class EpochFinished(Event):
    """An epoch of a training inside `as_written` has ended."""

    case: str
    device: str
    epoch: int
    """From 1."""
    epochs: int
    loss: float
    """Mean training loss of the epoch."""
    accuracy: float | None
    """Share of correctly classified test images; None if not evaluated."""
    elapsed_ns: float
    """Time of the epoch's training steps, ns."""
    steps: int


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelsProfiled(Event):
    """Profile of one call of a finished case. Taken after all cases, because the profiler slows launches."""

    case: str
    device: str
    count: int
    """Number of kernels, copies and fills that the GPU ran."""
    elapsed_ns: float
    """Sum of their times, ns."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PeerMeasured(Event):
    """Copies from one GPU to another, timed after the cases of the workload `transfer`."""

    source: Device
    target: Device
    has_access: bool | None
    """Whether the GPUs have peer access; without it, copies pass through the host. None if unknown."""
    latencies_ns: tuple[float, ...] = ()
    """Wall times of the smallest copies, from the call until both GPUs have finished, ns."""
    size_bytes: int = 0
    """Size of the large copies, bytes; 0 without large copies."""
    elapsed_ns: tuple[float, ...] = ()
    """Times of the large copies between CUDA events in the source's stream, without launch overhead, ns."""
    problem: str = ""
    """Why the times are missing, one sentence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CeilingsMeasured(Event):
    """The calibration of one device has ended."""

    ceilings: Ceilings


@dataclass(frozen=True, kw_only=True, slots=True)
class ClockChecked(Event):
    """The event clock of a GPU was checked, or is known from an earlier run, before it is used."""

    device: str
    clock: EventClock


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseFinished(Event):
    """A case is complete; its half-rounds were sent before."""

    case: str
    check: Check | None = None
    """None if the results were not compared (method.md, step 2)."""


FAILURES = ("oom", "unsupported", "mismatch", "refused", "error", "timeout", "crashed", "skipped")
"""Kinds of `CaseFailed`. `skipped` is not a failure: the time limit was reached or the user stopped the run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseFailed(Event):
    """A case has no valid result."""

    case: str
    kind: str
    """One of `FAILURES`."""
    message: str
    remedy: str = ""
    device: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TelemetryRead(Event):
    """Readings of all GPUs and the host at one time."""

    gpus: tuple[GpuTelemetry, ...] = ()
    host: dict[str, Reading] = field(default_factory=dict)
    """`cpu_pct`, `cpu_freq_mhz`, `memory_used_bytes`, `memory_total_bytes`, `load_1min`, `cpu_quota_cores`."""
    problem: str | None = None
    """Cause and remedy if GPU telemetry is missing or the driver has stopped answering."""
    is_silent: bool = False
    """Whether the driver did not answer for any GPU. Older recordings only say so in `problem`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EarlierTimed(Event):
    """Times of a case on one device in earlier starts of the process, as the history had them when the run ended."""

    case: str
    device: str
    starts: tuple[Mapping[str, float], ...]
    """For each start, oldest first: metric → median of its rounds, ns. The same starts on each device of the case; one
    that did not time this device is empty."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFinished(Event):
    """The last event of a stream."""

    status: str
    """`done`, `stopped` or `failed`."""
    message: str = ""
    remedy: str = ""
    exit_code: int = 0
    """Exit code of a headless run."""
    is_short_of_time: bool = False
    """Whether the time limit left no room for one more of the planned starts."""


_OLD_NAMES: dict[type[Event], str] = {DeviceSampled: "HalfRoundTimed"}
"""Tags of classes that were renamed."""

WIRE_TAGS: dict[type[Event], str] = {
    kind: _OLD_NAMES.get(kind, kind.__name__) for kind in (
        Hello, WorkloadsLoading, DevicesFound, RunStarted, CaseStarted, CasesChosen, TensorsPlaced, CodeTraced,
        CodeCompiled, Calibrated, DeviceSampled, MachineRead, EnergyMeasured, Gap, Progressed, EpochFinished,
        KernelsProfiled, LinesProfiled, PeerMeasured, CeilingsMeasured, ClockChecked, CaseFinished, CaseFailed,
        TelemetryRead, EarlierTimed, RunFinished,
    )
}  # fmt: skip
"""Name of each event on the wire and in JSON, exports, databases and recordings. Tags must not change: agents of the
same protocol and all existing files use them."""

EVENTS: dict[str, type[Event]] = {tag: cls for cls, tag in WIRE_TAGS.items()}
"""Event classes by tag."""
