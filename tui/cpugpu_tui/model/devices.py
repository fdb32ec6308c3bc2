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
    driver: str | None = None
    """NVIDIA driver in force; None where there is none, and in cards of older versions."""
    quick: bool = False
    """Whether it was measured within seconds after a run: fewer sizes and repeats than a full calibration."""

    def is_of(self, device: Device) -> bool:
        """Whether these are a device's ceilings: a GPU is known by its UUID, a CPU by its name and label."""
        if device.uuid:
            return self.uuid == device.uuid
        return (self.device, self.label) == (device.name, device.label)


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
    """Keys carry units, see `machine.nvml.value_names`; every key is always there."""
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


@dataclass(frozen=True)
class CoreUser:
    """Other processes of one name."""

    command: str | None
    """None in an anonymous export."""
    cores: float
    """CPU time of all of them over the length of the window."""


@dataclass(frozen=True)
class CoreUse:
    """Who used the cores during a case; None is unknown."""

    elapsed_ns: float
    own_cores: float
    """Of our own processes."""
    others: tuple[CoreUser, ...] = ()
    """Largest first, at most five names."""
    other_processes: int = 0
    """Others that used a twentieth of a core or more."""
    other_cores: float = 0.0
    """Of all others that are visible."""
    ended_cores: float | None = None
    """Of processes that were there at neither end, or have ended; None where not all processes could be read."""
    unseen_cores: float | None = None
    """Of the cores that we may use, what no visible process accounts for: work outside this container. None where
    every process is visible, or not all could be read."""
    stolen_cores: float | None = None
    """What a hypervisor gave to other virtual machines."""
    throttled_periods: int | None = None
    """Periods in which the cgroup's CPU quota held threads back; None without a quota."""
    throttled_ns: float | None = None


@dataclass(frozen=True)
class DiscardedHalfRound:
    """A half-round that was repeated because its threads had waited for a core: it counts in no statistic."""

    round_index: int
    waited_share: float
    samples: dict[str, tuple[float, ...]]


@dataclass(frozen=True)
class CoreWait:
    """How the threads of a case waited for a core on one device, where they did."""

    threads: int
    """Threads that worked; 1 on a GPU, the launching one."""
    cores: int
    """Logical CPUs that they may use."""
    waited_ns: float
    """Time that they were ready to run and had no core, over the half-rounds above the limit."""
    wanted_ns: float
    """Time that they ran or waited in these."""
    discarded: tuple[DiscardedHalfRound, ...] = ()
    one_thread_ns: tuple[float, ...] = ()
    """Latency on one thread, timed beside; empty where it was not timed."""
    one_thread_share: float | None = None
    """Share of the time that this one thread waited, too."""
    use: CoreUse | None = None
    """Who used the cores from the case's beginning to its end."""

    @property
    def share(self) -> float:
        """Share of the time that the threads waited."""
        return min(1.0, self.waited_ns / self.wanted_ns) if self.wanted_ns > 0 else 0.0
