"""What a person asks for, and what cannot be asked: settings out of range, sizes without a use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cpugpu_tui import model
from cpugpu_tui.config.parsing import FieldError
from cpugpu_tui.decide.interval import MIN_ROUNDS
from cpugpu_tui.session import search_limits
from cpugpu_tui.session.own_workloads import OwnWorkloads

if TYPE_CHECKING:
    from cpugpu_tui.state.reference import Found


@dataclass(frozen=True)
class PlanRequest:
    """What a person asked for, as text where they typed text; None means the preset's default."""

    names: tuple[str, ...] = ("quick",)
    """Names of presets and workloads."""
    sizes: str | None = None
    """`1:10000:50` (start:stop:step, stop excluded as in Python) or `16,32,64`."""
    dtype: str | None = None
    threads: str | None = None
    """`all`, a number, or several separated by commas."""
    variant: str | None = None
    """One name, or several separated by commas."""
    devices: tuple[str, ...] = ("auto",)
    rounds: int | None = None
    max_seconds: float | None = None
    """Time limit of all runs of the series, which share it equally."""
    case_timeout_s: float | None = None
    repeat: int = 1
    """Number of runs in the series."""
    starts: int = 1  # of the process in a run, at most
    cache: str = "cold"
    scale: str = "full"
    mnist: str | None = None
    """Folder of MNIST's idx files; None uses CPUGPU_MNIST or, if that is unset, generated digits."""
    simulation: model.Simulation | None = None
    find_crossover: bool = False
    """Search for the crossover: choose sizes during the run, between the smallest and the largest."""
    max_size: str | None = None
    """Largest size of a search; None for the workload's own."""
    full: bool = False
    """Also time the CPU at sizes where it is certain to lose."""
    parallel: bool = False
    """Run an agent for each GPU, all at the same time."""
    gaps: bool = False
    """Leave gaps between blocks, in which a user interface may paint."""
    energy: bool = False
    """Also measure the joules of a call, which takes about 2 s more for each case and device."""
    only: tuple[str, ...] = ()
    """The workloads of the presets to run; empty for all."""
    pair: tuple[str, ...] = ()
    """`time` and the words that name its code and the one beside it, in a duet of both."""
    beside: str | None = None
    """Name or file of a reference: the CPU is timed here, and the GPU's times are recorded ones."""
    own: OwnWorkloads = field(default_factory=OwnWorkloads)
    """A person's own presets and workloads."""


def reference_of(request: PlanRequest) -> Found | None:
    """Return the reference of a request, if it has one.

    Raises:
        FieldError: a GPU of this machine is to be timed too.
        UsageError: there is no such reference, or one of a simulated machine is to stand beside a measured CPU.
    """
    if request.beside is None:
        return None
    from cpugpu_tui.state.reference import find  # not before the app's first frame

    if {*request.devices} - {"auto", "cpu"} or request.parallel:
        raise FieldError(
            "devices", "--beside takes the GPU's times from a reference, so only the CPU is timed here.",
            "Leave --device and --parallel out. `cpugpu-tui machine --beside` compares a GPU with a recorded one.",
        )  # fmt: skip
    found = find(request.beside)
    if found.reference.simulated and request.simulation is None:
        raise FieldError(
            "beside", f"Cannot set a measured CPU beside the simulated GPU of {request.beside}.",
            "Choose a measured reference, or add --simulate.",
        )  # fmt: skip
    return found


def check_use_of_size(request: PlanRequest) -> None:
    """Raise FieldError if code uses n but has no sizes, or if a command has sizes but does not use them."""
    from cpugpu_tui.workloads.own_code import compiled  # see `OwnWorkloads.infos`

    for code in request.own.codes:
        uses_size = compiled(code).uses_size
        if request.sizes is None and uses_size and code.name in request.names:
            raise FieldError("sizes", "The code uses n, so it needs sizes.", "Add --n, for example --n 16:4096.")
        if request.sizes is not None and code.argv and not uses_size:
            raise FieldError("sizes", "The command does not use the size.", "Write {n} in it, or remove --n.")


def check_settings(request: PlanRequest) -> None:
    """Check the numbers, cache state, scale and simulation of a request.

    Raises:
        FieldError: one of them is out of range or unknown, or a command would be simulated.
    """
    limits = ("rounds", "rounds", 1000), ("starts", "starts", search_limits.MOST_STARTS), ("repeat", "runs", 1000)
    for name, noun, most in limits:
        count = getattr(request, name)
        if count is not None and not 1 <= count <= most:
            raise FieldError(name, f"Invalid number of {noun}: {count}.", f"Use a number from 1 to {most}.")
    for name in ("max_seconds", "case_timeout_s"):
        seconds = getattr(request, name)
        if seconds is not None and not 0 < seconds < 1e9:
            raise FieldError(name, f"Invalid time: {seconds:g} s.", "Use a number of seconds above 0.")
    if request.find_crossover and request.rounds is not None and request.rounds < MIN_ROUNDS:
        raise FieldError(
            "rounds", f"A search needs {MIN_ROUNDS} rounds to judge a size, not {request.rounds}.",
            f"Use --rounds {MIN_ROUNDS} or more, or list the sizes, for example 16,64,256.",
        )  # fmt: skip
    if request.cache not in ("cold", "warm"):
        raise FieldError("cache", f"Invalid cache state {request.cache!r}.", "Use cold or warm.")
    if request.scale not in model.SCALES:
        raise FieldError("scale", f"Invalid scale {request.scale!r}.", "Use full or small.")
    if request.own.has_commands and request.simulation is not None:
        raise FieldError("simulation", "A command cannot run on a simulated machine.", "Remove --simulate.")
