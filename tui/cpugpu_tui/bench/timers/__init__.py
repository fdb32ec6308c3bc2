"""Everything that reads a clock: one timer per kind of device, all with the same four questions.

A timer answers in nanoseconds and never decides anything: how many calls, in which order and when to
stop is the protocol's business (`bench.point`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from cpugpu_tui.model import Case, Check, Device


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


@dataclass(frozen=True)
class FirstCall:
    """What is taken once, before any warm-up."""

    elapsed_ns: float
    """Wall time of the first call, device waited for: a first estimate."""
    singles: Mapping[str, tuple[float, ...]]
    """`as_written`, `as_written_synced` and `cold_start`, as far as they apply; ns."""
    result: Any
    """What the step returned, for the check."""


@dataclass(frozen=True)
class DeviceSamples:
    """Samples of the `device` metric: what the hardware needs for one call."""

    elapsed_ns: tuple[float, ...]
    marks: tuple[str, ...] = field(default=())


class Timer(Protocol):
    """Times operations on one device."""

    device: Device

    def load(self, case: Case, inputs: Any) -> Any:
        """Move the inputs to the device and return an operation. Raises CaseError(oom)."""

    def first_call(self, operation: Any) -> FirstCall:
        """Run the operation for the first time, in the publication's way where there is one."""

    def latency_block(self, operation: Any, calls: int) -> float:
        """Return the mean wall time per call, ns, of `calls` calls, each waited for."""

    def device_samples(self, operation: Any, count: int) -> DeviceSamples:
        """Return up to `count` times of single calls as the hardware sees them, ns."""

    def threads(self) -> int:
        """Return the CPU threads in force."""


class Machine(Protocol):
    """The devices of this process, and what is needed to make, move and compare tensors on them."""

    devices: tuple[Device, ...]
    no_gpu: str | None

    def timer(self, device: str) -> Timer:
        """Return the timer of a device of `devices`."""

    def make_inputs(self, case: Case) -> Any:
        """Return the host inputs, the same bytes for every device. Raises CaseError(oom) before allocating."""

    def check(self, case: Case, inputs: Any, results: dict[str, Any], *, exact: bool) -> Check | None:
        """Compare the devices' results, against float64 if `exact`. Raises CaseError(mismatch)."""

    def cost_hint(self, case: Case) -> float:
        """Return a number that grows with the case's time (its FLOPs); for estimates of time left."""

    def explain(self, error: Exception, case: Case) -> CaseError:
        """Return the failure row for an exception that a workload or torch raised."""


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


def leave_gap(duration_ms: float) -> None:
    """Do nothing for a while, so that whoever watches can paint."""
    time.sleep(duration_ms / 1000)
