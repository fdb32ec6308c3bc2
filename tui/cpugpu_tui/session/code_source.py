"""Finds the source of `package.module:function` without importing it: files are parsed, and nothing of them runs."""

from __future__ import annotations

import ast
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder

LONGEST_FILE = 1_000_000
"""Bytes of a file that is parsed; longer ones would hold up the screen."""


@dataclass(frozen=True)
class Source:
    """Where a function is defined, and its lines."""

    file: str
    line: int
    """Number of the first line, from 1."""
    text: str


def function_source(module: str, name: str, visited: set[tuple[str, str]] | None = None) -> Source | None:
    """Return the definition of a function of an importable module; None if no file of this Python shows it.

    Lines `from ... import` are followed to it, except to what was `visited` on the way here.
    """
    visited = set() if visited is None else visited
    spec = _spec_of(module) if (module, name) not in visited else None
    visited.add((module, name))
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    text = _text_of(spec.origin)
    for statement in _statements(text, name.split(".")):
        if not isinstance(statement, ast.ImportFrom):
            first = min([statement.lineno, *(each.lineno for each in getattr(statement, "decorator_list", ()))])
            return Source(spec.origin, first, "\n".join(text.splitlines()[first - 1 : statement.end_lineno]))
        head, dot, rest = name.partition(".")
        wanted = _imported(statement).get(head, head) + dot + rest
        origin = _absolute(statement, module, is_package=spec.submodule_search_locations is not None)
        if found := function_source(origin, wanted, visited):
            return found
    return None


def _spec_of(module: str) -> ModuleSpec | None:
    """Return where a module is, as the agent would find it: not in the working folder, and not by finders' code."""
    path: Sequence[str] | None = [folder for folder in sys.path if folder and folder != os.getcwd()]
    spec, names = None, module.split(".")
    for count in range(1, len(names) + 1):
        try:
            spec = None if path is None else PathFinder.find_spec(".".join(names[:count]), path)
            path = None if spec is None else spec.submodule_search_locations
        except (KeyError, OSError, ValueError):  # KeyError: a namespace below one that nobody has imported
            return None
    return spec


def _text_of(file: str) -> str:
    """Return a file as text; empty if it cannot be read or is too long."""
    try:
        with open(file, "rb") as source:
            data = source.read(LONGEST_FILE + 1)
    except OSError:
        return ""
    return data.decode("utf-8", "backslashreplace") if len(data) <= LONGEST_FILE else ""


def _statements(text: str, names: Sequence[str]) -> Iterator[ast.stmt]:
    """Yield what may define a dotted name, the likeliest first: its last definition or import, then `import *`."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of invalid escapes in strings
            body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for depth, name in enumerate(names, 1):
        every = list(_defining(body))
        found = next((each for each in reversed(every) if name in _names_of(each)), None)
        if found is None:
            yield from (each for each in reversed(every) if "*" in _names_of(each))
        elif depth == len(names) or isinstance(found, ast.ImportFrom):
            yield found
        if not isinstance(found, ast.ClassDef):
            return
        body = found.body


def _defining(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements in order, also those inside `if`, `try` and `with`."""
    for each in body:
        yield each
        if isinstance(each, (ast.If, ast.Try, ast.With)):
            for part in ("body", "orelse", "finalbody"):
                yield from _defining(getattr(each, part, ()))
            for handler in getattr(each, "handlers", ()):
                yield from _defining(handler.body)


def _names_of(statement: ast.stmt) -> set[str]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, ast.Assign):
        return {each.id for each in statement.targets if isinstance(each, ast.Name)}
    return set(_imported(statement)) if isinstance(statement, ast.ImportFrom) else set()


def _imported(statement: ast.ImportFrom) -> dict[str, str]:
    return {each.asname or each.name: each.name for each in statement.names}


def _absolute(statement: ast.ImportFrom, module: str, *, is_package: bool) -> str:
    """Return the whole name of the module that a statement of `module` imports from."""
    if not statement.level:
        return statement.module or ""
    names = module.split(".")
    kept = names[: len(names) - statement.level + is_package]
    return ".".join([*kept, *([statement.module] if statement.module else [])])
