"""Typed code before it is run: its parameters, its fields in a form, and whether its file changed. None of it runs."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product

from cpugpu_tui.config.parsing import FieldError
from cpugpu_tui.errors import UsageError
from cpugpu_tui.model import OwnCode, Plan
from cpugpu_tui.session.planning import PlanRequest
from cpugpu_tui.workloads.code_target import parse_target
from cpugpu_tui.workloads.own_code import compiled, hash_of_file, own_code


def parameters(lets: Sequence[str], *, is_python: bool = True) -> list[tuple[tuple[str, str], ...]]:
    """Return every combination of the values that `NAME=VALUE,VALUE` lists, as Python or as plain words.

    Raises:
        UsageError: a part has no name or no value.
    """
    named: list[list[tuple[str, str]]] = []
    for let in lets:
        name, sign, values = let.partition("=")
        if not sign or not name.strip().isidentifier() or not values.strip():
            raise UsageError(f"Invalid parameter {let!r}.", "Write NAME=VALUE, for example k=3 or k=1,2,4.")
        parts = split_values(values) if is_python else values.split(",")
        named.append([(name.strip(), value.strip()) for value in parts])
    return list(product(*named))


def split_values(text: str) -> list[str]:
    """Return the parts between commas that stand in no brackets or quotes."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        return [text]
    if isinstance(tree, ast.Tuple) and not text.lstrip().startswith("("):
        return [ast.unparse(each) for each in tree.elts]
    return [text]


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
        own_code("0", "", lets[0])
    setup = "\n".join(line.rstrip() for line in fields.setup.split(LINE_BREAK))
    with _in_field("setup"):
        own_code("0", setup)
    with _in_field("code"):
        in_place = fields.in_place.strip() == "yes"
        codes = tuple(own_code(fields.code, setup, each, in_place=in_place) for each in lets)
    sizes = fields.sizes.strip() or None
    if sizes is None and any(compiled(code).uses_size for code in codes):
        raise FieldError("sizes", "The code uses n.", "Enter sizes: 512, 16,64,256, or 16:4096 to search between both.")
    names = tuple(code.name for code in codes)
    return replace(base, names=names, sizes=sizes, own=base.own._replace(codes=codes))


@contextmanager
def _in_field(field: str) -> Iterator[None]:
    """Name the field of an error. Its text may name an option of the command line, whose field has the same name."""
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
        statements = ast.parse(text.strip()).body
    except (SyntaxError, ValueError):
        statements = [ast.Pass()]
    words = []
    for each in statements:
        if not isinstance(each, ast.Assign) or len(each.targets) != 1 or not isinstance(each.targets[0], ast.Name):
            raise UsageError(f"Invalid parameters {text!r}.", "Write NAME=VALUE; NAME=VALUE, for example k=1,2; m=64.")
        words.append(f"{each.targets[0].id}={ast.get_source_segment(text.strip(), each.value)}")
    return words


def fields_of(plan: Plan, sizes: str | None) -> CodeFields | None:
    """Return the fields that give the typed code of a plan again; None if they cannot."""
    if not plan.codes:
        return None
    first = plan.codes[0]
    setup = _on_one_line(first.setup)
    try:
        if setup is None:
            return None
        again = own_code(statement_of(first), "\n".join(first.setup), first.lets, in_place=first.in_place)
    except (SyntaxError, ValueError, UsageError):
        return None
    if replace(again, name=first.name, statement=first.statement, sha256=first.sha256) != first:
        return None
    values = (",".join(dict.fromkeys(code.lets[i][1] for code in plan.codes)) for i in range(len(first.lets)))
    lets = "; ".join(f"{name}={text}" for (name, _), text in zip(first.lets, values, strict=True))
    return CodeFields(statement_of(first), setup, sizes or "", lets, "yes" if first.in_place else "")


def _on_one_line(lines: Sequence[str]) -> str | None:
    """Return lines of Python separated by `; `, or by `LINE_BREAK` where that would be other code; None if by neither.

    Raises:
        SyntaxError, ValueError: the lines are no Python.
    """
    whole, joined = ast.dump(ast.parse("\n".join(lines))), "; ".join(line for line in lines if line.strip())
    try:
        if ast.dump(ast.parse(joined)) == whole:
            return joined
    except SyntaxError:
        pass
    return None if any(LINE_BREAK in line for line in lines) else LINE_BREAK.join(lines)


def statement_of(code: OwnCode) -> str:
    """Return the statement of typed code; a file is named by its whole path if its name means another one here."""
    here = parse_target(code.statement)
    if not code.sha256 or (here is not None and _absolute(here[0]) == code.target[0]):
        return code.statement
    return ":".join(code.target)


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))


def as_of_now(code: OwnCode) -> OwnCode:
    """Return typed code with the present hash of its file.

    Raises:
        UsageError: the file cannot be read.
    """
    return replace(code, sha256=hash_of_file(code.target[0])) if code.sha256 else code
