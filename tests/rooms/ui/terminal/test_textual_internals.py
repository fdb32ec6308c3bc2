"""Undocumented parts of Textual are used in one file only, and this version of Textual has them."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import textwrap
from functools import cache
from pathlib import Path

import textual

from cpugpu_tui import ui
from cpugpu_tui.ui.terminal.textual_internals import PRIVATE_NAMES

THE_FILE = "cpugpu_tui.ui.terminal.textual_internals"


@cache
def names_of(kind: type) -> set[str]:
    """Return the names that a class defines, and the attributes that its methods set."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    stored = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self"
    }
    return {*vars(kind), *stored}


def test_this_textual_has_every_private_name_that_is_used() -> None:
    missing = []
    for place, reason in PRIVATE_NAMES.items():
        module, _, path = place.partition(":")
        class_name, _, name = path.partition(".")
        kind = getattr(importlib.import_module(module), class_name, None)
        if kind is None or not any(name in names_of(each) for each in kind.__mro__ if each is not object):
            missing.append(f"{place} ({reason})")
    assert not missing, f"Textual {textual.__version__} lacks {'; '.join(missing)}. See textual_internals.py."


def test_no_other_file_uses_or_hides_a_private_name_of_textual() -> None:
    found = []
    for info in pkgutil.walk_packages(ui.__path__, f"{ui.__name__}."):
        if info.name != THE_FILE:
            found += private_uses(info.name)
    assert not found, f"Use textual_internals.py, or another name: {'; '.join(found)}"


def private_uses(module_name: str) -> list[str]:
    """Return the places in a module that import or name something private of Textual."""
    module = importlib.import_module(module_name)
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("textual"):
            parts = [*str(node.module).split("."), *(each.name for each in node.names)]
            found += [f"{module_name}:{node.lineno} {part}" for part in parts if part.startswith("_")]
        if isinstance(node, ast.ClassDef) and inspect.isclass(getattr(module, node.name, None)):
            found += private_uses_in(node, getattr(module, node.name))
    return found


def private_uses_in(tree: ast.ClassDef, kind: type) -> list[str]:
    theirs = {
        name
        for base in kind.__mro__
        if base.__module__.startswith("textual.")
        for name in names_of(base)
        if name.startswith("_") and not name.startswith("__")
    }
    ours = {
        node.attr if isinstance(node, ast.Attribute) else node.name: node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        or (isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("self", "super()"))
    }
    in_body = [each.target if isinstance(each, ast.AnnAssign) else each.targets[0]
               for each in tree.body if isinstance(each, ast.AnnAssign | ast.Assign)]  # fmt: skip
    ours |= {target.id: target.lineno for target in in_body if isinstance(target, ast.Name)}
    return [f"{kind.__module__}:{line} {name}" for name, line in ours.items() if name in theirs]
