"""What is run: cases, plans, and the names of what can be measured."""

from __future__ import annotations

from dataclasses import dataclass
from sys import intern

from cpugpu_tui.model.devices import Ceilings
from cpugpu_tui.model.simulation import Simulation

PROTOCOL = 1
"""Version of the agent's line protocol; agent and controller must agree exactly."""

MAX_SIZE = 10**12
"""Largest size a case may name; beyond it nothing fits anywhere and arithmetic gets silly."""

LATENCY = "latency"
"""What a caller waits for one call: mean of a block, ns per call."""
SINGLE = "latency_single"
"""Comes with `latency`: calls timed one by one, for percentiles."""
DEVICE = "device"
"""What the hardware needs for one call, caches cold unless the plan says warm, ns."""
THROUGHPUT = "throughput"
"""Many calls queued, one wait at the end, ns per call."""
END_TO_END = "end_to_end"
"""Data starts and ends on the host; samples carry the names of the two ways:"""
PAGEABLE, PINNED = "end_to_end_pageable", "end_to_end_pinned"
KERNELS = "kernels"
"""Number and summed time of the kernels of one profiled call: the event `KernelsProfiled`."""
COLD_START = "cold_start"
"""The first call of the process, ns."""
AS_WRITTEN = "as_written"
"""What the publication's clock prints (which may be a total), ns; comes with:"""
SYNCED = "as_written_synced"
"""the same calls, the same scope, but the clock waited for the device;"""
USER, SYSTEM = "as_written_user", "as_written_system"
"""CPU seconds of the process in that scope, where the publication prints them;"""
MOVING = "as_written_moving"
"""a second clock round moving alone, where the publication has one."""
ENQUEUE = "enqueue"
"""Comes with `latency_single` on a GPU: the part of it until the call returned, ns."""
DEVICE_WARM = "device_warm"
"""Comes with `device` on a GPU: what it needs for a call with whatever the last one left in its caches, ns;"""
SYNCHRONISE = "synchronise"
"""and what a caller waits for beyond queueing and the kernel itself, measured with the smallest operation."""
H2D_PAGEABLE = "h2d_pageable"
"""Comes with `end_to_end_pageable`: the part of it until the copies to the GPU returned, ns;"""
D2H_PAGEABLE = "d2h_pageable"
"""and fetching the result alone, waited for."""

ENERGY = "energy"
"""Joules of a call, from at least 1 s of repeated calls: the event `EnergyMeasured`. Only where it is asked for."""

METRICS = (LATENCY, DEVICE, THROUGHPUT, END_TO_END, KERNELS, AS_WRITTEN, COLD_START)
"""What a plan asks for unless told otherwise (method.md, "What is reported per case and device")."""

DTYPES = ("float64", "float32", "tf32", "bfloat16", "float16")
"""Element types a case may name, as torch spells them; `tf32` is float32 with TF32 products on a GPU."""

ITEMSIZE_BYTES = {"float64": 8, "float32": 4, "tf32": 4, "bfloat16": 2, "float16": 2}
"""Bytes of one element of each dtype."""


def torch_dtype(dtype: str) -> str:
    """Return torch's name of a case's dtype."""
    return "float32" if dtype == "tf32" else dtype


SCALES = ("full", "small")
"""`full` is what the publication ran; `small` finishes in seconds on two cores and says what it scaled."""


SweepKey = tuple[str, str, str, int]
"""What the cases of one sweep share: workload, variant, dtype, threads. They differ in size alone."""


@dataclass(frozen=True, slots=True)  # there are 10,000 of them
class Case:
    """One row of the table. It names no device, because a row compares devices."""

    workload: str
    """Name in the workload registry, for example `matmul`."""
    size: int
    """Position on the workload's own axis (n of an n×n matrix, elements of a vector)."""
    dtype: str = "float32"
    """One of `DTYPES`."""
    threads: int = 0
    """CPU threads; 0 stands for every physical core that the agent may use."""
    variant: str = "default"
    """Way of doing the same thing, named by the workload."""

    @property
    def key(self) -> str:
        """Short text that identifies the case within a run and across runs."""
        threads = str(self.threads) if self.threads else "all"
        return intern(f"{self.workload}/{self.variant}/{self.size}/{self.dtype}/t{threads}")  # many things hold it

    @property
    def sweep(self) -> SweepKey:
        """The sweep that the case belongs to."""
        return self.workload, self.variant, self.dtype, self.threads


@dataclass(frozen=True)
class Found:
    """What an earlier agent of the same search found out about a size."""

    case: Case
    speedup: float | None = None
    """Time of the CPU / time of the GPU; None for a case that failed."""
    low: float | None = None
    """Lower end of its 95 % interval; None with too few rounds."""
    high: float | None = None
    rounds: int = 0
    device: str | None = None
    """Which GPU; None for the first of the run, as before there could be several."""


@dataclass(frozen=True)
class Search:
    """Further sizes are chosen from what the first ones said, between the smallest and the largest of a sweep."""

    most_cases: int = 20
    """Cases of one sweep at most (method.md, "Crossover")."""
    most_steps: int = 8
    """Sizes that narrow the last change of the lead, at most; what is left of the cases narrows it end to end."""
    ratio: float = 1.1
    """The bracket is narrow enough when its ends are this close."""
    full: bool = False
    """Time the CPU also where it is hopelessly behind."""
    found: tuple[Found, ...] = ()
    """What a dead agent had found out."""


@dataclass(frozen=True)
class OwnFile:
    """A person's workload file, as it was when it was loaded."""

    path: str
    """Absolute."""
    sha256: str
    """Of its bytes, in hexadecimal: two runs of one name measured the same only if these agree."""


@dataclass(frozen=True)
class OwnCode:
    """Code that a person typed to be timed. It is data here: only an agent compiles and runs it."""

    name: str
    """Name of its workload, made of the statement."""
    statement: str
    """What one call does, on one line. Its value is the result."""
    setup: tuple[str, ...] = ()
    """Lines that make what the statement uses; run on the host, once for each size."""
    lets: tuple[tuple[str, str], ...] = ()
    """Name and Python expression of further parameters."""
    in_place: bool = False
    """The statement may change its inputs, which are restored before each call."""


@dataclass(frozen=True)
class Plan:
    """All an agent needs to know to run and stop. One plan per agent process."""

    name: str
    """Preset or workload the person asked for; shown in history."""
    cases: tuple[Case, ...]
    """In the order in which they start."""
    devices: tuple[str, ...] = ("auto",)
    """`auto` (CPU, and the first GPU if there is one), `cpu`, `cuda` (every visible GPU), `cuda:N`."""
    parallel: bool = False
    """An agent for each GPU, all at the same time: they share power, PCIe and cores. Otherwise one agent times its
    devices in turn."""
    metrics: tuple[str, ...] = METRICS
    """Subset of `METRICS` to take, `latency` always is; and `ENERGY`."""
    rounds: int = 8
    """Least rounds per case; each round is one half per device."""
    max_rounds: int = 40
    """Most rounds per case: in between the interval decides (method.md, step 7)."""
    blocks: int = 5
    """Blocks of calls in a half-round."""
    window: int = 4
    """How many cases are active at once, so that a case's rounds are spread in time."""
    budget_s: float = 5.0
    """Time for one device and case; a call longer than this is timed once."""
    max_seconds: float | None = None
    """Time for the whole run; cases not reached are skipped."""
    cache: str = "cold"
    """`cold` or `warm`: state of the caches for the `device` metric."""
    seed: int = 1
    """Seed of the inputs."""
    gaps: bool = False
    """Leave 50 ms between half-rounds once in `gap_every_s`, announced, for a user interface to paint."""
    gap_every_s: float = 0.9
    """A gap is due after this long: with half-rounds of 0.1 s there is one at least once a second."""
    flush_denormals: bool = True
    """Treat denormals as zero on the CPU, as GPUs' fast paths do."""
    scale: str = "full"
    """One of `SCALES`."""
    mnist: str | None = None
    """Folder of the person's own idx files; None draws digits."""
    ceilings: tuple[Ceilings, ...] = ()
    """What these devices reached in their calibration, as far as the controller knows."""
    search: Search | None = None
    """Look for the crossover of each sweep: `cases` are where it starts."""
    calibrate: bool = False
    """Measure the ceilings of the devices before the cases; a calibration alone has no cases."""
    ceilings_s: float | None = None
    """Time limit for measuring, after the cases, the devices that `ceilings` lacks; None measures none. The session
    sets it for the agent; the plan that is saved with the run has None."""
    simulation: Simulation | None = None
    """The simulated machine to run on instead of this one; results carry a mark."""
    codes: tuple[OwnCode, ...] = ()
    """Code that a person typed, a workload each. An agent runs it only if its command line allows that."""
    own_files: tuple[OwnFile, ...] = ()
    """Whence those of its workloads come that are a person's own: a record, which nobody loads from."""


@dataclass(frozen=True)
class WorkloadInfo:
    """What the catalogue says about a workload, without code."""

    name: str
    axis: str
    """What a size means, for example `n of n×n`."""
    variants: tuple[str, ...]
    sizes: tuple[int, ...]
    """Default sizes."""
    summary: str
    """One line for a list."""
    dtypes: tuple[str, ...] = DTYPES
    """Element types that make sense."""
    source: str = ""
    """File or installed package that it comes from; empty for a built-in one."""


@dataclass(frozen=True)
class Refused:
    """A file or package whose workloads cannot be used."""

    source: str
    message: str
    """What is wrong, one sentence; names the line where there is one."""
    remedy: str
