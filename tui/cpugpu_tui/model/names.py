"""Names of metrics, element types, scales, marks and phases. Classes stand elsewhere: they take time to make."""

from __future__ import annotations

MAX_SIZE = 10**12
"""Largest size of a case; larger ones fit into no memory."""

LATENCY = "latency"
"""Time from the start of a call until the device has finished it: mean of a block, ns per call."""
SINGLE = "latency_single"
"""Taken with `latency`: calls timed one by one, for percentiles, ns."""
DEVICE = "device"
"""Kernel time of one call, with cold caches unless `Plan.cache` is `warm`, ns."""
THROUGHPUT = "throughput"
"""Many calls queued with one synchronise at the end, ns per call."""
END_TO_END = "end_to_end"
"""Latency with copies: inputs start and results end in host memory. Its samples have one of these two names:"""
PAGEABLE, PINNED = "end_to_end_pageable", "end_to_end_pinned"
KERNELS = "kernels"
"""Number and total time of the kernels of one profiled call, in the event `KernelsProfiled`."""
COLD_START = "cold_start"
"""First call of the process, ns."""
AS_WRITTEN = "as_written"
"""Time that the publication's clock reports, which may be a total, ns. Comes with the next four:"""
SYNCED = "as_written_synced"
"""The same calls and scope, but read after waiting for the device, ns."""
USER, SYSTEM = "as_written_user", "as_written_system"
"""CPU time of the process in that scope, if the publication reports it, ns."""
MOVING = "as_written_moving"
"""Copies of model and input alone, if the publication times them separately, ns."""
ENQUEUE = "enqueue"
"""Taken with `latency_single` on a GPU: the part until the call returned, ns."""
DEVICE_WARM = "device_warm"
"""Taken with `device` on a GPU: kernel time with warm caches, as the previous call left them, ns."""
SYNCHRONISE = "synchronise"
"""Taken with `device` on a GPU: latency minus queueing and kernel time, for the smallest operation, ns."""
H2D_PAGEABLE = "h2d_pageable"
"""Taken with `end_to_end_pageable`: the part until the copies to the GPU returned, ns."""
D2H_PAGEABLE = "d2h_pageable"
"""Taken with `end_to_end_pageable`: the copy of the result to the host, synchronised, ns."""

ENERGY = "energy"
"""Energy of a call, from at least 1 s of repeated calls, in the event `EnergyMeasured`. Only on request."""

METRICS = (LATENCY, DEVICE, THROUGHPUT, END_TO_END, KERNELS, AS_WRITTEN, COLD_START)
"""Default metrics of a plan (method.md, "What is reported per case and device")."""

DTYPES = ("float64", "float32", "tf32", "bfloat16", "float16")
"""Element types of cases, named as in torch; `tf32` is float32 with TF32 matrix products on a GPU."""

ITEMSIZE_BYTES = {"float64": 8, "float32": 4, "tf32": 4, "bfloat16": 2, "float16": 2}
"""Bytes of one element of each dtype."""


def torch_dtype(dtype: str) -> str:
    """Return torch's name for a dtype of a case."""
    return "float32" if dtype == "tf32" else dtype


FILE, INSTALLED = "--workloads", "--installed"
"""Options of the agent's command line for user-defined workloads; a file follows the first."""

CODE = "--code"
"""Word of an agent's command that allows it to run the typed code of its plan. Without it, plans cannot bring code."""

GROUP = "cpugpu_tui.workloads"
"""Group of the entry points that name a `Workload` class, or a module that registers workloads."""

DUET = "duet"
"""Fact in the environment of a run in a duet: the duet and its pair of agents, the same for all runs of that pair."""

COMPILED = "compiled"
"""Variant of a workload that is its first variant, compiled by `torch.compile`."""

SCALES = ("full", "small")
"""`full` runs the publication's sizes; `small` finishes in seconds on two cores and reports the reduction."""

EDGES = ("begin", "end")
"""Values of `MachineRead.edge`: before the first call of a case on a device, and after its last."""

CORES = "cores"
"""Value of `MachineRead.edge`: waiting of the threads for cores, after a case in which cores were missing."""

NO_CORE = "no-core"
"""Mark of a half-round whose threads waited for a core in every repetition. It is not a valid result."""

NOT_CONVERGED, MOST_ROUNDS, TOO_CLOSE = "not-converged", "most-rounds", "too-close"
"""Marks of the last half-round of a case without a winner: the time ran out, all rounds were used, or more rounds were
not expected to show one."""

TURN = "turn"
"""Phase in which the agent of a duet waits until it may prepare a case (round 0), time a round, or end (no case)."""

COMPILING, COMPILER_START = "compile", "loading the compiler"
CALIBRATION = "calibration"
"""Phase in which peak rates and overheads of a device are measured."""


def place(device: str) -> int:
    """Return a device's sort key from its name: -1 for the CPU, N for `cuda:N`."""
    number = device.partition(":")[2]
    return int(number) if number.isdecimal() else -1


RESIDENT = "resident"
"""Key of the what-if that nothing is assumed: inputs are on the GPU. See `analysis.costs`."""

RECORDED = "recorded"
"""Name of a GPU whose times were recorded on another machine. Faces set it beside a CPU; no agent or history has it."""

RECORDED_GPU = "recorded GPU"
"""Its name where faces call others `GPU`."""
