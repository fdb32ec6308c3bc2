"""Code that a person typed, as a workload: the setup makes inputs, the statement is the step. Only an agent runs it."""

from __future__ import annotations

import copy
import inspect
import random
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import CellType, FunctionType
from typing import TYPE_CHECKING, Any

from cpugpu_tui.errors import UsageError
from cpugpu_tui.model import OwnCode, WorkloadInfo
from cpugpu_tui.workloads.code_target import CALLER, CallerCode, as_arguments, call_of, caller_code, load_target
from cpugpu_tui.workloads.containers import copied, fill, holds_tensors, moved, tensors
from cpugpu_tui.workloads.contract import Workload
from cpugpu_tui.workloads.operators import put_back, remedy_for, settings, watched_operators
from cpugpu_tui.workloads.outline import Outline, default_dtype, outline_of, outlined
from cpugpu_tui.workloads.own_code import LIBRARIES, all_names, compiled, hash_of_file, info_of, names_in
from cpugpu_tui.workloads.python_text import AS_ARGUMENTS, DEVICE, FUNCTION, INPUTS, SIZE

if TYPE_CHECKING:
    import torch


def on_host(function: Callable[..., Any]) -> Any:
    """Return a function or module with all its parameters and values on the host; the caller's own stay as they are."""
    # Before torch is imported nothing can hold a tensor.
    return moved(with_captured(function), "cpu") if "torch" in sys.modules else function


def with_captured(function: Callable[..., Any], callers: tuple[FunctionType, ...] = ()) -> Any:
    """Return a torch module that calls a function and holds the tensors and modules that the function uses.

    They are then placed, copied and converted with the module. A function that uses none is returned itself.
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

    code, global_values = function.__code__, function.__globals__
    found = {name: global_values[name] for name in names_in(code) if name in global_values}
    seen = (*callers, function)
    for name, value in found.items():  # what the functions beside it use
        if isinstance(value, FunctionType) and value.__globals__ is global_values and value not in seen:
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


INPUT_SETS = 2
"""Sets of inputs for each size. Rounds take them in turn, so that code which caches its result is found out."""


class CodeInputs(tuple[Any, ...]):
    """The statement's arguments for one size. Also holds the statement, and all sets of numbers for these arguments."""

    function: Callable[..., Any]
    sets: tuple[tuple[Any, ...], ...]
    turn: int = 0
    """Which set the tensors hold."""

    @classmethod
    def of(cls, items: Iterable[Any], function: Callable[..., Any], sets: tuple[tuple[Any, ...], ...]) -> CodeInputs:
        """Return items as inputs of a statement."""
        made = cls(items)
        made.function, made.sets = function, sets
        return made


class CodeWorkload(Workload):
    """Code that a person typed."""

    compiles = True

    def __init__(self, code: OwnCode, *, is_alone: bool = False) -> None:
        self.code = code
        self.name = code.name
        self._given: dict[str, Any] = {}
        """Name → the function that was typed, its `inputs`, and what `call_of` needs; empty for a statement."""
        own = caller_code(code) or CallerCode()
        self._values_at = own.values_at
        function, inputs = own.function, own.inputs
        if code.target and code.target[0] != CALLER:
            if code.sha256 and hash_of_file(code.target[0]) != code.sha256:
                raise UsageError(f"{code.target[0]} has changed since this run was started.", "Start it again.")
            seed_all(0)  # a file may make its model when it is imported: equal files had other weights in each agent
            function, inputs = load_target(*code.target)
        if function is not None:
            function = on_host(function)
            names = (*(name for name, _ in code.lets), *own.values)
            parts = compiled(code)
            used = all_names(parts.setup, parts.lets)
            statement, setup = call_of(code.statement, function, inputs, names, used, is_alone=is_alone)
            code = replace(code, statement=statement, setup=(*code.setup, *setup))
            self._given = {FUNCTION: function, INPUTS: inputs, AS_ARGUMENTS: as_arguments}
        self._compiled = compiled(replace(code, target=()))
        self._outlines: dict[tuple[int, int], Outline | None] = {}
        """By size and bytes of an element: nothing else of the dtype matters."""
        self.makes_tensors = False
        """Whether the statement makes tensors without naming a device, so that its device must be torch's default."""

    # ------------------------------------------------------------------ what the harness asks for

    def inputs(self, n: int, dtype: torch.dtype, generator: torch.Generator) -> CodeInputs:
        """Run the setup on the host once for each set of inputs; return the first. Sets `draws` and `makes_tensors`."""
        first, *others = (self.made(n, dtype, generator.initial_seed() + number) for number in range(INPUT_SETS))
        first.sets = tuple(map(tuple, (first, *others)))
        itemsize_bytes = itemsize_of(dtype)
        outline = self.outline(n, itemsize_bytes) or self._tried_out(n, itemsize_bytes, first)
        self.draws = outline.draws
        self.makes_tensors = outline.makes_tensors and DEVICE not in self._compiled.names
        return first

    def made(self, n: int, dtype: torch.dtype, seed: int) -> CodeInputs:
        """Run the setup with a seed; return what the statement takes, on the host."""
        with default_dtype(dtype):
            seed_all(seed)
            before = settings()
            space = self._space(n)
            exec(self._compiled.setup, space)
            if changed := put_back(before):
                raise UsageError(
                    f"The setup changes {' and '.join(changed)} of torch for all later calls.", remedy_for(changed)
                )
        taken = {name for name in self._compiled.names if name in space and name not in LIBRARIES}
        for name in taken:  # functions of the setup take their models along
            if getattr(space[name], "__globals__", None) is space:
                space[name] = with_captured(space[name])
        names = sorted(name for name in taken if holds_tensors(space[name]))
        for name in names:  # a setup may make them on a GPU, and copies start in host memory
            if any(each.device.type == "cuda" for each in tensors(space[name])):
                space[name] = moved(space[name], "cpu")
        names += [DEVICE] if DEVICE in self._compiled.names else []  # the last, which `place` replaces
        return CodeInputs.of((space[name] for name in names), self._compiled.function(tuple(names), space), ())

    def _space(self, n: int) -> dict[str, Any]:
        """Return the names that the setup starts with; libraries are imported only if the code names them."""
        import importlib

        used = self._compiled.names | all_names(self._compiled.setup, self._compiled.lets)
        space: dict[str, Any] = {"__name__": "own_code", "__builtins__": __builtins__, SIZE: n, DEVICE: "cpu"}
        space |= self._given | self._values_at(n)
        for name in used & LIBRARIES.keys():
            try:
                space[name] = importlib.import_module(LIBRARIES[name])
            except ModuleNotFoundError as error:
                if name != "np":
                    raise
                raise UsageError("The code uses np, but this Python has no NumPy.",
                                 "Install numpy in it, or use torch.") from error  # fmt: skip
        for name, value in self._compiled.lets:
            try:
                space[name] = eval(value, space)
            except NameError as error:
                raise UsageError(f"{error.name} is not defined: the value of --let {name} cannot use --setup.",
                                 f"Write a number, or \"'{error.name}'\" for the text.") from error  # fmt: skip
        return space

    def step_for(self, variant: str, placed: tuple[Any, ...]) -> Callable[..., Any]:
        """Return the statement as it was compiled for these inputs."""
        assert isinstance(placed, CodeInputs)
        return placed.function

    def place(self, variant: str, inputs: tuple[Any, ...], device: str) -> CodeInputs:
        """Copy the inputs to the device, also to the CPU; the device's name goes where the statement asks for it."""
        assert isinstance(inputs, CodeInputs)
        placed = super().place(variant, inputs, device)
        # A statement that changes its inputs must not change the host's, which the other devices start from.
        placed = copied(placed) if device == "cpu" else placed
        if DEVICE in self._compiled.names:
            placed = (*placed[:-1], device)
        function = on_default_device(inputs.function, device) if self.makes_tensors else inputs.function
        return CodeInputs.of(placed, function, inputs.sets)

    @property
    def is_placed_plainly(self) -> bool:
        """Whether `place` does nothing but copy the inputs: the statement names no device and needs no default one."""
        return not self.makes_tensors and DEVICE not in self._compiled.names

    @property
    def named_files(self) -> frozenset[str]:
        """File of the function that was typed, whose lines are the person's own even in an installed package."""
        function: Any = self._given.get(FUNCTION)
        code = getattr(inspect.unwrap(getattr(function, "forward", function)), "__code__", None)
        return frozenset() if code is None else frozenset((code.co_filename,))

    def reset(self, variant: str, placed: tuple[Any, ...]) -> None:
        """Fill the inputs with the next set of numbers, in place: the tensors stay, what they hold changes."""
        assert isinstance(placed, CodeInputs)
        refill(placed, (placed.turn + 1) % INPUT_SETS)

    def is_compiled(self, variant: str) -> bool:
        """Return whether the harness compiles the step of a variant."""
        return self.code.is_compiled or super().is_compiled(variant)

    def info(self) -> WorkloadInfo:
        """Return the facts for the catalogue."""
        return info_of(self.code)

    # ------------------------------------------------------------------ learning from shapes

    def outline(self, n: int, itemsize_bytes: int, variant: str = "default") -> Outline | None:
        """Run setup and statement on torch's meta device; None if that fails."""
        if "set_default_device" in self._compiled.names:
            return None  # it would end the meta device

        def make(dtype: torch.dtype) -> tuple[Callable[..., Any], CodeInputs]:
            inputs = moved(self.made(n, dtype, 0), "meta")
            return inputs.function, inputs

        key = (n, itemsize_bytes)
        if key not in self._outlines:
            self._outlines[key] = outlined(make, itemsize_bytes)
        return self._outlines[key]

    def _tried_out(self, n: int, itemsize_bytes: int, inputs: CodeInputs) -> Outline:
        """Run the statement once on the CPU, on copies of its inputs, where shapes alone do not tell what it does."""
        copies, before = copied(inputs), settings()
        with watched_operators("cpu") as seen:
            result = inputs.function(*copies)
        put_back(before)
        found = self._outlines[n, itemsize_bytes] = outline_of(copies, result, seen)
        return found


def refill(placed: CodeInputs, number: int) -> None:
    """Copy a set of numbers into placed tensors; what differs in shape between the sets stays as it is."""
    placed.turn = number
    fill(placed, placed.sets[number])


def on_default_device(function: Callable[..., Any], device: str) -> Callable[..., Any]:
    """Return a function that makes its tensors on a device."""
    import torch

    target = torch.device(device)

    def run(*placed: Any) -> Any:
        with target:
            return function(*placed)

    return run


def itemsize_of(dtype: torch.dtype) -> int:
    """Return the bytes of an element."""
    import torch

    return torch.finfo(dtype).bits // 8


def seed_all(seed: int) -> None:
    """Seed torch, Python and, where it is loaded, numpy."""
    import torch

    torch.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)
