"""How commands run: the options that are no part of a plan, checked."""

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
    """How to run, as opposed to what.

    Raises:
        UsageError: the worker is neither `process` nor `thread`.
    """

    worker: str = "process"
    python: str | None = None
    database: Path | None = None
    save: bool = True
    workloads: tuple[str, ...] = ()
    """Files of the person's own workloads."""
    ceilings: bool = True
    """Whether a run may measure what `limited by` needs, where the history lacks it."""

    def __post_init__(self) -> None:
        if self.worker not in ("process", "thread"):
            raise UsageError(f"There is no worker mode {self.worker!r}.", "Write process or thread.")


def found_python(python: str | None, worker: str = "process", simulation: Simulation | None = None) -> str | None:
    """Return the interpreter that `--python` names. For `auto` search for it, and say on stderr which one it is."""
    if python != AUTO:
        return python
    if worker == "thread" or simulation is not None:  # no process of another interpreter will import torch
        return None
    from cpugpu_tui.transport.interpreter_search import choose

    choice = choose()
    if choice.sentence:
        print_notice(f"cpugpu-tui: {choice.sentence}")
    return choice.python


def simulation(text: str | None) -> Simulation | None:
    """Return the simulated machine that `--simulate` asks for."""
    if text is None:
        return None
    from cpugpu_tui.config.parsing import parse_simulation

    return parse_simulation(text)
