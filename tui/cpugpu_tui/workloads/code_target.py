"""Functions as typed code: of a file or module, how they are named, loaded and called; or of the process that asked."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cpugpu_tui.errors import UsageError, did_you_mean
from cpugpu_tui.workloads.containers import moved
from cpugpu_tui.workloads.contract import REGISTRY, SOURCES
from cpugpu_tui.workloads.own_files import described
from cpugpu_tui.workloads.python_text import (
    AS_ARGUMENTS,
    FUNCTION,
    INPUTS,
    NAMED,
    POSITIONAL,
    as_python_names,
    functions_in,
)

if TYPE_CHECKING:
    from cpugpu_tui.model import OwnCode


_TARGET = re.compile(r"(?P<module>[^\n]+\.py|[^\W\d]\w*(?:\.\w+)*):(?P<name>[^\W\d][\w.]*)")
"""Names may have letters of any script, as in Python, and paths may have spaces."""


def parse_target(text: str) -> tuple[str, str] | None:
    """Return file or module, and function, of `file.py:function` or `package.module:function`; None for other code."""
    module, colon, name = text.strip().rpartition(":")
    found = _TARGET.fullmatch(module + colon + as_python_names(name))
    return (found["module"], found["name"]) if found else None


def load_target(module: str, name: str) -> tuple[Any, Any]:
    """Import a file or module; return its function, and the function `inputs` beside it or None.

    Raises:
        UsageError: the import fails, or the module has no such function; names file and line.
    """
    path = module if module.endswith(".py") else None
    try:
        found: Any = _module_of_file(module) if path else importlib.import_module(module)
    except BaseException as error:  # noqa: BLE001 - a file may raise anything while it is imported, SystemExit included
        message, remedy = described(error, module, path)
        if isinstance(error, ModuleNotFoundError) and path is None:
            folder = module.replace(".", "/")
            if os.path.isfile(f"{folder}.py"):
                remedy = f"To time the file, write {folder}.py:{name}."
            elif os.path.isdir(folder):
                remedy = f"{folder} is a folder. Name the file that defines {name}: {_file_of(folder, name)}:{name}."
            elif os.path.exists(module):
                remedy = f"{module} has no ending .py. Rename it to {module}.py."
        raise UsageError(message, remedy) from None
    inputs = getattr(found, "inputs", None)
    for part in name.split("."):
        if not hasattr(found, part):
            raise no_function(module, name, [each for each in dir(found) if callable(getattr(found, each, None))])
        found = getattr(found, part)
    if not callable(found):
        raise UsageError(
            f"{name!r} of {module} cannot be called: its type is {type(found).__name__}.", "Name a function."
        )
    return found, inputs if callable(inputs) and inputs is not found else None


def _file_of(folder: str, name: str) -> str:
    """Return the file of a folder that defines a function, as far as the texts tell."""
    for file in sorted(Path(folder).glob("*.py")):
        with suppress(OSError):
            if name in functions_in(file.read_bytes()):
                return str(file)
    return f"{folder}/FILE.py"


def no_function(module: str, name: str, names: Iterable[str]) -> UsageError:
    """Return the error that a file or module has no function of this name; `names` are those that it has."""
    remedy = did_you_mean(name.rpartition(".")[2], names, "Name a function that it defines.", like=0.6)
    return UsageError(f"{module} has no function {name!r}.", remedy)


def _module_of_file(path: str) -> ModuleType:
    folder = Path(path).parent
    if (folder / "__init__.py").exists():
        return _module_of_package(Path(path))
    source = Path(path).read_bytes()
    module = ModuleType(re.sub(r"\W", "_", Path(path).stem))  # not __main__: a script's main part does not run
    module.__file__ = path
    sys.modules.setdefault(module.__name__, module)
    _add_to_path(folder)
    exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)
    return module


def _module_of_package(path: Path) -> ModuleType:
    """Import a file of a package under its whole name, which its relative imports need."""
    names, root = [] if path.stem == "__init__" else [path.stem], path.parent
    while (root / "__init__.py").exists():
        names.insert(0, root.name)
        root = root.parent
    _add_to_path(root)
    found = importlib.import_module(".".join(names))
    if os.path.realpath(found.__file__ or "") != os.path.realpath(path):
        raise ImportError(f"{found.__file__} has the same name")
    return found


def _add_to_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.append(str(folder))  # last, so that modules beside the file do not shadow torch


def call_of(
    target: str, function: Any, inputs: Any, lets: tuple[str, ...], used: Set[str], *, is_alone: bool = False
) -> tuple[str, tuple[str, ...]]:
    """Return the statement that calls a function, and the lines of setup that it needs.

    Arguments are, in this order: `--let` values, `n`, `device`, what `inputs(n)` returns, and the defaults. The setup
    needs the names that are `used`. `is_alone`: no other code is timed that may take one of `lets`.

    Raises:
        UsageError: an argument has no value, or its name is misspelt.
    """
    try:
        # A module's own signature is *args, **kwargs.
        parameters = list(inspect.signature(getattr(function, "forward", function)).parameters.values())
    except (TypeError, ValueError):  # a function written in C
        if inputs is None:
            return f"{FUNCTION}({', '.join(f'{name}={name}' for name in lets)})", ()
        parameters, is_alone = [], False
    ordinary = [each for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    known = {*lets, "n", "device"}
    own = {each.name for each in ordinary}
    others = sorted({*lets} - own - used)
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters)
    for name in others if not takes_any else ():  # one unlike any may belong to the other code of a comparison
        if is_alone or get_close_matches(name, sorted(own - known), 1):
            takes = f"It takes {', '.join(each.name for each in ordinary)}: " if own else "It takes none: "
            raise UsageError(
                f"{target} takes no argument {name}.",
                did_you_mean(name, sorted(own - known), f"{takes}remove --let {name}.", 0.6),
            )
    passed = [each.name if each.kind is each.POSITIONAL_ONLY else f"{each.name}={each.name}"
              for each in ordinary if each.name in known]  # fmt: skip
    passed += [f"{name}={name}" for name in others if takes_any]
    missing = [each.name for each in ordinary if each.name not in known and each.default is each.empty]
    if not missing and (ordinary or inputs is None):
        return f"{FUNCTION}({', '.join(passed)})", ()
    if inputs is None:
        raise UsageError(
            f"{target} needs a value for {' and '.join(missing)}.",
            f"Add --let {missing[0]}='torch.rand(n)' or a function inputs(n) to the file.",
        )
    setup = f"{POSITIONAL}, {NAMED} = {AS_ARGUMENTS}({INPUTS}(n))"
    return f"{FUNCTION}({', '.join([f'*{POSITIONAL}', *passed, f'**{NAMED}'])})", (setup,)


def as_arguments(value: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return positional and named arguments: a dictionary is named, a tuple or list positional, else one argument."""
    if isinstance(value, dict):
        return (), value
    return (tuple(value), {}) if isinstance(value, (tuple, list)) else ((value,), {})


# ------------------------------------------------------------------ of the process that asked for a run


CALLER = "caller"
"""In place of the module of `OwnCode.target`: its function or values live in the caller's process. The second word is
the reason."""


@dataclass(frozen=True)
class CallerCode:
    """What typed code cannot hold as text. No other process can load it, so a thread of this one runs it."""

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
