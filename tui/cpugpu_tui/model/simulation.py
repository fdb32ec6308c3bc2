"""The constants of a made-up machine."""

from __future__ import annotations

from dataclasses import dataclass

GPU_MEMORY_BYTES = 16 << 30
"""Memory of each simulated GPU."""


@dataclass(frozen=True)
class Simulation:
    """A planted machine: the simulated device's constants, known exactly, so that tests can check them.

    Law of a call: time = overhead + max(FLOPs × ns_per_flop, bytes / bytes_per_ns), with log-normal
    noise. Virtual time costs nothing unless `pace` says so.
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
    cpu_bytes_per_ns: float = 20.0
    """What the CPU reads plus writes in a copy: 20 is 20 GB/s."""
    gpu_bytes_per_ns: float = 2_000.0
    """The same within the GPU."""
    transfer_alpha_ns: float = 8_000.0
    """Start-up of a copy between host and GPU, either way."""
    pageable_bytes_per_ns: float = 8.0
    """Rate of such a copy from or to ordinary memory: 8 GB/s."""
    pinned_bytes_per_ns: float = 50.0
    """The same with pinned memory."""
    first_call_ns: float = 50_000_000.0
    """What the first call of a process costs extra on each device."""
    noise: float = 0.01
    """Standard deviation of ln(time) from sample to sample."""
    drift: float = 0.007
    """Standard deviation of ln(time) from run to run, as real machines drift; 0 for none (exact repetition)."""
    drift_seed: int = 0
    """Seed of `drift`; the session draws it from the run's id. 0 for no drift."""
    cpu_drift: float = 0.0
    """Standard deviation of the slow wandering of ln(CPU time) from half-round to half-round; 0 for none, as below."""
    gpu_drift: float = 0.0
    """The same of the GPU, on its own."""
    shared_drift: float = 0.0
    """The same of both alike, round by round."""
    drift_rho: float = 0.0
    """Correlation of a drift between successive half-rounds of a device, 0 to 1."""
    gpu_tile: int = 0
    """The GPU works in whole tiles of this many n: its times are a staircase."""
    cpu_ripple: float = 0.0
    """The CPU takes up to this share longer for what is left over by whole periods of n."""
    ripple_period: int = 16
    """Period of that ripple."""
    throttle_share: float = 0.0
    """Share of the GPU's half-rounds that are throttled, and marked so."""
    throttle_factor: float = 1.5
    """How much longer kernels take in these."""
    sm_clock_mhz: float = 0.0
    """The GPU's clock at its usual speed; 0 where it cannot be read."""
    gpu_idle_w: float = 0.0
    """Power of the GPU while it waits."""
    gpu_busy_w: float = 0.0
    """Its power while a kernel runs; 0 where power and energy cannot be read. The counter steps every 100 ms."""
    cpu_busy_w: float = 0.0
    """Power of the processor, at work or not; 0 where it cannot be read."""
    temperature_c: float = 0.0
    """Temperature of the GPU; 0 where it cannot be read."""
    counted_before_ns: float = 0.0
    """What the throttle counters stood at before the run; they count the half-rounds of `throttle_share` as thermal."""
    neighbour_pid: int = 0
    """A process of somebody else on the GPU, from another namespace; 0 for none."""
    transient_calls: int = 0
    """Slow calls on a device after it ran another operation."""
    transient_factor: float = 4.0
    """How much longer a CPU call or a launch takes then."""
    pace: float = 0.0
    """Real seconds slept per virtual second; 0 runs as fast as the machine can."""
    gpus: int = 1
    """How many simulated GPUs there are; 0 simulates a machine without any."""
    slow_gpu: int = 0
    """Number of the GPU that is slower than its like, as in `cuda:2`;"""
    slow_factor: float = 1.0
    """how many times as long everything takes on it: 1 for none."""
    other_gpus: int = 0
    """How many of the GPUs, the last ones, are of another model, whose work takes"""
    other_factor: float = 2.0
    """this many times as long."""
    peer_bytes_per_ns: float = 300.0
    """Rate of a copy between two GPUs that reach each other's memory: 300 is 300 GB/s."""
    peer_alpha_ns: float = 12_000.0
    """What a caller waits for the smallest such copy."""
    peer_group: int = 0
    """GPUs reach each other's memory within groups of so many, and copy by way of the host beyond; 0 for all."""
    starved_share: float = 0.0
    """Share of the time that the threads of a CPU half-round wait for a core; one thread alone never waits."""
    starved_size: int = 0
    """Size of the cases in which they do; 0 for all."""
    starved_tries: int = 0
    """How many half-rounds of a case do, the first ones; 0 for all, and for the warm-up too."""
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
