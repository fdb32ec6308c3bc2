"""The options of a command that are not part of the plan."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cpugpu_tui.errors import UsageError, print_notice
from cpugpu_tui.transport.interpreter_search import AUTO

if TYPE_CHECKING:
    from cpugpu_tui.model import Simulation


@dataclass(frozen=True)
class RunOptions:
    """How to run a plan.

    Raises:
        UsageError: the worker is neither `process` nor `thread`.
    """

    worker: str = "process"
    python: str | None = None
    database: Path | None = None
    save: bool = True
    workloads: tuple[str, ...] = ()
    """Files with the user's own workloads."""
    ceilings: bool = True
    """Whether a run may measure peak rates for `limited by`, if the history has none."""

    def __post_init__(self) -> None:
        if self.worker not in ("process", "thread"):
            raise UsageError(f"Invalid worker {self.worker!r}.", "Use process or thread.")


def found_python(python: str | None, worker: str = "process", simulation: Simulation | None = None) -> str | None:
    """Return the interpreter of `--python`. For `auto`, search for one and print on stderr which one was found."""
    if python != AUTO:
        return python
    if worker == "thread" or simulation is not None:  # torch is not imported in another interpreter
        return None
    from cpugpu_tui.transport.interpreter_search import choose

    choice = choose()
    if choice.sentence:
        print_notice(f"cpugpu-tui: {choice.sentence}")
    return choice.python


def simulation(text: str | None) -> Simulation | None:
    """Return the simulated machine of `--simulate`, or None without the option."""
    if text is None:
        return None
    from cpugpu_tui.config.parsing import parse_simulation

    return parse_simulation(text)
