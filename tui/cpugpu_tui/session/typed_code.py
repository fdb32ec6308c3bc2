"""Typed code before it is run: its parameters, its fields in a form, whether its file changed, and its source.

None of it runs: files are parsed, and modules are found without importing them.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.machinery import ModuleSpec, PathFinder
from itertools import product

from cpugpu_tui.config.hosts import host_of
from cpugpu_tui.config.parsing import FieldError
from cpugpu_tui.errors import UsageError, did_you_mean, home_path
from cpugpu_tui.model import OwnCode, Plan
from cpugpu_tui.session.repeat import let_texts, pair_words
from cpugpu_tui.session.request import PlanRequest
from cpugpu_tui.workloads.code_target import parse_target
from cpugpu_tui.workloads.own_code import all_names, compiled, hash_of_file, name_of, needs_size, own_code
from cpugpu_tui.workloads.python_text import arguments_in, check_name, parsed, quote, reading


def parameters(lets: Sequence[str], *, is_python: bool = True) -> list[tuple[tuple[str, str], ...]]:
    """Return every combination of the values that `NAME=VALUE,VALUE` lists, as Python or as plain words.

    Raises:
        UsageError: a part has no name or no value.
    """
    named: list[list[tuple[str, str]]] = []
    for let in lets:
        name, sign, values = let.partition("=")
        name = name.strip()
        if not sign or not name or not values.strip():
            raise UsageError(f"Invalid parameter {quote(let)}.", "Write NAME=VALUE, for example k=3 or k=1,2,4.")
        if is_python or not name.isidentifier():  # a command may use names that Python reserves
            check_name(name)
        parts = split_values(values) if is_python else values.split(",")
        named.append([(name, value.strip()) for value in parts])
    return list(product(*named))


def split_values(text: str) -> list[str]:
    """Return the parts between commas that stand in no brackets or quotes; the text itself if it is no Python."""
    try:
        with reading(text):
            tree = ast.parse(text, mode="eval").body
            if isinstance(tree, ast.Tuple) and not text.lstrip().startswith("("):
                return [ast.unparse(each) for each in tree.elts]
    except UsageError:  # raised again, with its reason, when the code is compiled
        pass
    return [text]


def check_use_of_lets(codes: Sequence[OwnCode]) -> None:
    """Check that at least one of the codes that are timed together uses each parameter, as far as their text tells.

    Raises:
        UsageError: none of them does; the error is about the first.
    """
    for name, value in codes[0].lets:
        unused = [_unused(code, name, value) for each in codes for code in each.sides or (each,)]
        if (error := unused[0]) and all(unused):
            raise error


def _unused(code: OwnCode, name: str, value: str) -> UsageError | None:
    """Return the error of a parameter that Python code cannot use; None if it uses it, or its text does not tell."""
    parts = compiled(code)
    used = parts.names | all_names(parts.setup, parts.lets)
    if name in used or used & {"eval", "exec", "globals", "locals", "vars"} or (code.target and not code.sha256):
        return None
    if not code.target:
        return UsageError(f"The code does not use --let {name}={value}.", f"Use {name} in it, or remove --let {name}.")
    file, function = code.target
    if (arguments := arguments_in(_text_of(file), function)) is None or name in arguments:
        return None
    takes = f"It takes {', '.join(arguments) or 'none'}: remove --let {name}."
    return UsageError(f"{function} takes no argument {name}.", did_you_mean(name, arguments, takes))


def with_names_of_both(
    new: Sequence[OwnCode], old: Sequence[OwnCode]
) -> tuple[tuple[OwnCode, ...], tuple[OwnCode, ...]]:
    """Return both codes, each new one under the same name as its old one, so that they are compared as one case."""
    names = []
    for one, other in zip(new, old, strict=True):
        both = repr([replace(each, sha256="", target=()) for each in (one, other)])
        names.append(name_of(one.statement, both, ""))
    first, second = (
        tuple(replace(code, name=name) for code, name in zip(codes, names, strict=True)) for codes in (new, old)
    )
    return first, second


LINE_BREAK = "\u21b5"
"""Separates lines of the setup in a field of one line, where `; ` cannot: for example before `for`."""


@dataclass(frozen=True)
class CodeFields:
    """The fields of a form for typed code, as text."""

    code: str = ""
    """The statement, or `file.py:function`."""
    setup: str = ""
    sizes: str = ""
    lets: str = ""
    """`k=1,2; width=64`."""
    in_place: str = ""
    """`yes` if the code may change its inputs; else empty or `no`."""
    against: str = ""
    """Another code to compare with; empty for none."""
    host: str = ""
    """Another machine to run on, with its launcher and Python; empty for this one."""


def request_of(fields: CodeFields, base: PlanRequest) -> PlanRequest:
    """Return the request that times the typed code. Syntax and names are checked here, the rest when it is planned.

    Raises:
        FieldError: a field is wrong; `.field` is its name in `CodeFields`.
    """
    if not fields.code.strip():
        raise FieldError("code", "No code.", "Type an expression such as x @ x, or file.py:function.")
    if fields.in_place.strip() not in ("", "no", "yes"):
        raise FieldError("in_place", f"Invalid answer {fields.in_place.strip()!r}.", "Type yes or no.")
    with _in_field("lets"):
        lets = parameters(_let_words(fields.lets))
        own_code("0", "", lets[0])  # so that an error of a value names this field, not `code`
    setup = "\n".join(line.rstrip() for line in fields.setup.split(LINE_BREAK))
    with _in_field("setup"):
        own_code("0", setup)  # likewise
    in_place = fields.in_place.strip() == "yes"
    with _in_field("code"):
        codes = tuple(own_code(fields.code, setup, each, in_place=in_place) for each in lets)
    against: tuple[OwnCode, ...] = ()
    if fields.against.strip():
        with _in_field("against"):
            against = tuple(own_code(fields.against, setup, each, in_place=in_place) for each in lets)
    with _in_field("host"):
        if fields.host and host_of(fields.host).launcher == "srun" and against:
            raise UsageError("A comparison runs three processes at the same time, and srun gives the node to one.",
                             "Use ssh, or run this program on that node.")  # fmt: skip
    pair: tuple[str, ...] = ()
    if against:
        codes, against = with_names_of_both(codes, against)
        pair = pair_words(codes, against)
    sizes = fields.sizes.strip() or None
    if sizes is None and any(map(needs_size, (*codes, *against))):
        raise FieldError("sizes", "The code uses n.", "Enter sizes: 512, 16,64,256, or 16:4096 to search between both.")
    names = tuple(code.name for code in codes)
    return base._replace(names=names, sizes=sizes, own=base.own._replace(codes=codes), against=against, pair=pair,
                         host=fields.host)  # fmt: skip


@contextmanager
def _in_field(field: str) -> Iterator[None]:
    """Turn a UsageError into one of this field. Its text may name `--setup`, which is the field `setup` here."""
    try:
        yield
    except UsageError as error:
        raise FieldError(field, error.message.replace("--", ""), error.remedy.replace("--", "")) from None


def _let_words(text: str) -> list[str]:
    """Return the parts of `k=1,2; width=64`, which is also valid Python.

    Raises:
        UsageError: it is no Python, or more than assignments.
    """
    try:
        statements = parsed(text.strip())
    except UsageError:
        statements = [ast.Pass()]  # no assignment, so it is refused below
    words = []
    for each in statements:
        if not isinstance(each, ast.Assign) or len(each.targets) != 1 or not isinstance(each.targets[0], ast.Name):
            raise UsageError(
                f"Invalid parameters {quote(text)}.", "Write NAME=VALUE; NAME=VALUE, for example k=1,2; m=64."
            )
        words.append(f"{each.targets[0].id}={ast.get_source_segment(text.strip(), each.value)}")
    return words


def fields_of(plan: Plan, sizes: str | None) -> CodeFields | None:
    """Return the fields that give the typed code of a plan again; None if they cannot."""
    if not plan.codes:
        return None
    first = plan.codes[0]
    try:
        setup = _on_one_line(first.setup)
        again = own_code(statement_of(first), "\n".join(first.setup), first.lets, in_place=first.in_place)
    except UsageError:
        return None
    if setup is None or replace(again, name=first.name, statement=first.statement, sha256=first.sha256) != first:
        return None  # a part of it has no field, such as a second side
    return CodeFields(
        statement_of(first), setup, sizes or "", "; ".join(let_texts(plan.codes)), "yes" if first.in_place else ""
    )


def _on_one_line(lines: Sequence[str]) -> str | None:
    """Return lines of Python joined by `; `, or by `LINE_BREAK` if `; ` changes the code; None if neither works.

    Raises:
        UsageError: the lines are no Python.
    """
    joined = "; ".join(line for line in lines if line.strip())
    with reading(joined):
        whole = ast.dump(ast.parse("\n".join(lines)))
    with suppress(UsageError), reading(joined):
        if ast.dump(ast.parse(joined)) == whole:
            return joined
    return None if any(LINE_BREAK in line for line in lines) else LINE_BREAK.join(lines)


def statement_of(code: OwnCode) -> str:
    """Return the statement of typed code, with the whole path of its file if the typed path is another file here."""
    here = parse_target(code.statement)
    if not code.sha256 or (here is not None and _absolute_path(here[0]) == code.target[0]):
        return code.statement
    return ":".join(code.target)


def _absolute_path(path: str) -> str:
    return os.path.abspath(home_path(path))


def as_of_now(code: OwnCode) -> OwnCode:
    """Return typed code with the present hash of its file.

    Raises:
        UsageError: the file cannot be read.
    """
    return replace(code, sha256=hash_of_file(code.target[0])) if code.sha256 else code


# ------------------------------------------------------------------ the source of a function


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

    Lines `from ... import` are followed to it. `visited` holds what was met on the way, so that import cycles end.
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
        wanted = _imported(statement).get(head, head) + dot + rest  # its name there, without `as`
        origin = _absolute(statement, module, is_package=spec.submodule_search_locations is not None)
        if found := function_source(origin, wanted, visited):
            return found
    return None


def _spec_of(module: str) -> ModuleSpec | None:
    """Return where a module is, as the agent would find it: not in the working folder. No package's finder runs."""
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
        body = parsed(text)
    except UsageError:
        return
    for depth, name in enumerate(names, 1):
        every = list(_defining(body))
        found = next((each for each in reversed(every) if name in _names_of(each)), None)
        if found is None:
            yield from (each for each in reversed(every) if "*" in _names_of(each))
            return
        if depth == len(names) or isinstance(found, ast.ImportFrom):
            yield found
            return
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
    kept = names[: len(names) - statement.level + is_package]  # in a package, the first dot is the package itself
    return ".".join([*kept, *([statement.module] if statement.module else [])])
