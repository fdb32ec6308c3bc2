"""Functions and values of the process that asked for a run. No other process can load them, so its own thread does."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cpugpu_tui.errors import UsageError
from cpugpu_tui.workloads.containers import moved
from cpugpu_tui.workloads.contract import REGISTRY, SOURCES

if TYPE_CHECKING:
    from cpugpu_tui.model import OwnCode

CALLER = "caller"
"""In place of the module of `OwnCode.target`: its function or values live in the caller's process. The second word is
the reason."""


@dataclass(frozen=True)
class CallerCode:
    """What typed code cannot hold as text."""

    function: Callable[..., Any] | None = None
    """None: the code is an expression."""
    inputs: Callable[[int], Any] | None = None
    """Returns the arguments of a size."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments and names. A function among them is called with the size; a module is a value."""

    @property
    def file(self) -> str:
        """Name that tracebacks give the function's file; empty if it has none."""
        code = getattr(getattr(self.function, "forward", self.function), "__code__", None)
        return code.co_filename if code is not None else ""

    @property
    def place(self) -> str:
        """The file's name in a sentence. Cells of a notebook have no file that a person would know."""
        return os.path.basename(self.file) if os.path.isfile(self.file) else "the function"

    def values_at(self, n: int) -> dict[str, Any]:
        """Return the values of a size."""
        return {name: value(n) if _is_made(value) else value for name, value in self.values.items()}


def _is_made(value: Any) -> bool:
    """Whether a value is called with the size: functions are, modules and other objects are not."""
    return callable(value) and not isinstance(value, type) and not hasattr(value, "forward")


_HELD: dict[str, CallerCode] = {}


@contextmanager
def held(code: OwnCode, own: CallerCode, *, is_simulated: bool) -> Iterator[None]:
    """Keep functions and values for a run inside `with`, and torch's settings and random numbers as they are."""
    with nullcontext() if is_simulated else _settings_kept():
        # Copies start in host memory, wherever the caller has the values.
        values = own.values if is_simulated else {name: moved(value, "cpu") for name, value in own.values.items()}
        _HELD[code.name] = replace(own, values=values)
        try:
            yield
        finally:
            _HELD.pop(code.name, None)
            REGISTRY.pop(code.name, None)
            SOURCES.pop(code.name, None)


def caller_code(code: OwnCode) -> CallerCode | None:
    """Return the functions and values of code from this process; None for code that is text.

    Raises:
        UsageError: they belonged to another process.
    """
    if code.target[:1] != (CALLER,):
        return None
    if code.name not in _HELD:
        raise UsageError(
            "This code existed only in the Python process that timed it.", "Call crossover() or time_on() there again."
        )
    return _HELD[code.name]


@contextmanager
def _settings_kept() -> Iterator[None]:
    """Put back what a run changes in this process: torch's settings, and the states of random generators."""
    import random

    import torch

    from cpugpu_tui.workloads.operators import put_back, settings

    before, state, own_state = settings(), torch.get_rng_state(), random.getstate()
    cuda_states = torch.cuda.get_rng_state_all() if torch.cuda._initialized else []
    numpy_state = sys.modules["numpy"].random.get_state() if "numpy" in sys.modules else None
    try:
        yield
    finally:
        put_back(before)
        torch.set_rng_state(state)
        random.setstate(own_state)
        for index, each in enumerate(cuda_states):
            torch.cuda.set_rng_state(each, index)
        if numpy_state is not None:
            sys.modules["numpy"].random.set_state(numpy_state)
