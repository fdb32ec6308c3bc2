"""What runs and how it is doing: devices, their ceilings, telemetry."""

from __future__ import annotations

from dataclasses import dataclass, field


def place(device: str) -> int:
    """Return where a device stands in a run, by its name: the CPU first, then the GPUs as torch counts them."""
    number = device.partition(":")[2]
    return int(number) if number.isdecimal() else -1


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
class Line:
    """What a copy costs: `alpha_ns` + bytes / `bytes_per_s`."""

    alpha_ns: float
    """Time of a copy of nothing."""
    bytes_per_s: float
    """Rate of a copy without end."""

    def elapsed_ns(self, size_bytes: float) -> float:
        """Return the time of a copy of so many bytes."""
        return self.alpha_ns + size_bytes / self.bytes_per_s * 1e9


@dataclass(frozen=True)
class Ceilings:
    """What one device of this machine reached in its own calibration, under one torch build."""

    device: str
    """`cpu` or `cuda:N`, as torch counted then."""
    label: str
    uuid: str | None
    hostname: str
    torch: str
    measured_wall_ns: int
    """CLOCK_REALTIME of the calibration: its age is shown."""
    threads: int
    """CPU threads in force."""
    flops: dict[str, float]
    """dtype → FLOP/s of the largest matrix product."""
    matmul_sizes: dict[str, int]
    """dtype → n of that product."""
    copy_bytes_per_s: float
    """Bytes read plus bytes written per second in the largest copy within the device's memory."""
    copy_bytes: int
    """Size of that copy."""
    launch_ns: float
    """Host time of one call that does next to nothing: on a GPU of queueing it."""
    synchronize_ns: float | None = None
    """Waiting for a GPU that is idle; None on the CPU."""
    round_trip_ns: float | None = None
    """Queueing the smallest operation and waiting for it; None on the CPU."""
    transfers: dict[str, Line] = field(default_factory=dict)
    """`h2d_pageable`, `h2d_pinned`, `d2h_pageable`, `d2h_pinned` → cost of a copy; empty on the CPU."""
    simulated: bool = False


@dataclass(frozen=True)
class Reading:
    """A number with its age, or a reason why there is none. Unknown is never 0."""

    value: float | None
    """The number, in the unit that the reading's key names."""
    reason: str | None = None
    """Why there is no number: a key of `telemetry.reasons.REASONS`."""
    age_s: float = 0.0
    """Seconds between the moment the value was true and the moment of the event."""
    is_stamped: bool = False
    """Whether the driver itself said when the value was true; otherwise it is when we asked."""


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
class MigInstance:
    """A slice of a GPU in MIG mode: what torch sees as a device of its own."""

    index: int
    """Within its GPU."""
    uuid: str | None
    """With the prefix `MIG-`."""
    name: str
    readings: dict[str, Reading]
    """`memory_used_bytes`, `memory_total_bytes`; power and temperature are those of the whole board."""
    processes: tuple[GpuProcess, ...] | None = None
    """None when they cannot be listed."""


@dataclass(frozen=True)
class GpuTelemetry:
    """All readings of one GPU at one moment."""

    index: int
    """NVML's index (PCI order), not torch's."""
    uuid: str | None
    name: str
    pci_bus_id: str | None
    readings: dict[str, Reading]
    """Keys carry units, see `telemetry.nvml.keys`; every key is always there."""
    throttle: tuple[str, ...] = ()
    """Words for the active throttle reasons: `idle`, `power-capped`, `thermal`, `hw-thermal`,
    `power-brake`, `hw-slowdown`, `sync-boost`, `app-clocks`, `display`; bits without a word as `unknown 0x400`."""
    processes: tuple[GpuProcess, ...] | None = None
    """Those of no slice; None when they cannot be listed."""
    problem: str | None = None
    """One sentence when this GPU as a whole cannot be read (lost, no permission)."""
    instances: tuple[MigInstance, ...] = ()
    """Its slices in MIG mode."""
    persistence: bool | None = None
    """Whether the driver stays loaded without a client; None where it cannot be told."""

    @property
    def everyone(self) -> tuple[GpuProcess, ...] | None:
        """Return the processes of the GPU and of its slices, each once; None when none of them can be listed."""
        lists = (self.processes, *(instance.processes for instance in self.instances))
        known = [processes for processes in lists if processes is not None]
        each = {process.pid: process for processes in known for process in processes}
        return tuple(each.values()) if known else None
