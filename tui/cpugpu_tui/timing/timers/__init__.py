"""Interfaces of everything that reads a clock: timers, watchers and the machine, one class per kind of device.

A timer returns nanoseconds and makes no decisions. The protocol (`timing.case_run`) chooses the number of calls, their
order and the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from cpugpu_tui import model
from cpugpu_tui.workloads import Report

if TYPE_CHECKING:
    from cpugpu_tui.machine.cores import Snapshot
    from cpugpu_tui.machine.device_state import Edge, State
    from cpugpu_tui.timing.host_watch import Disturbance

Singles = Mapping[str, tuple[float, ...]]
"""Metric → samples that are taken once, before any warm-up, ns."""


class CaseError(Exception):
    """A case cannot continue; reported as `CaseFailed`."""

    def __init__(self, kind: str, message: str, remedy: str = "", *, fatal: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        """One of `model.FAILURES`."""
        self.message = message
        self.remedy = remedy
        self.fatal = fatal
        """Whether the process is unusable afterwards (sticky CUDA error)."""


class Stopped(Exception):
    """Raised in a long operation that reports its progress, once the run must end."""


@dataclass(frozen=True)
class FirstCall:
    """Times and result of the first call, before any warm-up."""

    elapsed_ns: float
    """Wall time of the first call, synchronised, ns; the first estimate."""
    singles: Singles
    """`as_written`, `as_written_synced` and `cold_start`, if they apply, ns."""
    result: Any
    """The result to compare between devices."""


@dataclass(frozen=True)
class DeviceSamples:
    """Samples of kernel time (metric `device`), ns."""

    elapsed_ns: tuple[float, ...]
    marks: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Readiness:
    """State of a device at the start of a half-round."""

    sm_clock_mhz: float | None = None
    marks: tuple[str, ...] = ()
    is_warm: bool = False
    """Whether a block of the operation has run since another one used the device."""


@dataclass(frozen=True)
class Kernels:
    """Kernels of one profiled call."""

    count: int
    elapsed_ns: float
    """Sum of their times, ns."""


class Timer(Protocol):
    """Times operations on one device."""

    device: model.Device

    def load(self, case: model.Case, inputs: Any) -> Any:
        """Copy the inputs to the device and return an operation. Raises CaseError(oom)."""

    def first_call(self, operation: Any) -> FirstCall:
        """Time the first call; also with the publication's clock if that covers only the call."""

    def ready(self, operation: Any, calls: int) -> Readiness:
        """Prepare a half-round: set threads and precision, restore changed state, settle the clock.

        `calls` of the operation are made at least for that; with 0 the clock is not waited for.
        """

    def latency_block(self, operation: Any, calls: int) -> float:
        """Return the mean wall time of `calls` calls, each synchronised, ns per call."""

    def singles(self, operation: Any, count: int) -> dict[str, tuple[float, ...]]:
        """Return wall times of `count` calls, each synchronised and timed alone, ns: `latency_single`, `enqueue`."""

    def throughput_block(self, operation: Any, calls: int) -> float | None:
        """Return the wall time of `calls` queued calls with one synchronise, ns per call; None without a queue."""

    def device_samples(self, operation: Any, count: int) -> DeviceSamples:
        """Return up to `count` kernel times of single calls."""

    def overheads(self, operation: Any) -> dict[str, tuple[float, ...]]:
        """Return the overheads that `decompose` needs, metric → ns; empty on a CPU."""

    def end_to_end(self, operation: Any, count: int, *, pinned: bool) -> dict[str, tuple[float, ...]]:
        """Return wall times of calls with copies, metric → ns; empty without copies.

        With pageable memory also the part until the inputs were copied.
        """

    def kernels(self, operation: Any) -> Kernels | None:
        """Profile one call; None on a CPU, or if the profiler cannot see the GPU."""

    def threads(self) -> int:
        """Return torch's number of CPU threads."""

    def on_one_thread(self, operation: Any) -> Any | None:
        """Return the same operation on one CPU thread; None on a GPU, or if it already uses one."""

    def clock_ns(self) -> float:
        """Return the clock of this device's times, ns."""


class TorchThreads:
    """What runs torch in this process."""

    def threads(self) -> int:
        """Return torch's number of intra-op threads on the host."""
        import torch

        return torch.get_num_threads()


class HostTimer:
    """What a clock of the host cannot time: queued calls, launches, copies and kernels of a GPU."""

    def throughput_block(self, op: Any, calls: int) -> float | None:
        """Return None: calls do not queue, so `latency` is the throughput."""
        return None

    def overheads(self, op: Any) -> dict[str, tuple[float, ...]]:
        """Return nothing: a call has no launch and no copy of its own."""
        return {}

    def end_to_end(self, op: Any, count: int, *, pinned: bool) -> dict[str, tuple[float, ...]]:
        """Return nothing: a call starts and ends on the host, so this equals the latency."""
        return {}

    def kernels(self, op: Any) -> Kernels | None:
        """Return None: only GPU kernels of this process are profiled."""
        return None


class Watch(Protocol):
    """Detects disturbances of the host while blocks are timed."""

    cores: int
    """Logical CPUs that this process may use."""

    def begin(self, device: model.Device) -> None:
        """Start watching the threads that work for a device."""

    def end(self) -> Disturbance:
        """Return the disturbances since `begin`."""

    def rest(self, seconds: float) -> None:
        """Sleep outside timed blocks."""

    def await_reader(self) -> None:
        """Sleep until the reader of the events has handled them; called before anything is timed."""

    def snapshot(self) -> Snapshot:
        """Return the CPU time of all processes so far; called at the edges of a case."""

    def core_use(self, before: Snapshot) -> model.CoreUse | None:
        """Return who used the cores since a snapshot."""

    def close(self) -> None:
        """Close open files; the next `begin` opens them again."""


class Watcher(Protocol):
    """Reads counters and state of one device, with a clock of its own."""

    tick_ns: float
    """Refresh interval of the energy counter, ns."""
    scope: str
    """Scope of the energy counter, see `EnergyMeasured.scope`."""

    def edge(self) -> Edge | None:
        """Return the counters at the edge of a half-round; None on a CPU. Takes 0.03 ms on an H200."""

    def state(self) -> State | None:
        """Return the state at the edge of a case; None on a CPU. Takes up to 18 ms on an H200."""

    def energy_mj(self) -> model.Reading:
        """Return the energy counter, mJ."""

    def power_mw(self) -> model.Reading:
        """Return the instantaneous power, mW."""

    def clock_ns(self) -> float:
        """Return the clock of energy windows, ns."""

    def rest(self, duration_ns: float) -> None:
        """Sleep for so many ns."""


class PeerLink(Protocol):
    """Times copies from one GPU to another."""

    has_access: bool | None
    """Whether the GPUs have peer access; None if unknown."""

    def latencies_ns(self) -> tuple[float, ...]:
        """Return the wall times of the smallest copies, from the call until both GPUs have finished, ns."""

    def large_ns(self) -> tuple[int, tuple[float, ...]]:
        """Return the size of a large copy, bytes, and its times between CUDA events, ns."""


class Gauge(Protocol):
    """Times bare operations of one device for a calibration, which decides which."""

    device: model.Device
    dtypes: tuple[str, ...]
    """Element types to try in matrix products; those that fail are left out."""
    directions: tuple[str, ...]
    """Keys of `Ceilings.transfers`; empty on a CPU."""

    def threads(self) -> int:
        """Return the number of CPU threads that torch uses."""

    clock: model.EventClock | None
    """The check of a GPU's event clock; None on a CPU. Without a sound clock kernels are timed by the wall clock."""

    def free_bytes(self) -> float:
        """Return the free memory of the device, bytes."""

    def matmul_ns(self, dtype: str, n: int) -> float:
        """Return the time of a product of two n×n matrices, ns."""

    def copy_ns(self, size_bytes: int) -> float:
        """Return the time of a copy within the device's memory, ns."""

    def launch_ns(self) -> float:
        """Return the launch overhead, ns: host time of the smallest call, on a GPU of queueing it."""

    def synchronize_ns(self) -> float | None:
        """Return the host time of synchronising with an idle GPU, ns; None on a CPU."""

    def round_trip_ns(self) -> float | None:
        """Return the host time of queueing the smallest operation and synchronising, ns; None on a CPU."""

    def transfer_ns(self, direction: str, size_bytes: int) -> float:
        """Return the wall time of a synchronised copy between host and GPU, ns."""

    def release(self) -> None:
        """Free all memory."""


Announce = Callable[..., None]
"""Called with a phase, a device, an estimate in ns or None, and a note, before the step begins."""


def unannounced(*_: Any) -> None:
    """Announce nothing."""


class Machine(Protocol):
    """The devices of this process; creates, copies and compares tensors on them."""

    devices: tuple[model.Device, ...]
    no_gpu: str | None
    watch: Watch

    def open(self) -> None:
        """Create the contexts of all GPUs, which otherwise the first case on each does."""

    def timer(self, device: str) -> Timer:
        """Return the timer of a device of `devices`."""

    def watcher(self, device: str) -> Watcher:
        """Return the watcher of a device, for the edges of half-rounds and cases."""

    def gauge(self, device: str) -> Gauge:
        """Return the gauge of a device for a calibration."""

    def check_clocks(self) -> None:
        """Check the event clock of every GPU."""

    def clocks_checked(self) -> list[model.ClockChecked]:
        """Return the outcomes of checks since the last call. A GPU is checked before its first case."""

    def peers(self) -> tuple[model.Device, ...]:
        """Return the GPUs between which copies are timed: all visible ones, unless the plan names GPUs."""

    def peer_link(self, source: model.Device, target: model.Device) -> PeerLink:
        """Return the timer of copies from one GPU to another."""

    def operations(self, case: model.Case) -> int:
        """Return the number of calls between the publication's clock readings; 0 without a publication."""

    def has_whole_clock(self, case: model.Case) -> bool:
        """Return whether the publication's clock covers more than one call."""

    def written(self, case: model.Case, device: str, report: Report) -> Singles:
        """Run such a clock, before anything else uses the device."""

    def make_inputs(self, case: model.Case) -> Any:
        """Return the host inputs, shared by all devices. Raises CaseError(oom) before allocating."""

    def check(self, case: model.Case, inputs: Any, results: dict[str, Any], *, exact: bool) -> model.Check | None:
        """Compare the devices' results, against float64 if `exact`. Raises CaseError(mismatch)."""

    def placement(self, operation: Any, result: Any, device: str) -> tuple[tuple[str, ...], ...]:
        """Return shape, dtype and device of an operation's inputs and result, one line per tensor."""

    def examine(self, operation: Any, device: str) -> model.CodeTraced | None:
        """Return what one call of a person's own code executed; None for other workloads. Raises CaseError(refused)."""

    def compile(self, operation: Any, device: str, announce: Announce = unannounced) -> model.CodeCompiled:
        """Compile the step of an operation, and call it once; the cost includes that call. Raises CaseError."""

    def check_later_call(self, operation: Any) -> None:
        """Compare a call after a half-round with earlier ones, of own code. Raises CaseError(refused)."""

    def profile_lines(self, operation: Any, device: str) -> model.LinesProfiled | None:
        """Return the lines of own code that cost most; None for other workloads."""

    def explain(self, error: Exception | SystemExit, case: model.Case) -> CaseError:
        """Return the case's failure for an exception of torch or the workload."""

    def release(self) -> None:
        """Free the memory of cases, and restore settings that they have changed in this process."""


class Stopwatch:
    """Elapsed seconds, for time limits of a run and for the interval of gaps."""

    def __init__(self) -> None:
        self._started_s = time.monotonic()

    def elapsed_s(self) -> float:
        """Return the seconds since construction or the last `restart`."""
        return time.monotonic() - self._started_s

    def restart(self) -> None:
        """Restart at zero."""
        self._started_s = time.monotonic()


@dataclass(frozen=True)
class Instant:
    """Wall and monotonic clock at one time."""

    wall_ns: int
    mono_ns: int


def now() -> Instant:
    """Return the current time on both clocks."""
    return Instant(time.time_ns(), time.monotonic_ns())


GAP_MS = 50.0
"""Length of a gap, ms: a full repaint of a large terminal takes 30 ms."""


def leave_gap(duration_ms: float) -> None:
    """Sleep, so that a user interface can paint."""
    time.sleep(duration_ms / 1000)
