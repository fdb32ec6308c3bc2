"""The nouns that everyone shares: plans, cases, events, readings.

Frozen dataclasses, standard library only, Python 3.10 syntax: this module travels to the agent,
which may run in any interpreter that has torch. Units are part of every name (`elapsed_ns`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

PROTOCOL = 1
"""Version of the agent's line protocol; agent and controller must agree exactly."""

MAX_SIZE = 10**12
"""Largest size a case may name; beyond it nothing fits anywhere and arithmetic gets silly."""

LATENCY, DEVICE, AS_WRITTEN, COLD_START = "latency", "device", "as_written", "cold_start"
METRICS = (LATENCY, DEVICE, AS_WRITTEN, COLD_START)
"""What can be timed (METHOD.md, "What is reported per case and device"): ns per call, and for
`as_written` the ns that the publication prints (which may be a total)."""

SYNCED = "as_written_synced"
"""Comes with `as_written`: the same calls, the same scope, but the clock waited for the device."""

DTYPES = ("float64", "float32", "bfloat16", "float16")
"""Element types a case may name, as torch spells them."""

ITEMSIZE_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
"""Bytes of one element of each dtype."""


# ------------------------------------------------------------------ what is run


@dataclass(frozen=True)
class Case:
    """One row of the table. It names no device, because a row compares devices."""

    workload: str
    """Name in the workload registry, for example `matmul`."""
    size: int
    """Position on the workload's own axis (n of an n×n matrix, elements of a vector)."""
    dtype: str = "float32"
    """One of `DTYPES`."""
    threads: int = 0
    """CPU threads; 0 stands for every physical core that the agent may use."""
    variant: str = "default"
    """Way of doing the same thing, named by the workload."""

    @property
    def key(self) -> str:
        """Short text that identifies the case within a run and across runs."""
        threads = str(self.threads) if self.threads else "all"
        return f"{self.workload}/{self.variant}/{self.size}/{self.dtype}/t{threads}"


@dataclass(frozen=True)
class Simulation:
    """A planted machine: the simulated device's constants, known exactly, so that tests can check them.

    Kernel law: time = overhead + work × ns_per_flop, with log-normal noise. Virtual time costs
    nothing unless `pace` says so.
    """

    seed: int = 0
    """Seed of the noise."""
    cpu_overhead_ns: float = 1_000.0
    """Time of one CPU call that does nothing."""
    cpu_ns_per_flop: float = 0.002
    """Reciprocal of the CPU's rate: 0.002 is 500 GFLOP/s."""
    launch_ns: float = 10_000.0
    """Host time to queue one kernel."""
    sync_ns: float = 8_000.0
    """Host time of a synchronise after the device has finished."""
    kernel_overhead_ns: float = 2_000.0
    """Device time of a kernel that does nothing."""
    gpu_ns_per_flop: float = 0.00005
    """Reciprocal of the GPU's rate: 0.00005 is 20 TFLOP/s."""
    first_call_ns: float = 50_000_000.0
    """What the first call of a process costs extra on each device."""
    noise: float = 0.01
    """Standard deviation of ln(time)."""
    pace: float = 0.0
    """Real seconds slept per virtual second; 0 runs as fast as the machine can."""
    gpus: int = 1
    """How many simulated GPUs there are; 0 simulates a machine without any."""
    crash_size: int = 0
    """Size of the cases that kill their agent; 0 for none, as below."""
    hang_size: int = 0
    """Size of the cases that never return."""
    oom_size: int = 0
    """Size of the cases that run out of GPU memory."""
    mismatch_size: int = 0
    """Size of the cases whose results differ."""
    error_size: int = 0
    """Size of the cases that raise."""


@dataclass(frozen=True)
class Plan:
    """All an agent needs to know to run and stop. One plan per agent process."""

    name: str
    """Preset or workload the person asked for; shown in history."""
    cases: tuple[Case, ...]
    """In the order in which they start."""
    devices: tuple[str, ...] = ("auto",)
    """`auto` (CPU, and the first GPU if there is one), `cpu`, `cuda` (first GPU), `cuda:N`."""
    metrics: tuple[str, ...] = METRICS
    """Subset of `METRICS` to take."""
    rounds: int = 8
    """Rounds per case; each round is one half per device."""
    blocks: int = 5
    """Blocks of calls in a half-round."""
    window: int = 4
    """How many cases are active at once, so that a case's rounds are spread in time."""
    budget_s: float = 5.0
    """Time for one device and case; a call longer than this is timed once."""
    max_seconds: float | None = None
    """Time for the whole run; cases not reached are skipped."""
    cache: str = "cold"
    """`cold` or `warm`: state of the caches for the `device` metric."""
    seed: int = 1
    """Seed of the inputs."""
    gaps: bool = False
    """Leave 50 ms between half-rounds once in `gap_every_s`, announced, for a user interface to paint."""
    gap_every_s: float = 0.9
    """A gap is due after this long: with half-rounds of 0.1 s there is one at least once a second."""
    flush_denormals: bool = True
    """Treat denormals as zero on the CPU, as GPUs' fast paths do."""
    simulation: Simulation | None = None
    """The simulated machine to run on instead of this one; results carry a mark."""


@dataclass(frozen=True)
class Device:
    """A device the agent found."""

    name: str
    """`cpu` or `cuda:N`, as torch counts."""
    label: str
    """What it is, for example `NVIDIA H200`."""
    uuid: str | None = None
    """`GPU-…` or `MIG-…` as NVML spells it: telemetry is matched by it. None for the CPU."""
    memory_bytes: int | None = None
    """Total memory, None if unknown."""
    simulated: bool = False
    """Whether it is made up."""

    @property
    def is_cpu(self) -> bool:
        """Whether this is the host's processor."""
        return self.name == "cpu"


@dataclass(frozen=True)
class WorkloadInfo:
    """What the catalogue says about a workload, without code."""

    name: str
    axis: str
    """What a size means, for example `n of n×n`."""
    variants: tuple[str, ...]
    sizes: tuple[int, ...]
    """Default sizes."""
    summary: str
    """One line for a list."""


@dataclass(frozen=True)
class Check:
    """Outcome of comparing the devices' results."""

    against: str
    """What the results were compared with: `float64 on the CPU` or a device name."""
    error: float
    """Largest error relative to the workload's own scale."""
    tolerance: float
    """What was allowed."""


# ------------------------------------------------------------------ what the machine does


@dataclass(frozen=True)
class Reading:
    """A number with its age, or a reason why there is none. Unknown is never 0."""

    value: float | None
    """The number, in the unit that the reading's key names."""
    reason: str | None = None
    """Why there is no number: a key of `telemetry.reasons.REASONS`."""
    age_s: float = 0.0
    """Seconds between the moment the value was true and the moment of the event."""


@dataclass(frozen=True)
class GpuProcess:
    """A process on a GPU. Names and users come from strangers: print them only sanitised."""

    pid: int
    memory_bytes: int | None
    user: str | None
    command: str | None
    """None when the pid cannot be resolved (another namespace, or gone)."""
    own: bool
    """Whether it is one of our agents."""


@dataclass(frozen=True)
class GpuTelemetry:
    """All readings of one GPU at one moment."""

    index: int
    """NVML's index (PCI order), not torch's."""
    uuid: str | None
    name: str
    pci_bus_id: str | None
    readings: dict[str, Reading]
    """Keys carry units: `kernel_active_pct`, `memory_used_bytes`, `memory_total_bytes`, `sm_clock_mhz`,
    `memory_clock_mhz`, `power_mw`, `power_limit_mw`, `temperature_c`, `slowdown_temperature_c`,
    `throttle_bits`."""
    throttle: tuple[str, ...] = ()
    """Words for the active throttle reasons: `idle`, `power-capped`, `thermal`, `hw-thermal`,
    `power-brake`, `hw-slowdown`, `sync-boost`, `app-clocks`, `display`."""
    processes: tuple[GpuProcess, ...] | None = None
    """None when they cannot be listed."""
    problem: str | None = None
    """One sentence when this GPU as a whole cannot be read (lost, no permission)."""


# ------------------------------------------------------------------ what happened


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened in a run. Both clocks are read when it is emitted."""

    seq: int = 0
    """Position in the run's stream, from 1."""
    wall_ns: int = 0
    """CLOCK_REALTIME."""
    mono_ns: int = 0
    """CLOCK_MONOTONIC of the machine that emitted it."""


@dataclass(frozen=True, kw_only=True)
class Hello(Event):
    """The agent is ready to take a plan."""

    protocol: int
    environment: dict[str, Any] = field(default_factory=dict)
    """Facts that ride with every result: interpreter, torch, processor, threads, limits."""
    catalogue: tuple[WorkloadInfo, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DevicesFound(Event):
    """The devices of this run, in the order in which they are timed first."""

    devices: tuple[Device, ...]
    no_gpu: str | None = None
    """One sentence of cause and remedy when a GPU was wanted and none can be used."""


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
class CaseStarted(Event):
    """A case becomes active; what was known of it before (from a dead agent) is void."""

    case: str
    """`Case.key`, as in all events."""


@dataclass(frozen=True, kw_only=True)
class Calibrated(Event):
    """Warm-up is over on this device; how the rounds will look."""

    case: str
    device: str
    estimate_ns: float
    """Time of one call, as far as warm-up could tell."""
    calls_per_block: int
    blocks: int
    rounds: int
    """How many half-rounds this device gets; 1 with 1 block of 1 call means timed once."""
    threads: int
    """CPU threads in force."""
    stable: bool = True
    """Whether warm-up reached its 1 % criterion before its cap."""


@dataclass(frozen=True, kw_only=True)
class HalfRoundTimed(Event):
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


@dataclass(frozen=True, kw_only=True)
class Gap(Event):
    """Nothing is timed for this long from now on: a user interface paints now and only now."""

    duration_ms: float


@dataclass(frozen=True, kw_only=True)
class Progressed(Event):
    """What the agent is about to do; names the culprit if it dies doing it."""

    case: str
    device: str
    phase: str
    """`inputs`, `check`, `first call`, `warm-up`, `round`."""
    round_index: int = 0
    estimate_s: float | None = None
    """Expected length of this step, None if unknown."""
    seconds_left: float | None = None
    """The agent's estimate for the rest of its plan, None if unknown."""


@dataclass(frozen=True, kw_only=True)
class CaseFinished(Event):
    """A case is complete; its half-rounds came before."""

    case: str
    check: Check | None = None
    """None when the results were not compared (see METHOD.md, step 2)."""


FAILURES = ("oom", "unsupported", "mismatch", "error", "timeout", "crashed", "skipped")
"""Kinds of `CaseFailed`; `skipped` is no failure (time ran out, or the person stopped)."""


@dataclass(frozen=True, kw_only=True)
class CaseFailed(Event):
    """A case has no result, or none that may be shown."""

    case: str
    kind: str
    """One of `FAILURES`."""
    message: str
    remedy: str = ""
    device: str | None = None


@dataclass(frozen=True, kw_only=True)
class TelemetryRead(Event):
    """One sweep over all GPUs and the host."""

    gpus: tuple[GpuTelemetry, ...] = ()
    host: dict[str, Reading] = field(default_factory=dict)
    """`cpu_pct`, `cpu_freq_mhz`, `memory_used_bytes`, `memory_total_bytes`, `load_1min`, `cpu_quota_cores`."""
    problem: str | None = None
    """Why there is no GPU telemetry, or that the driver has stopped answering: cause and remedy."""


@dataclass(frozen=True, kw_only=True)
class RunFinished(Event):
    """The last event of a stream."""

    status: str
    """`done`, `stopped` or `failed`."""
    message: str = ""
    remedy: str = ""
    exit_code: int = 0
    """What a headless run exits with."""


EVENTS: dict[str, type[Event]] = {cls.__name__: cls for cls in Event.__subclasses__()}
"""Every event by the name it has on the wire."""
