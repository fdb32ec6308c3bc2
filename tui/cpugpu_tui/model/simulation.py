"""The constants of a made-up machine."""

from __future__ import annotations

from dataclasses import dataclass


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
