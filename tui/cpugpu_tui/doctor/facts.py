"""Everything the checks judge, as plain data (a test can write any machine down), and how each part is asked."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cpugpu_tui.doctor.host_setup import HostSetup, OwnRun
from cpugpu_tui.errors import UsageError
from cpugpu_tui.machine.nvml.returns import BROKEN
from cpugpu_tui.model import Device, GpuTelemetry
from cpugpu_tui.render.capabilities import Capabilities
from cpugpu_tui.transport.interpreter_search import Interpreter


@dataclass(frozen=True)
class ClockSetting:
    """The SM clock that somebody set for one GPU (`nvidia-smi -ac`), beside what the card offers."""

    index: int
    """NVML's."""
    set_mhz: int | None
    """Application clock in force; None where the driver no longer has such a thing."""
    default_mhz: int | None
    max_mhz: int | None


@dataclass(frozen=True)
class DriverSetup:
    """The driver's versions; None for what it does not tell."""

    init_code: int | None = None
    """NVML's code when no session could be opened: 12 no library, 9 not loaded, 18 updated underneath, 4 no
    permission; `returns.BROKEN` when it has none, or cannot count its GPUs. None when all is well, or never tried."""
    version: str | None = None
    """Like `580.159.03`."""
    cuda: tuple[int, int] | None = None
    """Newest CUDA that this driver supports, (major, minor)."""
    clocks: tuple[ClockSetting, ...] = ()


@dataclass(frozen=True)
class DriverFacts:
    """What NVML says."""

    setup: DriverSetup = field(default_factory=DriverSetup)
    gpus: tuple[GpuTelemetry, ...] = ()
    problem: str | None = None
    """One sentence of cause and one of remedy when there are no GPUs to read."""
    has_hardware: bool = False
    """Whether an NVIDIA GPU is on the PCI bus, driver or not."""

    @property
    def hides_gpus(self) -> bool:
        """Whether there is, or may be, a GPU of which the driver tells nothing: no check of GPUs may call that fine."""
        return (self.has_hardware or self.setup.init_code == BROKEN) and not self.gpus


@dataclass(frozen=True)
class AgentFacts:
    """What an agent of the wanted interpreter says of itself, of torch and of CUDA."""

    environment: dict[str, Any] | None = None
    """Facts of `Hello`; None when it never said hello."""
    problem: str = ""
    """Why it did not, or why it could not find its devices, one sentence."""
    remedy: str = ""
    devices: tuple[Device, ...] | None = None
    """None when it was not asked, or did not answer."""
    no_gpu: str | None = None
    """One sentence of cause and one of remedy when torch can use no GPU."""
    spared: bool = False
    """Whether CUDA was not asked because the driver hangs, and CUDA would hang in it too."""

    @property
    def gpus(self) -> tuple[Device, ...]:
        """The GPUs that torch can use."""
        return tuple(device for device in self.devices or () if not device.is_cpu)


@dataclass(frozen=True)
class HistoryFacts:
    """The database as it lies there; it was neither opened nor made."""

    path: Path = Path("results.db")
    refusal: tuple[str, str] | None = None
    """Cause and remedy when a run could not even look for it there."""
    exists: bool = False
    header: bytes = b""
    """Its first 100 bytes."""
    size_bytes: int = 0
    writable: bool = False
    """Whether the file, or the nearest folder that exists where there is none, can be written."""
    why_not: str = ""
    """What the system said when a file was tried in that folder; empty where it could be made, or was not tried."""
    network: bool = False
    """Whether its folder lies on a network file system."""
    free_bytes: int | None = None
    """Space left for us on its file system."""
    known_version: int = 0
    """The newest version that this program knows."""
    application_id: int = 0
    """What our databases carry."""


@dataclass(frozen=True)
class Facts:
    """All sections; one that could not be collected is named in `faults`, and its values are the unknown ones."""

    driver: DriverFacts = field(default_factory=DriverFacts)
    agent: AgentFacts = field(default_factory=AgentFacts)
    host: HostSetup = field(default_factory=HostSetup)
    own_runs: tuple[OwnRun, ...] = ()
    history: HistoryFacts = field(default_factory=HistoryFacts)
    terminal: Capabilities | None = None
    environ: Mapping[str, str] = field(default_factory=dict)
    simulated: bool = False
    better_python: Interpreter | None = None
    """An interpreter whose torch can do more than the wanted one's; looked for only where that is lacking."""
    faults: Mapping[str, str] = field(default_factory=dict)
    """Name of a section → why there is nothing in it, one sentence."""


# ------------------------------------------------------------------ how a section is asked


_ASKED = {
    "driver": "The NVIDIA driver", "agent": "The agent", "host": "The kernel", "own_runs": "The list of processes",
    "history": "The file system of the history", "terminal": "The terminal",
}  # fmt: skip


class Section:
    """One section's facts, asked on a thread of its own with a deadline.

    A wedged driver and a dead network file system have in common that a call never returns, and cannot be ended: its
    thread is left behind (a daemon, it does not keep the program from exiting), and its section is said to be missing.
    """

    def __init__(self, name: str, call: Callable[[], Any], deadline_s: float) -> None:
        """Begin at once; `name` is a field of `Facts`, or what its fault calls it."""
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
        """Return the facts, or None and one sentence why there are none.

        Raises:
            UsageError: what the person asked for cannot be: that is no finding.
        """
        try:
            value, error = self._answer.get(timeout=max(0.0, self._ends_s - time.monotonic()))
        except queue.Empty:
            return None, f"{_ASKED.get(self.name, self.name)} has not answered for {self._deadline_s:g} s."
        if isinstance(error, UsageError):
            raise error
        return value, "" if error is None else f"Asking failed with {type(error).__name__}: {error}"
