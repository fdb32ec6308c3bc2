"""A function of a file or module as typed code: how it is named, loaded, and called with arguments by name."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from cpugpu_tui.errors import UsageError
from cpugpu_tui.workloads.own_files import described
from cpugpu_tui.workloads.python_text import AS_ARGUMENTS, FUNCTION, INPUTS, NAMED, POSITIONAL, as_python_names

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
        file = f"{module.replace('.', '/')}.py"
        if isinstance(error, ModuleNotFoundError) and path is None and os.path.exists(module):
            remedy = f"{module} is here, but a file of Python ends in .py."
        if isinstance(error, ModuleNotFoundError) and path is None and os.path.isfile(file):
            remedy = f"To time the file, write {file}:{name}."
        raise UsageError(message, remedy) from None
    inputs = getattr(found, "inputs", None)
    for part in name.split("."):
        if not hasattr(found, part):
            raise no_function(module, name, dir(found))
        found = getattr(found, part)
    if not callable(found):
        raise UsageError(f"{name!r} of {module} cannot be called: it is {type(found).__name__}.", "Name a function.")
    return found, inputs if callable(inputs) and inputs is not found else None


def no_function(module: str, name: str, names: Iterable[str]) -> UsageError:
    """Return the error that a file or module has no function of this name; `names` are those that it has."""
    near = get_close_matches(name.rpartition(".")[2], names, 1)
    remedy = f"Did you mean {near[0]!r}?" if near else "Name a function that it defines."
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


def call_of(target: str, function: Any, inputs: Any, lets: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the statement that calls a function, and the lines of setup that it needs.

    Arguments are, in this order: `--let` values, `n`, `device`, what `inputs(n)` returns, and the defaults.

    Raises:
        UsageError: an argument has no value.
    """
    try:
        # A module's own signature is *args, **kwargs.
        parameters = list(inspect.signature(getattr(function, "forward", function)).parameters.values())
    except (TypeError, ValueError):  # a function written in C
        if inputs is None:
            return f"{FUNCTION}({', '.join(f'{name}={name}' for name in lets)})", ()
        parameters = []
    ordinary = [each for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    known = {*lets, "n", "device"}
    passed = [each.name if each.kind is each.POSITIONAL_ONLY else f"{each.name}={each.name}"
              for each in ordinary if each.name in known]  # fmt: skip
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
