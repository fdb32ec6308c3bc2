"""Constants of a simulated machine."""

from __future__ import annotations

from dataclasses import dataclass

EVENT_CLOCKS = ("slow5", "late", "back", "coarse", "bend", "zero", "hang")
"""Wrong event clocks: five times too long, 120 µs more for each pair, steps back, steps of 1 ms, longer from 0.3 ms on,
always 0, never answers."""

GPU_MEMORY_BYTES = 16 << 30
"""Memory of each simulated GPU."""

MOST_BYTES = 1 << 40
"""Memory beyond which a case is refused. Less may exceed a simulated GPU: its memory is only shown."""


@dataclass(frozen=True)
class Simulation:
    """Constants of a simulated CPU and simulated GPUs, known exactly, so that tests can check results against them.

    A call takes overhead + max(FLOPs × ns_per_flop, bytes / bytes_per_ns), with log-normal noise. Time is virtual:
    a run takes no real time unless `pace` is set.
    """

    seed: int = 0
    """Seed of the noise."""
    cpu_overhead_ns: float = 1_000.0
    """Time of an empty CPU call, ns."""
    cpu_ns_per_flop: float = 0.002
    """Time of one FLOP on the CPU, ns: 0.002 is 500 GFLOP/s."""
    launch_ns: float = 10_000.0
    """Launch overhead: host time to queue one kernel, ns."""
    sync_ns: float = 8_000.0
    """Host time to synchronise after the device has finished, ns."""
    kernel_overhead_ns: float = 2_000.0
    """Device time of an empty kernel, ns."""
    gpu_ns_per_flop: float = 0.00005
    """Time of one FLOP on the GPU, ns: 0.00005 is 20 TFLOP/s."""
    cpu_bytes_per_ns: float = 20.0
    """Bytes that the CPU reads plus writes in a copy, per ns: 20 is 20 GB/s."""
    gpu_bytes_per_ns: float = 2_000.0
    """The same for a copy within the GPU."""
    transfer_alpha_ns: float = 8_000.0
    """Fixed time of a copy between host and GPU, in either direction, ns."""
    pageable_bytes_per_ns: float = 8.0
    """Rate of such a copy with pageable memory, bytes per ns: 8 is 8 GB/s."""
    pinned_bytes_per_ns: float = 50.0
    """The same with pinned memory."""
    first_call_ns: float = 50_000_000.0
    """Extra time of a process's first call on each device, ns."""
    noise: float = 0.01
    """Standard deviation of ln(time) from sample to sample."""
    drift: float = 0.007
    """Standard deviation of ln(time) from run to run, as real machines drift; 0 for none (exact repetition)."""
    drift_seed: int = 0
    """Seed of `drift` and of what differs between starts; the session draws it from the run's id. 0 for neither."""
    cpu_start: float = 0.0
    """Standard deviation of ln(CPU time) from start to start of the process; a GPU server showed 0.05 to 0.14."""
    gpu_start: float = 0.0
    """The same for the GPU; a server showed 0.02 to 0.12."""
    slow_starts: float = 0.0
    """Share of starts in which the CPU takes `slow_start_factor` as long, as if memory lay badly."""
    slow_start_factor: float = 2.0
    """Factor of these starts."""
    start: int = 0
    """Number of the start of this process within its run, from 0; the session sets it."""
    cpu_drift: float = 0.0
    """Standard deviation of the drift of ln(CPU time) between half-rounds; 0 for none."""
    gpu_drift: float = 0.0
    """The same for the GPU, independent of the CPU."""
    shared_drift: float = 0.0
    """The same for both together, between rounds."""
    drift_rho: float = 0.0
    """Autocorrelation of a drift between successive half-rounds of a device, 0 to 1."""
    gpu_tile: int = 0
    """Tile size in n: the GPU's work is rounded up to whole tiles, so its times rise in steps; 0 for none."""
    cpu_ripple: float = 0.0
    """The CPU takes up to this share longer if n is not a multiple of `ripple_period`; 0 for none."""
    ripple_period: int = 16
    """Period of `cpu_ripple`, in n."""
    throttle_share: float = 0.0
    """Share of the GPU's half-rounds that are throttled and marked `throttled`."""
    throttle_factor: float = 1.5
    """Factor by which kernels take longer in throttled half-rounds."""
    sm_clock_mhz: float = 0.0
    """SM clock of the GPU without throttling, MHz; 0 if it cannot be read."""
    gpu_idle_w: float = 0.0
    """Power of the idle GPU, W."""
    gpu_busy_w: float = 0.0
    """Power of the GPU while a kernel runs, W; 0 if power and energy cannot be read. The energy counter steps every
    100 ms."""
    cpu_busy_w: float = 0.0
    """Power of the CPU, busy or idle, W; 0 if it cannot be read."""
    temperature_c: float = 0.0
    """Temperature of the GPU, °C; 0 if it cannot be read."""
    counted_before_ns: float = 0.0
    """Value of the throttle counters before the run, ns. They count the half-rounds of `throttle_share` as thermal."""
    neighbour_pid: int = 0
    """PID of another user's process on the GPU, from another namespace; 0 for none."""
    transient_calls: int = 0
    """Number of slow calls on a device after it ran another operation."""
    transient_factor: float = 4.0
    """Factor by which a CPU call or a launch takes longer in these calls."""
    pace: float = 0.0
    """Real seconds to sleep per virtual second; 0 runs as fast as possible."""
    gpus: int = 1
    """Number of simulated GPUs; 0 simulates a machine without a GPU."""
    slow_gpu: int = 0
    """Index of a GPU that is slower than the others, as in `cuda:2`; see `slow_factor`."""
    slow_factor: float = 1.0
    """Factor by which everything takes longer on `slow_gpu`; 1 for no slow GPU."""
    duet_factor: float = 1.0
    """Factor by which work takes longer on the first GPU in all agents of a duet but the first, to plant a change."""
    placebo_factor: float = 1.0
    """Factor by which work takes longer on the first GPU in the placebo of a comparison."""
    side_factor: float = 1.0
    """Factor by which work takes longer on the first GPU in this run; a comparison sets it to one of these two."""
    other_gpus: int = 0
    """Number of GPUs, counted from the last, that are another model; see `other_factor`."""
    other_factor: float = 2.0
    """Factor by which work takes longer on these GPUs."""
    peer_bytes_per_ns: float = 300.0
    """Rate of a copy between two GPUs with peer access, bytes per ns: 300 is 300 GB/s."""
    peer_alpha_ns: float = 12_000.0
    """Latency of the smallest such copy, ns."""
    peer_group: int = 0
    """GPUs per group with peer access; copies between groups pass through the host. 0 for one group of all GPUs."""
    starved_share: float = 0.0
    """Share of a CPU half-round that its threads wait for a core; a single thread never waits."""
    starved_size: int = 0
    """Size of the cases whose threads wait; 0 for all."""
    starved_tries: int = 0
    """Number of half-rounds at the start of a case whose threads wait; 0 for all and the warm-up."""
    crash_size: int = 0
    """Size of the cases that kill their agent; 0 for none."""
    hang_size: int = 0
    """Size of the cases that never return; 0 for none."""
    oom_size: int = 0
    """Size of the cases that run out of GPU memory; 0 for none."""
    mismatch_size: int = 0
    """Size of the cases whose results differ between devices; 0 for none."""
    error_size: int = 0
    """Size of the cases that raise an error; 0 for none."""
    pcie_width: int = 16
    """PCIe lanes that the driver of a GPU reports, of at most 16; rates are set by `pinned_bytes_per_ns`."""
    event_clock: str = ""
    """One of `EVENT_CLOCKS` for a GPU whose event clock is wrong; empty for a sound one."""
