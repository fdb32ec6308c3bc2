"""Tensors and modules that a function uses without taking them as arguments: globals, and variables around it.

They must be on the device of the arguments, like these.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from types import CellType, FunctionType
from typing import Any

from cpugpu_tui.errors import UsageError
from cpugpu_tui.workloads.containers import moved
from cpugpu_tui.workloads.own_code import names_in


def on_host(function: Callable[..., Any]) -> Any:
    """Return a function or module with all its parameters and values on the host; the caller's own stay as they are."""
    # Before torch is imported nothing can hold a tensor.
    return moved(with_captured(function), "cpu") if "torch" in sys.modules else function


def with_captured(function: Callable[..., Any], callers: tuple[FunctionType, ...] = ()) -> Any:
    """Return a function as a torch module whose parameters and buffers are what it uses; itself if that is nothing.

    Such a module is placed, copied and converted like any other.
    """
    if not isinstance(function, FunctionType) or not (values := captured(function, callers)):
        return function
    plain: FunctionType = function
    import torch

    class Captured(torch.nn.Module):
        """The function with its own values."""

        def __init__(self, values: dict[str, Any]) -> None:
            super().__init__()
            for index, value in enumerate(values.values()):
                # Numbered, because a module has attributes of its own.
                add = self.add_module if isinstance(value, torch.nn.Module) else self.register_buffer
                add(f"value_{index}", value)
            self._bind()

        def _bind(self) -> None:
            self.forward = rebuilt(plain, self._values())

        def _values(self) -> dict[str, Any]:
            return {name: getattr(self, f"value_{index}") for index, name in enumerate(values)}

        def _apply(self, *arguments: Any, **named: Any) -> Any:
            super()._apply(*arguments, **named)  # type: ignore[no-untyped-call]
            self._bind()
            return self

        def __deepcopy__(self, memo: dict[int, Any]) -> Any:
            return type(self)({name: _copied(value, memo) for name, value in self._values().items()})

        def __call__(self, *arguments: Any, **named: Any) -> Any:  # without the hooks of torch, which take 1 us
            return self.forward(*arguments, **named)

    return Captured(values)


def captured(function: FunctionType, callers: tuple[FunctionType, ...] = ()) -> dict[str, Any]:
    """Return the tensors and modules that a function uses by name, itself or through functions beside it.

    `callers`: functions that lead to this one, which are not followed again.

    Raises:
        UsageError: it uses an optimizer, which would go on with the parameters of the original module.
    """
    import torch

    code, spaces = function.__code__, function.__globals__
    found = {name: spaces[name] for name in names_in(code) if name in spaces}
    seen = (*callers, function)
    for name, value in found.items():  # what the functions beside it use
        if isinstance(value, FunctionType) and value.__globals__ is spaces and value not in seen:
            found[name] = with_captured(value, seen)
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    for name, value in found.items():
        if isinstance(value, torch.optim.Optimizer):
            raise UsageError(
                f"{function.__name__} uses the optimizer {name}, whose parameters cannot be moved to another device.",
                "Make it in the function, or in place() of a workload class: `cpugpu-tui new-workload NAME`.",
            )
    return {name: value for name, value in found.items() if isinstance(value, (torch.Tensor, torch.nn.Module))}


def rebuilt(function: FunctionType, values: dict[str, Any]) -> FunctionType:
    """Return a copy of a function that finds these values under their names."""
    code = function.__code__
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    closure = tuple(CellType(values[name]) if name in values else cell for name, cell in cells)
    found = FunctionType(code, {**function.__globals__, **values}, function.__name__, function.__defaults__, closure)
    found.__kwdefaults__ = function.__kwdefaults__
    return found


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    import torch

    return value.detach().clone() if isinstance(value, torch.Tensor) else copy.deepcopy(value, memo)
