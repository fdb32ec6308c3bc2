"""What the checks of doctor judge, as plain data: the host's setup, and sections that threads collect.

As in `procfs`, `root` is the folder that holds `proc` and `sys`. Values that the kernel does not report are None.
"""

from __future__ import annotations

import os
import platform
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from cpugpu_tui.errors import UsageError
from cpugpu_tui.machine import procfs
from cpugpu_tui.machine.nvml.calls import BROKEN
from cpugpu_tui.machine.processes import visible_pids
from cpugpu_tui.model import Device, EventClock, GpuTelemetry, TelemetryRead
from cpugpu_tui.render.capabilities import Capabilities
from cpugpu_tui.state.state import RunState
from cpugpu_tui.transport.interpreter_search import Interpreter

_CPUS = "sys/devices/system/cpu"


@dataclass(frozen=True)
class HostSetup:
    """The processor, as far as this process may use it."""

    architecture: str = ""
    """Such as `x86_64`."""
    logical_cores: int = 0
    """In the affinity mask."""
    physical_cores: int = 0
    """Cores with a logical core in the affinity mask."""
    quota_cores: float | None = None
    """CPU quota of the cgroup; None without one."""
    threads: int = 0
    """Threads that a run uses by default."""
    smt: bool | None = None
    """Whether two hardware threads share a core."""
    numa_nodes: tuple[int, ...] = ()
    """Nodes of the CPUs in the affinity mask; empty if unknown."""
    governor: str | None = None
    """Frequency governor, or `mixed` if the CPUs in the mask differ."""
    frequency_driver: str | None = None
    """Such as `intel_pstate`."""
    frequency_mhz: float | None = None
    """Current frequency of the fastest core."""


@dataclass(frozen=True)
class OwnRun:
    """Another running process of this program."""

    pid: int
    user: str | None
    command: str | None


def host_setup(root: str = "/") -> HostSetup:
    """Read the setup of the host."""
    cores = procfs.affinity_cores(root)
    governors = {_line(root, f"{_CPUS}/cpu{core}/cpufreq/scaling_governor") for core in cores} - {None}
    return HostSetup(
        architecture=platform.machine(), logical_cores=len(cores), physical_cores=procfs.physical_cores(root),
        quota_cores=procfs.cpu_quota_cores(root), threads=procfs.default_threads(root),
        smt={"1": True, "0": False}.get(_line(root, f"{_CPUS}/smt/active") or ""),
        numa_nodes=_numa_nodes(root, frozenset(cores)),
        governor="mixed" if len(governors) > 1 else next(iter(governors), None),
        frequency_driver=_line(root, f"{_CPUS}/cpu{cores[0]}/cpufreq/scaling_driver") if cores else None,
        frequency_mhz=procfs.cpu_freq_mhz(root),
    )  # fmt: skip


def own_runs(root: str = "/", me: int | None = None) -> tuple[OwnRun, ...]:
    """Return other processes of this program, except agents and our own parents and children."""
    me = os.getpid() if me is None else me
    family = {me, *_ancestors(root, me)}
    found = {pid for pid in visible_pids(root) if _is_ours(procfs.command_words(pid, root))}
    children = {pid for pid in found if _parent(root, pid) in found | {me}}
    return tuple(OwnRun(pid, *procfs.process_owner(pid, root)) for pid in sorted(found - children - family))


def _is_ours(words: list[str]) -> bool:
    """Return whether a command line runs `cpugpu-tui …` or `python … -m cpugpu_tui …`."""
    if "-m" in words[:6]:
        module = words[words.index("-m") + 1 :][:1]
        return bool(module) and module[0].split(".")[0] == "cpugpu_tui"
    program = [word.rpartition("/")[2] for word in words[:2]]
    # `vim cpugpu-tui` does not count: the second word matters only after an interpreter.
    return bool(program) and (
        program[0] == "cpugpu-tui" or (program[0].startswith("python") and "cpugpu-tui" in program)
    )


def _parent(root: str, pid: int) -> int | None:
    found = procfs.read_process(pid, root)
    return found.parent if found is not None else None


def _ancestors(root: str, pid: int) -> Iterator[int]:
    seen = {pid}
    while (parent := _parent(root, pid)) and parent not in seen:
        seen.add(parent)
        yield parent
        pid = parent


def _numa_nodes(root: str, cores: frozenset[int]) -> tuple[int, ...]:
    nodes: set[int] = set()
    for link in Path(root, "sys/devices/system/node").glob("node[0-9]*/cpu[0-9]*"):
        if int(link.name.removeprefix("cpu")) in cores:
            nodes.add(int(link.parent.name.removeprefix("node")))
    return tuple(sorted(nodes))


def _line(root: str, path: str) -> str | None:
    """Return the stripped text of a file, None if it cannot be read or is empty."""
    return (procfs.file_text(root, path) or "").strip() or None


# ------------------------------------------------------------------ facts


@dataclass(frozen=True)
class ClockSetting:
    """The application clock of one GPU (`nvidia-smi -ac`), with its default and maximum."""

    index: int
    """NVML's number of the GPU."""
    set_mhz: int | None
    """Current application clock; None if the driver does not support it."""
    default_mhz: int | None
    max_mhz: int | None


@dataclass(frozen=True)
class DriverSetup:
    """The driver's versions; None for values that it does not report."""

    init_code: int | None = None
    """NVML's code if no session could be opened: 4 no permission, 9 not loaded, 12 no library, 18 version mismatch.
    `BROKEN` if the error has no code or GPUs cannot be counted; None if it worked or was not tried."""
    version: str | None = None
    """Such as `580.159.03`."""
    cuda: tuple[int, int] | None = None
    """Newest CUDA that this driver supports, (major, minor)."""
    clocks: tuple[ClockSetting, ...] = ()


@dataclass(frozen=True)
class DriverFacts:
    """What NVML reports."""

    setup: DriverSetup = field(default_factory=DriverSetup)
    gpus: tuple[GpuTelemetry, ...] = ()
    problem: str | None = None
    """One sentence of cause and one of remedy if no GPU can be read."""
    has_hardware: bool = False
    """Whether an NVIDIA GPU is on the PCI bus, with or without a driver."""

    @property
    def hides_gpus(self) -> bool:
        """Whether there may be a GPU that the driver does not list, so that checks of GPUs cannot be ok."""
        return (self.has_hardware or self.setup.init_code == BROKEN) and not self.gpus


@dataclass(frozen=True)
class AgentFacts:
    """What an agent in the chosen interpreter reports of itself, torch and CUDA."""

    environment: dict[str, Any] | None = None
    """Facts of `Hello`; None if the agent did not send it."""
    problem: str = ""
    """Why there is no `Hello`, or no list of devices, one sentence."""
    remedy: str = ""
    devices: tuple[Device, ...] | None = None
    """None if it was not queried or did not answer."""
    no_gpu: str | None = None
    """One sentence of cause and one of remedy if torch cannot use any GPU."""
    clocks: Mapping[str, EventClock] = field(default_factory=dict)
    """GPU → check of its event clock; empty if that was not reached."""
    spared: bool = False
    """Whether CUDA was not queried because the driver hangs."""

    @property
    def gpus(self) -> tuple[Device, ...]:
        """The GPUs that torch can use."""
        return tuple(device for device in self.devices or () if not device.is_cpu)


@dataclass(frozen=True)
class HistoryFacts:
    """The database file, which is neither opened nor created."""

    path: Path = Path("results.db")
    refusal: tuple[str, str] | None = None
    """Cause and remedy if the path cannot be used."""
    exists: bool = False
    header: bytes = b""
    """Its first 100 bytes."""
    size_bytes: int = 0
    writable: bool = False
    """Whether the file, or else the nearest existing folder, can be written."""
    why_not: str = ""
    """The system's error for a new file in that folder; empty without an error."""
    network: bool = False
    """Whether its folder is on a network file system."""
    free_bytes: int | None = None
    """Free space on its file system; None if unknown."""
    known_version: int = 0
    """The newest version that this program can read."""
    application_id: int = 0
    """SQLite application id of our databases."""


@dataclass(frozen=True)
class Facts:
    """All sections; a section named in `faults` could not be collected and holds defaults."""

    driver: DriverFacts = field(default_factory=DriverFacts)
    agent: AgentFacts = field(default_factory=AgentFacts)
    host: HostSetup = field(default_factory=HostSetup)
    own_runs: tuple[OwnRun, ...] = ()
    history: HistoryFacts = field(default_factory=HistoryFacts)
    terminal: Capabilities | None = None
    environ: Mapping[str, str] = field(default_factory=dict)
    simulated: bool = False
    better_python: Interpreter | None = None
    """Another interpreter whose torch works or can use the GPU, if the chosen one's cannot."""
    faults: Mapping[str, str] = field(default_factory=dict)
    """Name of a section → why it could not be collected, one sentence."""


def facts_of_host(run: RunState, read: TelemetryRead | None) -> Facts:
    """Return the facts of a host of a fleet, which its agent reports; `read` is what its driver said."""
    environment = dict(run.run.environment) if run.run is not None else {}
    driver = DriverFacts(DriverSetup(version=environment.get("driver")))
    if read is not None:
        problem = None if read.gpus or run.simulated else read.problem
        driver = DriverFacts(driver.setup, read.gpus, problem, has_hardware=bool(read.gpus))
    host = HostSetup(
        logical_cores=environment.get("affinity_cores") or 0, physical_cores=environment.get("physical_cores") or 0,
        quota_cores=environment.get("quota_cores"), threads=environment.get("threads") or 0,
    )  # fmt: skip
    agent = AgentFacts(environment, devices=run.devices, no_gpu=run.no_gpu, clocks=run.clocks)
    return Facts(driver=driver, agent=agent, host=host)


# ------------------------------------------------------------------ collecting a section


_SOURCES = {
    "driver": "The NVIDIA driver", "agent": "The agent", "host": "The kernel", "own_runs": "The list of processes",
    "history": "The file system of the history", "terminal": "The terminal",
}  # fmt: skip


class Section:
    """The facts of one section, collected on its own thread with a deadline.

    A call into a hung driver or a dead network file system may never return and cannot be cancelled. Its daemon
    thread is abandoned, and the section counts as missing.
    """

    def __init__(self, name: str, call: Callable[[], Any], deadline_s: float) -> None:
        """Start at once. `name` is a field of `Facts`, or the subject of the error message."""
        self.name = name
        self._deadline_s = deadline_s
        self._ends_s = time.monotonic() + deadline_s
        self._answer: queue.SimpleQueue[tuple[Any, Exception | None]] = queue.SimpleQueue()
        self._call = call
        threading.Thread(target=self._work, name=f"checkup-{name}", daemon=True).start()

    def _work(self) -> None:
        try:
            self._answer.put((self._call(), None))
        except Exception as error:  # noqa: BLE001 - it becomes a line of the report
            self._answer.put((None, error))

    def result(self) -> tuple[Any, str]:
        """Return the facts and '', or None and one sentence why there are none.

        Raises:
            UsageError: raised by the call, for example for an unknown interpreter.
        """
        try:
            value, error = self._answer.get(timeout=max(0.0, self._ends_s - time.monotonic()))
        except queue.Empty:
            return None, f"{_SOURCES.get(self.name, self.name)} did not answer within {self._deadline_s:g} s."
        if isinstance(error, UsageError):
            raise error
        return value, "" if error is None else f"The check raised {type(error).__name__}: {error}"


# ------------------------------------------------------------------ finding


Verdict = Literal["ok", "warn", "fail", "unknown"]
"""`warn`: results are correct, but slower or noisier than they could be. `fail`: something does not work.
`unknown`: not judged, because the facts are missing. It never counts as ok."""

WORST_FIRST: tuple[Verdict, ...] = ("fail", "warn", "unknown", "ok")
"""All verdicts."""


@dataclass(frozen=True)
class Finding:
    """The outcome of one check."""

    verdict: Verdict
    found: str
    """What the check found: one sentence or list."""
    cause: str = ""
    """Why it matters; empty if ok."""
    remedy: str = ""
    """What to do; empty if there is nothing to do."""
    check: str = ""
    """Stable id of the check, such as `torch.build`."""
    values: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """What was measured, as numbers; empty for a check that only judges."""


ok = partial(Finding, "ok")
"""Finding for a check that passed or does not apply."""

warn = partial(Finding, "warn")
"""Finding for a problem that makes results worse."""

fail = partial(Finding, "fail")
"""Finding for something that does not work."""

unknown = partial(Finding, "unknown")
"""Finding for a check that was not judged; `found` says why."""


def worst(findings: Mapping[str, Finding]) -> Finding:
    """Merge the findings of one check, by subject (`GPU 0`), into one with the worst verdict.

    Each cause and remedy names its subjects, unless all subjects share it.

    Raises:
        ValueError: `findings` is empty.
    """
    verdict = min((finding.verdict for finding in findings.values()), key=WORST_FIRST.index)
    causes = {subject: finding.cause for subject, finding in findings.items() if finding.cause}
    remedies = {subject: finding.remedy for subject, finding in findings.items() if finding.remedy}
    return Finding(verdict, "; ".join(finding.found for finding in findings.values()), _each(causes), _each(remedies))


def _each(texts: Mapping[str, str]) -> str:
    """Return each text with its subjects; a text that all share stands alone."""
    subjects: dict[str, list[str]] = {}
    for subject, text in texts.items():
        subjects.setdefault(text, []).append(subject)
    if len(subjects) == 1:
        return next(iter(subjects))
    return " ".join(f"{', '.join(who)}: {text}" for text, who in subjects.items())


def sentences(text: str) -> tuple[str, str]:
    """Split a text of two sentences into cause and remedy."""
    cause, dot, remedy = text.partition(". ")
    return cause + ("." if dot else ""), remedy
