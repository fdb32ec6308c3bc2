"""What a Python caller wants timed, as typed code, and the process that it can run in."""

from __future__ import annotations

import ast
import os
import re
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from cpugpu_tui.errors import CpuGpuError, UsageError, shown
from cpugpu_tui.model import OwnCode
from cpugpu_tui.workloads.code_target import CALLER, CallerCode, load_target, parse_target
from cpugpu_tui.workloads.own_code import own_code
from cpugpu_tui.workloads.python_text import check_name, reading

LONGEST_MESSAGE = 400
"""Characters; an error may quote an argument of any length."""


class Subject(NamedTuple):
    """Code to time."""

    code: OwnCode
    own: CallerCode | None = None
    """Functions and values of the caller's process; None for code that runs in a process of its own."""


def subject_of(
    what: str | Callable[..., Any], setup: str, let: Mapping[str, object], inputs: Callable[[int], Any] | None,
    *, in_place: bool,
) -> Subject:  # fmt: skip
    """Return what to time: text that a process of its own can run, or else what only the caller's process has.

    Raises:
        UsageError: `what` is neither Python nor callable, or a parameter has a wrong name or value.
    """
    lets, values = _divided(let)
    if isinstance(what, str) and inputs is not None and parse_target(what) is None:
        raise UsageError("inputs works only with a function.", "Make the inputs of an expression in setup.")
    text = _with_file(what) if isinstance(what, str) else _target_of(what)
    if inputs is not None and text is not None and not _stands_beside(inputs, what):
        values_reason = "the function for inputs exists only there"
    else:
        values_reason = next((f"{name} is {article(type(value).__name__)}" for name, value in values.items()), "")
    if text is not None and not values_reason:
        return Subject(own_code(text, setup, lets, in_place=in_place))
    if isinstance(what, str):
        code = own_code(text or what, setup, lets, in_place=in_place)  # checks its syntax
        function, beside = load_target(*code.target) if code.target else (None, None)
        own = CallerCode(function, inputs or beside, values)
        return Subject(replace(code, target=(CALLER, values_reason), sha256=""), own)
    reason = values_reason if text is not None else _why_not_importable(what)
    code = own_code(name_of(what), setup, lets, in_place=in_place, target=(CALLER, reason))
    return Subject(code, CallerCode(what, inputs, values))


def _divided(let: Mapping[str, object]) -> tuple[tuple[tuple[str, str], ...], dict[str, Any]]:
    """Return parameters that can be written as text, and the other ones. Text is Python, as in `--let`.

    Raises:
        UsageError: a name is not a Python name, or is reserved for the harness.
    """
    lets: list[tuple[str, str]] = []
    values: dict[str, Any] = {}
    for name, value in let.items():
        check_name(name)
        text = value if isinstance(value, str) else _literal(value)
        if text is None:
            values[name] = value
        else:
            lets.append((name, text))
    return tuple(lets), values


def _literal(value: object) -> str | None:
    """Return a number, None, or a container of such as Python text; None for any other value."""
    text = repr(value) if isinstance(value, (int, float, complex, tuple, list, dict, type(None))) else ""
    try:
        with reading(text):
            return text if text and type(ast.literal_eval(text)) is type(value) else None
    except UsageError:
        return None


# ------------------------------------------------------------------ functions


def name_of(what: object) -> str:
    """Return the name of a callable; of a lambda its file and line."""
    code = getattr(what, "__code__", None)
    name = str(getattr(what, "__name__", None) or type(what).__name__)
    if name != "<lambda>" or code is None:
        return name
    is_file = os.path.isfile(code.co_filename)
    return f"lambda at {os.path.basename(code.co_filename)}:{code.co_firstlineno}" if is_file else "lambda"


def _target_of(what: object) -> str | None:
    """Return `file.py:function` or `package.module:function`; None for what another process cannot import."""
    for module, name in _homes_of(what):
        file = getattr(sys.modules.get(module), "__file__", None)
        if not module or module == "__main__" or file is None:
            continue
        found: object = sys.modules[module]
        for part in name.split("."):
            found = getattr(found, part, None)
        text = _target_text(module, os.path.abspath(file), name)
        if found is what and parse_target(text) is not None:
            return text
    return None


def _homes_of(what: object) -> Iterator[tuple[str, str]]:
    """Yield modules and names under which a callable may be importable: its own module first."""
    module, name = str(getattr(what, "__module__", "")), str(getattr(what, "__name__", ""))
    yield module, str(getattr(what, "__qualname__", ""))
    yield module, name  # torch.matmul has an odd __qualname__
    for other, found in sorted(sys.modules.items()):  # F.gelu and torch.fft.rfft are written in C, elsewhere
        if not any(part.startswith("_") for part in other.split(".")):
            yield from ((other, key) for key, value in list(getattr(found, "__dict__", {}).items()) if value is what)


def _with_file(text: str) -> str:
    """Return `file.py:name` for a module in a folder of the caller, which the agent does not search."""
    module, name = parse_target(text) or ("", "")
    for folder in sys.path if module and not module.endswith(".py") else ():
        stem = os.path.join(os.path.abspath(folder), *module.split("."))
        for file in (f"{stem}.py", os.path.join(stem, "__init__.py")):
            if os.path.isfile(file):
                return _target_text(module, file, name)
    return text


def _target_text(module: str, path: str, name: str) -> str:
    return f"{path}:{name}" if path.endswith(".py") and not _is_installed(path) else f"{module}:{name}"


def _is_installed(path: str) -> bool:
    folders = {sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib", "platstdlib")}
    return any(os.path.realpath(path).startswith(os.path.realpath(folder) + os.sep) for folder in folders)


def _why_not_importable(what: object) -> str:
    name = name_of(what)
    if name.startswith("lambda"):
        return "a lambda cannot be imported"
    if not hasattr(what, "__qualname__"):
        return f"{article(type(what).__name__)} cannot be imported"
    if "<locals>" in str(getattr(what, "__qualname__", "")):
        return f"{name} is defined inside another function"
    if getattr(what, "__module__", "") == "__main__":
        return f"{name} is defined in __main__"
    return f"{name} cannot be imported from {getattr(what, '__module__', None) or 'its module'}"


def _stands_beside(inputs: object, what: object) -> bool:
    """Whether the agent finds this function `inputs` by itself."""
    module = sys.modules.get(getattr(what, "__module__", "") or "")
    return not isinstance(what, str) and getattr(module, "inputs", None) is inputs


def in_python(text: str) -> str:
    """Return a remedy with arguments of the Python functions in place of options."""
    text = re.sub(r"--let (\w+)='([^']*)'", r"let={'\1': '\2'}", text).replace("--in-place", "in_place=True")
    names = "setup|old-setup|let|threads|dtype|device|max-seconds|rounds|simulate|db"
    text = re.sub(rf"--({names}) (?=['\d])", r"--\1=", text)  # as an argument has its value
    return re.sub(rf"--({names})\b", lambda found: found[1].replace("-", "_").replace("db", "database"), text)


@contextmanager
def said_in_python() -> Iterator[None]:
    """Let errors name arguments in place of options."""
    try:
        yield
    except CpuGpuError as error:
        error.message, error.remedy = shown(in_python(error.message), LONGEST_MESSAGE), in_python(error.remedy)
        raise


def article(noun: str) -> str:
    """Return a noun with its article."""
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"
