"""Undocumented parts of Textual are used in one file only, and this version of Textual has them."""

import ast
import importlib
import inspect
import pkgutil
import textwrap
from functools import cache
from pathlib import Path

import textual

from cpugpu_tui import ui
from cpugpu_tui.ui.terminal import bounded_input, textual_internals, textual_table

THE_FILES = textual_internals, textual_table


@cache
def names_of(kind):
    """Return the names that a class defines, and the attributes that its methods set."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    stored = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self"
    }
    return {*vars(kind), *stored}


def test_this_textual_has_every_private_name_that_is_used():
    missing = {"feed", "tick"} - theirs_of(textual_internals.XTermParser)
    missing |= {"exit_event", "fileno", "run_input_thread"} - theirs_of(bounded_input.BoundedInputDriver)
    for file in THE_FILES:
        for node in filter(lambda node: isinstance(node, ast.ClassDef), ast.parse(inspect.getsource(file)).body):
            private = {name for name in named_in(node) if name.startswith("_") and not name.startswith("__")}
            assert private, "each of its classes is there for such names"
            missing |= private - theirs_of(getattr(file, node.name))
    assert not missing, f"Textual {textual.__version__} lacks {', '.join(sorted(missing))}. See textual_internals.py."


def test_no_other_file_uses_or_hides_a_private_name_of_textual():
    found = []
    for info in pkgutil.walk_packages(ui.__path__, f"{ui.__name__}."):
        if info.name not in [file.__name__ for file in THE_FILES]:
            found += private_uses(info.name)
    assert not found, f"Use textual_internals.py, or another name: {'; '.join(found)}"


def private_uses(module_name):
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


def theirs_of(kind):
    return {name for base in kind.__mro__ if base.__module__.startswith("textual.") for name in names_of(base)}


def named_in(tree):
    """Return the names of a class's methods and attributes, and of those of `self` that it uses, with their lines."""
    ours = {
        node.attr if isinstance(node, ast.Attribute) else node.name: node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        or (isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("self", "super()"))
    }
    in_body = [each.target if isinstance(each, ast.AnnAssign) else each.targets[0]
               for each in tree.body if isinstance(each, ast.AnnAssign | ast.Assign)]  # fmt: skip
    return ours | {target.id: target.lineno for target in in_body if isinstance(target, ast.Name)}


def private_uses_in(tree, kind):
    theirs = {name for name in theirs_of(kind) if name.startswith("_") and not name.startswith("__")}
    return [f"{kind.__module__}:{line} {name}" for name, line in named_in(tree).items() if name in theirs]
