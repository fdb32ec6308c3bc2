"""Reads Python that a person wrote. Nothing of it runs, and whatever is wrong with it is one error of ours.

Every text of a person that is parsed or compiled goes through `reading`. Python's parser and compiler raise more than
SyntaxError: ValueError for a null character, and MemoryError or RecursionError for code that is nested too deeply.
"""

from __future__ import annotations

import ast
import re
import unicodedata
import warnings
from collections.abc import Container, Iterator
from contextlib import contextmanager
from keyword import iskeyword

from cpugpu_tui.errors import UsageError

SIZE, DEVICE = "n", "device"
"""Names that the harness defines for the code: the size, and the device that the statement runs on."""

FUNCTION, INPUTS, POSITIONAL, NAMED, AS_ARGUMENTS = "_function", "_inputs", "_positional", "_named", "_as_arguments"
"""Names that stand for a function, the function `inputs` beside it, what that returns, and what divides that."""

LONGEST_QUOTE = 120
"""Characters of wrong code that an error repeats, so that its reason is not cut off."""


@contextmanager
def reading(text: str | bytes, what: str = "code") -> Iterator[None]:
    """Turn every error of parsing, compiling or unparsing `text` inside this block into one of ours. Warn of nothing.

    `what` names the text in the error, for example `setup`, which quotes its beginning.

    Raises:
        UsageError: the text is no Python, or is nested too deeply.
    """
    try:
        with warnings.catch_warnings():  # of invalid escapes in strings, and of `1 is 1`
            warnings.simplefilter("ignore")
            yield
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        line, reason = "", str(error).rstrip(".") if isinstance(error, ValueError) else "it is nested too deeply"
        if isinstance(error, SyntaxError):
            line, reason = f", line {error.lineno}" if what == "setup" else "", error.msg.rstrip(".")
        remedy = "Correct the Python code."
        if isinstance(text, str) and re.match(r"(?:python[\d.]*|\./\S+|sh|bash)\s.{,60}$", text):
            remedy = f"To time a command, write it after --: `cpugpu-tui time -- {text}`."
        raise UsageError(f"Invalid {what} {quote(text)}{line}: {reason}.", remedy) from None


def quote(text: object) -> str:
    """Return code, or a value, as an error repeats it."""
    return (
        repr(text) if not isinstance(text, (str, bytes)) or len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]!r}…"
    )


def parsed(text: str | bytes, what: str = "code") -> list[ast.stmt]:
    """Return the statements of a text.

    Raises:
        UsageError: as in `reading`.
    """
    with reading(text, what):
        return ast.parse(text).body


_MAKERS = {"globals", "setattr", "exec", "eval", "vars", "locals", "__getattr__", "__dict__"}
"""Names in a file that may define functions which its text does not show."""


def top_level_names(text: bytes) -> frozenset[str] | None:
    """Return the names that a file binds, modules with a dot at their end; None if its text does not tell."""
    try:
        tree = ast.Module(parsed(text), [])
    except UsageError:  # the Python that runs it may be newer, and says why otherwise
        return None
    bound: set[str] = set()
    for each in ast.walk(tree):
        if {getattr(each, key, None) for key in ("id", "name", "attr")} & {"*", *_MAKERS}:
            return None
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(each.name)
        elif isinstance(each, (ast.Import, ast.ImportFrom)):
            dot = "." if isinstance(each, ast.Import) else ""
            bound |= {(alias.asname or alias.name.partition(".")[0]) + dot for alias in each.names}
        elif isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            bound.add(each.id)
    return frozenset(bound)


_TAKE_NUMBERS = {"arange", "empty", "eye", "full", "linspace", "ones", "rand", "randint", "randn", "random", "randperm",
                 "range", "zeros"}  # fmt: skip
"""Functions of torch, NumPy and Python whose arguments are sizes or other numbers."""


def numbers_in(text: str) -> set[str]:
    """Return the names that valid Python passes, alone or in arithmetic, where a function takes numbers."""
    found: set[str] = set()
    for call in ast.walk(ast.Module(parsed(text), [])):
        if isinstance(call, ast.Call) and getattr(call.func, "attr", getattr(call.func, "id", "")) in _TAKE_NUMBERS:
            for each in map(list, map(ast.walk, call.args)):
                if not any(isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)) for node in each):
                    found.update(node.id for node in each if isinstance(node, ast.Name))
    return found


def takes_size(text: bytes, name: str, given: Container[str]) -> bool:
    """Return whether the text of a file shows that its function `name` takes n, or needs a value of `inputs(n)`.

    `given` are the arguments that have a value.
    """
    functions = functions_in(text)
    if name not in functions:
        return False
    arguments = functions[name].args
    ordinary = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    missing = ordinary[: len(ordinary) - len(arguments.defaults)]
    for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        ordinary.append(each.arg)
        missing += [each.arg] if default is None else []
    needed = [each for each in missing if each != DEVICE and each not in given]
    return SIZE in ordinary or ("inputs" in functions and (bool(needed) or not ordinary))


def arguments_in(text: str, name: str) -> list[str] | None:
    """Return the arguments of a file's function; None if its text does not tell, or if it takes any."""
    function = functions_in(text).get(name)
    # A decorator may take other ones.
    if function is None or function.args.kwarg or getattr(function, "decorator_list", None):
        return None
    return [each.arg for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]


def functions_in(text: str | bytes) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda]:
    """Return the functions at the top of a file, by name, also `f = lambda x: x`; empty if it cannot be parsed."""
    try:
        tree = parsed(text)
    except UsageError:
        return {}
    found: dict[str, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda] = {}
    for each in tree:
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found[each.name] = each
        elif isinstance(each, ast.Assign) and isinstance(each.value, ast.Lambda):
            found |= {name.id: each.value for name in each.targets if isinstance(name, ast.Name)}
    return found


def check_name(name: object) -> None:
    """Check the name of a parameter.

    Raises:
        UsageError: code cannot use it, or it means something else there.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise UsageError(f"Invalid parameter name {quote(name)}.", "Use a Python name, for example k.")
    if iskeyword(name) or name == "__debug__":
        raise UsageError(f"Invalid parameter name {quote(name)}: it is a word of Python.", "Use another name.")
    if name in (SIZE, DEVICE, FUNCTION, INPUTS, POSITIONAL, NAMED, AS_ARGUMENTS):
        raise UsageError(f"Invalid parameter name {quote(name)}: it is set by the run itself.", "Use another name.")


def as_python_names(text: str) -> str:
    """Return names as Python keeps them: letters with separate accents, as macOS writes them, become one character."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text)
