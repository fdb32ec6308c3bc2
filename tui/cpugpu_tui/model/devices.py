"""Devices, their peak rates, telemetry, and use of the CPU cores."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Device:
    """A device that the agent found."""

    name: str
    """`cpu` or `cuda:N`, numbered as in torch."""
    label: str
    """Product name, for example `NVIDIA H200`."""
    uuid: str | None = None
    """`GPU-…` or `MIG-…`, as in NVML; used to match telemetry. None for the CPU."""
    memory_bytes: int | None = None
    """Total memory, bytes; None if unknown."""
    simulated: bool = False
    """Whether the device is simulated."""

    @property
    def is_cpu(self) -> bool:
        """Return whether this is the host's processor."""
        return self.name == "cpu"


@dataclass(frozen=True)
class Line:
    """Linear model of a copy's time: `alpha_ns` + bytes / `bytes_per_s`."""

    alpha_ns: float
    """Fixed time of a copy, ns."""
    bytes_per_s: float
    """Rate of large copies, bytes per second."""

    def elapsed_ns(self, size_bytes: float) -> float:
        """Return the time of a copy of so many bytes, ns."""
        return self.alpha_ns + size_bytes / self.bytes_per_s * 1e9


@dataclass(frozen=True)
class EventClock:
    """The check of a GPU's event clock, which times kernels. Times are None where the check did not get that far."""

    fault: str = ""
    """Empty for a sound clock, else a key of `CLOCK_FAULTS`. A clock with a fault is not used."""
    pair_ns: float | None = None
    """Reading of a pair of events with nothing between them, ns."""
    step_ns: float | None = None
    """Shortest difference between two readings, ns."""
    back_ns: float | None = None
    """Longest step back, ns; 0 without one."""
    bend: float | None = None
    """Largest relative distance from a straight line of the readings over the number of calls."""
    block_ns: float | None = None
    """Reading of the block that is compared with the wall clock, ns."""
    wall_least_ns: float | None = None
    wall_most_ns: float | None = None
    """Shortest and longest time that the block took by the wall clock, ns."""
    limit_ns: float | None = None
    """How long the check waited for an event that did not occur, ns."""
    elapsed_ns: float = 0.0
    """Time that the check took, ns."""
    checked_wall_ns: int = 0
    """Time of the check, CLOCK_REALTIME in ns."""
    uuid: str | None = None
    driver: str | None = None
    torch: str = ""
    boot_id: str = ""
    """GPU, driver, torch and boot of the machine that the outcome holds for."""

    @property
    def is_sound(self) -> bool:
        """Return whether the clock passed all checks."""
        return not self.fault

    @property
    def floor_ns(self) -> float | None:
        """Return the shortest time that the clock can tell from nothing, ns."""
        known = [each for each in (self.pair_ns, self.step_ns) if each is not None]
        return max(known, default=None)

    def holds_for(self, other: EventClock) -> bool:
        """Return whether a check of the same GPU, driver, torch and boot need not be repeated."""
        mine, theirs = ((each.uuid, each.driver, each.torch, each.boot_id) for each in (self, other))
        return self.is_sound and bool(self.uuid and self.boot_id) and mine == theirs


CLOCK_FAULTS = ("hang", "zero", "back", "wall", "coarse", "late", "bend")
"""Why an event clock is not used: it does not answer, reads 0, steps back, disagrees with the wall clock, has long
steps, adds time to each pair, or does not grow linearly with the number of calls."""


@dataclass(frozen=True)
class Ceilings:
    """Peak rates and fixed overheads of one device, measured in a calibration with one torch build."""

    device: str
    """`cpu` or `cuda:N`, numbered as in torch at that time."""
    label: str
    uuid: str | None
    hostname: str
    torch: str
    measured_wall_ns: int
    """Time of the calibration, CLOCK_REALTIME in ns."""
    threads: int
    """Number of CPU threads that torch used."""
    flops: dict[str, float]
    """dtype → FLOP/s of the largest matrix product."""
    matmul_sizes: dict[str, int]
    """dtype → n of that matrix product."""
    copy_bytes_per_s: float
    """Bytes read plus bytes written per second in the largest copy within the device's memory."""
    copy_bytes: int
    """Size of that copy, bytes."""
    launch_ns: float
    """Launch overhead: host time of the smallest call, on a GPU of queueing it, ns."""
    synchronize_ns: float | None = None
    """Time to synchronise with an idle GPU, ns; None on the CPU."""
    round_trip_ns: float | None = None
    """Time to queue the smallest operation and wait for it, ns; None on the CPU."""
    transfers: dict[str, Line] = field(default_factory=dict)
    """`h2d_pageable`, `h2d_pinned`, `d2h_pageable`, `d2h_pinned` → time of a copy; empty on the CPU."""
    simulated: bool = False
    driver: str | None = None
    """Version of the NVIDIA driver; None without one, and in machine cards of older versions."""
    quick: bool = False
    """Whether this is the short calibration after a run, with fewer sizes and repeats than a full one."""
    clock: EventClock | None = None
    """Last check of a GPU's event clock; None on the CPU, and in machine cards of older versions."""

    def is_of(self, device: Device) -> bool:
        """Return whether these belong to a device: a GPU is matched by UUID, a CPU by name and label."""
        if device.uuid:
            return self.uuid == device.uuid
        return (self.device, self.label) == (device.name, device.label)


@dataclass(frozen=True)
class Reading:
    """A telemetry value with its age, or the reason why it is missing. An unknown value is None, never 0."""

    value: float | None
    """The value, in the unit at the end of the reading's key."""
    reason: str | None = None
    """Why the value is missing: a key of `machine.text.REASONS`."""
    age_s: float = 0.0
    """Age of the value at the time of the event, seconds."""
    is_stamped: bool = False
    """Whether the age is from the driver's own timestamp; otherwise from the time of the query."""


@dataclass(frozen=True)
class GpuProcess:
    """A process on a GPU. Command and user are untrusted text: sanitise them before printing."""

    pid: int
    memory_bytes: int | None
    user: str | None
    command: str | None
    """None if the PID cannot be resolved (other namespace, or ended)."""
    own: bool
    """Whether it is an agent of this program."""
    readings: dict[str, Reading] = field(default_factory=dict)
    """`kernel_active_pct` (share of time with a kernel of this process) and `cpu_cores` (CPU time divided by elapsed
    time); empty where they were not read."""


@dataclass(frozen=True)
class MigInstance:
    """A slice of a GPU in MIG mode, which torch sees as a separate device."""

    index: int
    """Index within its GPU."""
    uuid: str | None
    """UUID with the prefix `MIG-`."""
    name: str
    readings: dict[str, Reading]
    """`memory_used_bytes` and `memory_total_bytes`; power and temperature exist only for the whole board."""
    processes: tuple[GpuProcess, ...] | None = None
    """None if they cannot be listed."""


@dataclass(frozen=True)
class GpuTelemetry:
    """All readings of one GPU at one moment."""

    index: int
    """Index in NVML (PCI order), not in torch."""
    uuid: str | None
    name: str
    pci_bus_id: str | None
    readings: dict[str, Reading]
    """Name → reading; names end with their unit, see `machine.nvml.values`. All names are always present."""
    throttle: tuple[str, ...] = ()
    """Active throttle reasons: `idle`, `power-capped`, `thermal`, `hw-thermal`, `power-brake`, `hw-slowdown`,
    `sync-boost`, `app-clocks`, `display`; unknown bits as `unknown 0x400`."""
    processes: tuple[GpuProcess, ...] | None = None
    """Processes outside MIG slices; None if they cannot be listed."""
    problem: str | None = None
    """Why this GPU cannot be read at all (lost, no permission), one sentence."""
    instances: tuple[MigInstance, ...] = ()
    """Slices in MIG mode."""
    persistence: bool | None = None
    """Whether the driver stays loaded without a client; None if unknown."""

    @property
    def everyone(self) -> tuple[GpuProcess, ...] | None:
        """Return the processes of the GPU and its slices without duplicates; None if none can be listed."""
        lists = (self.processes, *(instance.processes for instance in self.instances))
        known = [processes for processes in lists if processes is not None]
        each = {process.pid: process for processes in known for process in processes}
        return tuple(each.values()) if known else None


@dataclass(frozen=True)
class CoreUser:
    """Other processes with the same command."""

    command: str | None
    """Name of the command; None in an anonymous export."""
    cores: float
    """Cores used: CPU time of all of them divided by elapsed time."""


@dataclass(frozen=True)
class CoreUse:
    """Use of the cores during a case, in cores (CPU time divided by elapsed time). None is unknown."""

    elapsed_ns: float
    own_cores: float
    """Used by our own processes."""
    others: tuple[CoreUser, ...] = ()
    """Other commands, largest use first, at most five."""
    other_processes: int = 0
    """Number of other processes that used at least 0.05 cores."""
    other_cores: float = 0.0
    """Used by all other visible processes."""
    ended_cores: float | None = None
    """Used by processes that ended during the case; None if not all processes could be read."""
    unseen_cores: float | None = None
    """Use of our allowed cores by processes outside this container. None if every process is visible, or if not all
    could be read."""
    stolen_cores: float | None = None
    """Given to other virtual machines by the hypervisor (steal time)."""
    throttled_periods: int | None = None
    """Periods in which the cgroup's CPU quota stopped threads; None without a quota."""
    throttled_ns: float | None = None


@dataclass(frozen=True)
class DiscardedHalfRound:
    """A half-round that was repeated because its threads waited for a core. Statistics exclude it."""

    round_index: int
    waited_share: float
    samples: dict[str, tuple[float, ...]]


@dataclass(frozen=True)
class CommandUse:
    """What the processes of a command used in one run that is not a sample."""

    processes: int
    """Most processes at one time."""
    hides_gpus: bool = False
    """It ran with an empty CUDA_VISIBLE_DEVICES."""
    utilisation_pct: float | None = None
    """Highest GPU utilisation of one process; None if unknown."""
    gpu_reason: str | None = None
    """Why it is unknown whether it used the GPU: a key of `machine.text.REASONS`."""
    startup_ns: float | None = None
    """Median time of a command that does nothing but start, ns; None without one."""


@dataclass(frozen=True)
class CoreWait:
    """How long the threads of a case waited for a core on one device."""

    threads: int
    """Number of working threads; 1 on a GPU, the launching thread."""
    cores: int
    """Number of logical CPUs that they may use."""
    waited_ns: float
    """Time that they were ready to run without a core, ns, summed over the half-rounds above the limit."""
    wanted_ns: float
    """Time that they ran or waited in these half-rounds, ns."""
    discarded: tuple[DiscardedHalfRound, ...] = ()
    one_thread_ns: tuple[float, ...] = ()
    """Latency with one thread, ns, timed in addition; empty if it was not timed."""
    one_thread_share: float | None = None
    """Share of the time that this one thread waited for a core."""
    use: CoreUse | None = None
    """Use of the cores during the case."""

    @property
    def share(self) -> float:
        """Return the share of the time that the threads waited."""
        return min(1.0, self.waited_ns / self.wanted_ns) if self.wanted_ns > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Sketch:
    """A result in a few sums, by which another process tells whether its own result is the same."""

    count: int
    """Number of elements."""
    norm: float
    sums: tuple[float, ...]
    """Of elements with random signs, the same for all results: in a difference, their norm estimates that of all."""


@dataclass(frozen=True, slots=True)
class Check:
    """Result of comparing the outputs of the devices."""

    against: str
    """Reference of the comparison: `float64 on the CPU` or a device name."""
    error: float
    """Largest error, relative to the workload's scale."""
    tolerance: float
    """Largest accepted error, relative to the same scale."""
    sketches: tuple[Sketch, ...] = ()
    """Of the first device's result, in a duet of two codes: its floating-point numbers, its integers."""
