"""Everything that reads a clock: one timer per kind of device, all with the same questions.

A timer answers in nanoseconds and never decides anything: how many calls, in which order and when to
stop is the protocol's business (`timing.case_run`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from cpugpu_tui.model import Case, Check, CodeTraced, CoreUse, Device, Reading
from cpugpu_tui.timing.ceilings import Gauge
from cpugpu_tui.workloads import Report

if TYPE_CHECKING:
    from cpugpu_tui.machine.cores import Snapshot
    from cpugpu_tui.machine.device_state import Edge, State
    from cpugpu_tui.timing.host_watch import Disturbance

Singles = Mapping[str, tuple[float, ...]]
"""Metric → samples that are taken once, before any warm-up; ns."""


class CaseError(Exception):
    """A case cannot go on; becomes a `CaseFailed` row."""

    def __init__(self, kind: str, message: str, remedy: str = "", *, fatal: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        """One of `model.FAILURES`."""
        self.message = message
        self.remedy = remedy
        self.fatal = fatal
        """Whether the process is of no use afterwards (sticky CUDA error)."""


class Stopped(Exception):
    """Raised out of a long operation that reports its progress, when the run is to end."""


@dataclass(frozen=True)
class FirstCall:
    """What is taken once, before any warm-up."""

    elapsed_ns: float
    """Wall time of the first call, device waited for: a first estimate."""
    singles: Singles
    """`as_written`, `as_written_synced` and `cold_start`, as far as they apply; ns."""
    result: Any
    """What is compared between devices."""


@dataclass(frozen=True)
class DeviceSamples:
    """Samples of the `device` metric: what the hardware needs for one call."""

    elapsed_ns: tuple[float, ...]
    marks: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Readiness:
    """The state of a device as a half-round begins."""

    sm_clock_mhz: float | None = None
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kernels:
    """What one profiled call ran on the GPU."""

    count: int
    elapsed_ns: float
    """Sum of their times."""


class Timer(Protocol):
    """Times operations on one device."""

    device: Device

    def load(self, case: Case, inputs: Any) -> Any:
        """Move the inputs to the device and return an operation. Raises CaseError(oom)."""

    def first_call(self, operation: Any) -> FirstCall:
        """Run the operation for the first time, in the publication's way where that is the call alone."""

    def ready(self, operation: Any, calls: int) -> Readiness:
        """Set threads and precision, put changed state back, wait for a settled clock: before each half-round."""

    def latency_block(self, operation: Any, calls: int) -> float:
        """Return the mean wall time per call, ns, of `calls` calls, each waited for."""

    def singles(self, operation: Any, count: int) -> dict[str, tuple[float, ...]]:
        """Return the wall times of `count` calls, timed one by one and waited for, ns: `latency_single`, `enqueue`."""

    def throughput_block(self, operation: Any, calls: int) -> float | None:
        """Return the wall time per call, ns, of `calls` queued calls with one wait; None where calls cannot queue."""

    def device_samples(self, operation: Any, count: int) -> DeviceSamples:
        """Return up to `count` times of single calls as the hardware sees them, ns."""

    def overheads(self, operation: Any) -> dict[str, tuple[float, ...]]:
        """Return what `decompose` asks beside latency and end to end, by metric, ns; nothing on a CPU."""

    def end_to_end(self, operation: Any, count: int, *, pinned: bool) -> dict[str, tuple[float, ...]]:
        """Return the wall times of calls whose data starts and ends on the host, and from ordinary memory the part
        until the inputs were there, by metric, ns; nothing where that is the latency."""

    def kernels(self, operation: Any) -> Kernels | None:
        """Profile one call; None on a CPU and where the profiler cannot see the GPU."""

    def threads(self) -> int:
        """Return the CPU threads in force."""

    def on_one_thread(self, operation: Any) -> Any | None:
        """Return the same operation on one CPU thread; None on a GPU, and where it has no more than one."""

    def clock_ns(self) -> float:
        """Return the clock that this device's times are read from."""


class Watch(Protocol):
    """Notices what disturbs the host while blocks are timed."""

    cores: int
    """Logical CPUs that this process may use."""

    def begin(self, device: Device) -> None:
        """Start watching what is timed on a device."""

    def end(self) -> Disturbance:
        """Return what happened since `begin`."""

    def rest(self, seconds: float) -> None:
        """Let time pass in which nothing is timed."""

    def snapshot(self) -> Snapshot:
        """Return what all processes have used so far; for the edges of a case."""

    def core_use(self, before: Snapshot) -> CoreUse | None:
        """Return who used the cores since a snapshot."""

    def close(self) -> None:
        """Give back what is open; the next `begin` opens it anew."""


class Watcher(Protocol):
    """The machine beside one device, by a clock of its own."""

    tick_ns: float
    """How often the energy counter is refreshed."""
    scope: str
    """What it counts, see `EnergyMeasured.scope`."""

    def edge(self) -> Edge | None:
        """Return what stands at one side of a half-round; None on a CPU. Costs 0.03 ms on an H200."""

    def state(self) -> State | None:
        """Return what stands at one side of a case; None on a CPU. Costs up to 18 ms on an H200."""

    def energy_mj(self) -> Reading:
        """Return the energy counter."""

    def power_mw(self) -> Reading:
        """Return the power just now."""

    def clock_ns(self) -> float:
        """Return the clock that windows are measured with."""

    def rest(self, duration_ns: float) -> None:
        """Do nothing for a while."""


class PeerLink(Protocol):
    """The way from one GPU to another."""

    has_access: bool | None
    """Whether one reaches the other's memory by itself; None where nobody can tell."""

    def latencies_ns(self) -> tuple[float, ...]:
        """Return the wall times of the smallest copies, from the call until both GPUs had finished, ns."""

    def large_ns(self) -> tuple[int, tuple[float, ...]]:
        """Return the size of a large copy, bytes, and the GPUs' own times of some of them, ns."""


class Machine(Protocol):
    """The devices of this process, and what is needed to make, move and compare tensors on them."""

    devices: tuple[Device, ...]
    no_gpu: str | None
    watch: Watch

    def timer(self, device: str) -> Timer:
        """Return the timer of a device of `devices`."""

    def watcher(self, device: str) -> Watcher:
        """Return what the driver says of a device, for the edges of half-rounds and cases."""

    def gauge(self, device: str) -> Gauge:
        """Return what a calibration asks of a device."""

    def peers(self) -> tuple[Device, ...]:
        """Return the GPUs between which copies are timed: every visible one, unless the plan names its GPUs."""

    def peer_link(self, source: Device, target: Device) -> PeerLink:
        """Return the way from one GPU to another."""

    def operations(self, case: Case) -> int:
        """Return the calls' worth of work between the publication's two clock readings; 0 without one."""

    def has_whole_clock(self, case: Case) -> bool:
        """Whether the publication's clock had more inside than one call."""

    def written(self, case: Case, device: str, report: Report) -> Singles:
        """Time what such a publication did, before anything else touches the device."""

    def make_inputs(self, case: Case) -> Any:
        """Return the host inputs, the same bytes for every device. Raises CaseError(oom) before allocating."""

    def check(self, case: Case, inputs: Any, results: dict[str, Any], *, exact: bool) -> Check | None:
        """Compare the devices' results, against float64 if `exact`. Raises CaseError(mismatch)."""

    def placement(self, operation: Any, result: Any, device: str) -> tuple[tuple[str, ...], ...]:
        """Return where an operation's inputs and its result lie, a line for each tensor."""

    def examine(self, operation: Any, device: str) -> CodeTraced | None:
        """Return what one call of a person's own code executed; None for other workloads. Raises CaseError(refused)."""

    def check_later_call(self, operation: Any) -> None:
        """Compare a call after a half-round with earlier ones, of own code. Raises CaseError(refused)."""

    def explain(self, error: Exception | SystemExit, case: Case) -> CaseError:
        """Return the failure row for an exception that a workload or torch raised."""

    def release(self) -> None:
        """Give back the memory that cases used, and put back what they changed in this process."""


class Stopwatch:
    """Seconds since it was made, for budgets of a whole run and for pacing gaps."""

    def __init__(self) -> None:
        self._started_s = time.monotonic()

    def elapsed_s(self) -> float:
        """Return the seconds since construction or the last `restart`."""
        return time.monotonic() - self._started_s

    def restart(self) -> None:
        """Begin again at zero."""
        self._started_s = time.monotonic()


@dataclass(frozen=True)
class Instant:
    """Both clocks at one moment."""

    wall_ns: int
    mono_ns: int


def now() -> Instant:
    """Read both clocks."""
    return Instant(time.time_ns(), time.monotonic_ns())


GAP_MS = 50.0
"""Length of a gap: a full repaint of a large terminal takes 30 ms."""


def leave_gap(duration_ms: float) -> None:
    """Do nothing for a while, so that whoever watches can paint."""
    time.sleep(duration_ms / 1000)
