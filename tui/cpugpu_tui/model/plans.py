"""Cases, plans and searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from sys import intern

from cpugpu_tui.model.devices import Ceilings, EventClock
from cpugpu_tui.model.names import METRICS
from cpugpu_tui.model.simulation import Simulation

PROTOCOL = 1
"""Version of the agent's line protocol; agent and controller must have the same."""

LEAST_LEFT_S = 0.001
"""What is left of a time limit at least, seconds: a limit of 0 would be none."""

SweepKey = tuple[str, str, str, int]
"""(workload, variant, dtype, threads): common to all cases of a sweep, which differ only in size."""


@dataclass(frozen=True, slots=True)  # slots: a run may have 10,000 cases
class Case:
    """A workload at one size, with one variant, dtype and number of CPU threads. It is timed on all devices."""

    workload: str
    """Name in the workload registry, for example `matmul`."""
    size: int
    """Value on the workload's axis (n of an n×n matrix, elements of a vector)."""
    dtype: str = "float32"
    """One of `DTYPES`."""
    threads: int = 0
    """CPU threads; 0 for all physical cores that the agent may use."""
    variant: str = "default"
    """One of the workload's variants; `default` is the first."""

    @property
    def key(self) -> str:
        """Return a short text that identifies the case within a run and across runs."""
        threads = str(self.threads) if self.threads else "all"
        return intern(
            f"{self.workload}/{self.variant}/{self.size}/{self.dtype}/t{threads}"
        )  # interned: many objects hold it

    @property
    def name(self) -> str:
        """The workload, with its variant except `default`."""
        return work_name(self.sweep)

    @property
    def sweep(self) -> SweepKey:
        """Return the key of the case's sweep."""
        return self.workload, self.variant, self.dtype, self.threads


def work_name(sweep: SweepKey) -> str:
    """Return the workload of a sweep, with its variant except `default`."""
    return " ".join(part for part in sweep[:2] if part != "default")


@dataclass(frozen=True)
class Found:
    """Result at one size from an earlier agent of the same search, which died or was stopped."""

    case: Case
    speedup: float | None = None
    """CPU latency divided by GPU latency; None if the case failed."""
    low: float | None = None
    """Lower end of its 95 % confidence interval; None with too few rounds."""
    high: float | None = None
    rounds: int = 0
    device: str | None = None
    """Name of the GPU; None for the first of the run (as in old versions)."""
    verdict: str = ""
    """Verdict of the comparison (`decide.verdict`); empty if the case failed."""
    moved: bool = False
    """Whether the GPU's calls include copies."""


@dataclass(frozen=True)
class Search:
    """Options of a crossover search, which chooses further sizes between the smallest and the largest of a sweep."""

    most_cases: int = 20
    """Most cases of one sweep (method.md, "Crossover")."""
    most_steps: int = 8
    """Most sizes to narrow the last crossover of resident data; the other cases narrow the one with copies."""
    ratio: float = 1.1
    """Ratio of the bracket's ends at which it is narrow enough."""
    full: bool = False
    """Whether to time the CPU also at sizes where it is certain to lose."""
    limit_s: float | None = None
    """Wall time of all sweeps together on several devices, seconds. Each sweep gets a share, in which it starts sizes;
    what it does not reach waits until all sweeps have had theirs. None for no limit."""
    device_s: float | None = None
    """The same for each device, in plans of older versions."""
    found: tuple[Found, ...] = ()
    """Results of an agent of this search that died."""

    @property
    def is_survey(self) -> bool:
        """Return whether many workloads share the time of this search."""
        return self.limit_s is not None or self.device_s is not None


@dataclass(frozen=True)
class OwnFile:
    """A user's workload file at the time of loading."""

    path: str
    """Absolute path."""
    sha256: str
    """Hash of the file, hexadecimal. Runs with different hashes did not time the same code."""


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
    target: tuple[str, ...] = ()
    """File or module, and function, if the statement is `file.py:function`. `caller` and a reason for what exists
    only in the process that asked for the run."""
    sha256: str = ""
    """Hash of the file, hexadecimal; empty for other code."""
    in_place: bool = False
    """The statement may change its inputs, which are restored before each call."""
    argv: tuple[str, ...] = ()
    """Words of a command that is timed as a whole process, instead of Python; `{n}` and `{device}` are replaced."""
    startup: tuple[str, ...] = ()
    """Words of a command that does nothing but start; empty for the usual one."""
    sides: tuple[OwnCode, ...] = ()
    """The implementation for the CPU and the one for the GPU, if they are two; this code then only names them."""
    is_compiled: bool = False
    """The default variant is compiled, too: that of one side, in a duet of two variants."""
    setup_option: str = field(default="--setup", compare=False)
    """Option that gives its setup, for remedies: OLD may have another one."""


@dataclass(frozen=True)
class Plan:
    """Cases and options of a run, as sent to the agent. An agent process runs one plan."""

    name: str
    """Preset or workload that was requested; shown in the history."""
    cases: tuple[Case, ...]
    """Cases in start order."""
    devices: tuple[str, ...] = ("auto",)
    """`auto` (CPU and, if present, the first GPU), `cpu`, `cuda` (all visible GPUs), `cuda:N`."""
    parallel: bool = False
    """Whether each GPU has its own agent, all running at the same time: they share power, PCIe and cores. Otherwise one
    agent times the devices in turn."""
    metrics: tuple[str, ...] = METRICS
    """Metrics to take, from `METRICS` and `ENERGY`; `latency` is always taken."""
    rounds: int = 8
    """Least rounds per case; a round visits each device once."""
    max_rounds: int = 40
    """Most rounds per case; between least and most, the interval decides (method.md, step 7)."""
    blocks: int = 5
    """Blocks of calls in a half-round."""
    window: int = 4
    """Number of interleaved cases, which spreads the rounds of a case over time."""
    budget_s: float = 5.0
    """Time budget for one device in one case, seconds. A call that takes longer is timed once."""
    max_seconds: float | None = None
    """Time limit of the run, seconds, of which starting the program is part; remaining cases are then skipped. None for
    no limit."""
    cache: str = "cold"
    """`cold` or `warm`: state of the caches for kernel time (metric `device`)."""
    seed: int = 1
    """Seed of the inputs."""
    gaps: bool = False
    """Whether to pause for 50 ms between half-rounds every `gap_every_s`, so that a user interface can paint."""
    gap_every_s: float = 0.9
    """Time after which a gap is due, seconds: with half-rounds of 0.1 s, at least one gap per second."""
    flush_denormals: bool = True
    """Whether to treat denormals as zero on the CPU, as fast GPU code does."""
    scale: str = "full"
    """One of `SCALES`."""
    mnist: str | None = None
    """Folder with the user's MNIST idx files; None generates digits."""
    ceilings: tuple[Ceilings, ...] = ()
    """Known peak rates of the plan's devices."""
    search: Search | None = None
    """Search for the crossover of each sweep, starting with `cases`; None runs only `cases`."""
    calibrate: bool = False
    """Whether to measure the devices' peak rates before the cases. A plain calibration has no cases."""
    check_clocks: bool = False
    """Whether to check the event clock of every GPU even if no case needs it (doctor)."""
    reads_driver: bool = False
    """Whether the agent reads its machine's GPUs through NVML, as telemetry does: after each calibration of a GPU,
    when its PCIe link is awake, or else once."""
    ceilings_s: float | None = None
    """Time limit for measuring the devices missing in `ceilings` after the cases, seconds; None measures none. The
    session sets it for the agent; it is None in saved plans."""
    simulation: Simulation | None = None
    """Simulated machine to run on; its results are marked. None for the real machine."""
    codes: tuple[OwnCode, ...] = ()
    """Code that a person typed, a workload each. An agent runs it only if its command line allows that."""
    own_files: tuple[OwnFile, ...] = ()
    """Files that define the plan's own workloads; a record that is never loaded from."""
    starts: int = 1
    """Starts of the process in which the cases are timed, at most; the first one runs the whole plan."""
    is_repeat: bool = False
    """Whether another process has checked the results of these cases. This one warms up briefly, and takes only what
    is compared."""
    clocks: tuple[EventClock, ...] = ()
    """Event clocks that another process of the run has checked."""
    turns: int = 0
    """In a duet, the number of agents that still load the cases, this one included: memory must suffice for all. The
    agent waits for its turn before each case and each round. 0 for a run of its own."""
    is_of_two_codes: bool = False
    """In a duet, whether its sides run different code, whose results are compared."""
    has_exact_rounds: bool = False
    """Whether a person gave the number of rounds: neither interval nor budget ends them earlier."""
    beside: str = field(default="", compare=False)
    """SHA-256 of the reference beside which faces set the CPU's times; empty for none. No time of it is in the run."""
    host: str = field(default="", compare=False)
    """Another machine that the app runs it on: name, launcher and Python; empty for this one."""
    words: tuple[str, ...] = field(default=(), compare=False)
    """Command and options that chose the cases, such as `run`, `matmul`, `--size`, `16,32`; see `session/repeat.py`.
    Empty in plans of version 0.2 and older, and in those that no command gives."""

    @property
    def budget_ns(self) -> float:
        """Time budget for one device in one case, ns."""
        return self.budget_s * 1e9

    @property
    def is_brief(self) -> bool:
        """Return whether warm-up is short and the metrics beside latency are few."""
        return self.is_repeat or self.search is not None

    @property
    def known_clocks(self) -> tuple[EventClock, ...]:
        """Return all earlier checks of event clocks."""
        return (*(each.clock for each in self.ceilings if each.clock is not None), *self.clocks)

    @property
    def times_commands(self) -> bool:
        """Return whether a call is a whole process."""
        return any(code.argv for code in self.codes)

    def limited(self, left_s: float) -> Plan:
        """Return the plan with so many seconds left of its time limit; without a limit unchanged."""
        return self if self.max_seconds is None else replace(self, max_seconds=max(LEAST_LEFT_S, left_s))


def typed_name(workload: str, codes: Sequence[OwnCode]) -> str:
    """Return what a person calls a workload: typed code by its statement, others by their name.

    Parameters are added where several codes share the statement: `x ** k (k = 2)`.
    """
    if (code := next((each for each in codes if each.name == workload), None)) is None:
        return workload
    is_shared = sum(each.statement == code.statement for each in codes) > 1
    lets = ", ".join(f"{name} = {value}" for name, value in code.lets if is_shared)
    return f"{code.statement} ({lets})" if lets else code.statement


def names_apart(new: OwnCode, old: OwnCode) -> tuple[str, str]:
    """Return what tells two codes apart: their statements, or else their variants or the lines of their set-ups."""
    if new.statement != old.statement or (new.is_compiled == old.is_compiled and new.setup == old.setup):
        return new.statement, old.statement
    if new.is_compiled != old.is_compiled:
        return ("compiled", "default") if new.is_compiled else ("default", "compiled")
    first, second = ([line for line in one.setup if line not in other.setup] or [*one.setup, "no set-up"][:1]
                     for one, other in ((new, old), (old, new)))  # fmt: skip
    return "; ".join(first), "; ".join(second)
