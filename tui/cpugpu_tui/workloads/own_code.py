"""Code that a person typed, as a workload: a setup that makes inputs, and a statement that is timed.

Compiling checks syntax without running anything, so the controller may do it. Only an agent runs code.
"""

from __future__ import annotations

import ast
import linecache
import os
import re
import shlex
import shutil
import stat
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import lru_cache
from importlib.util import find_spec
from types import CodeType
from typing import Any, NamedTuple

from cpugpu_tui.errors import UsageError, home_path, kind_of
from cpugpu_tui.model import COMPILED, MAX_SIZE, OwnCode, WorkloadInfo
from cpugpu_tui.model.line_costs import SETUP, STATEMENT
from cpugpu_tui.workloads.code_target import caller_code, no_function, parse_target
from cpugpu_tui.workloads.contract import Costs, Workload
from cpugpu_tui.workloads.python_text import (
    DEVICE,
    SIZE,
    check_name,
    functions_in,
    numbers_in,
    quote,
    reading,
    takes_size,
    top_level_names,
)

LIBRARIES = {"torch": "torch", "np": "numpy", "F": "torch.nn.functional", "math": "math"}
"""Names that the code may use without importing them, and their modules."""

LONGEST_VALUES = 31
"""Characters of `,k=2` in the name of a workload, which has 60 at most."""

LONGEST_FILE = 10_000_000
"""Bytes of a Python file."""

LONGEST_PARSED = 300_000
"""Bytes of a file that is parsed while its name is typed: 0.2 s. Longer ones are parsed only where they run."""

LONGEST = 10_000
"""Characters of setup and statement together."""


def own_code(
    statement: str,
    setup: str = "",
    lets: tuple[tuple[str, str], ...] = (),
    *,
    in_place: bool = False,
    target: tuple[str, str] | None = None,
) -> OwnCode:
    """Return typed code as data, named after its statement. `target` stands for a function that has another name.

    Raises:
        UsageError: a part is no Python, is empty or too long.
    """
    lines = tuple(line.expandtabs(4).rstrip() for line in setup.strip("\n").splitlines())
    statement = statement.strip()
    target = target or parse_target(statement)
    if target is None and statement.endswith(".py") and os.path.isfile(home_path(statement)):
        raise UsageError(f"{quote(statement)} is a file.", f"Name a function that it defines: {statement}:FUNCTION.")
    file, _, name = statement.rpartition(":")
    if target is None and name.isidentifier() and (kind := kind_of(home_path(file))):
        raise UsageError(
            f"{quote(file)} is {kind}, not a file of Python.", f"Name a file that ends in .py: FILE.py:{name}."
        )
    sha256 = ""
    if target and target[0].endswith(".py"):
        path = os.path.abspath(home_path(target[0]))
        target, sha256 = (path, target[1]), hash_of_file(path)
        _require_function(path, target[1])
    if len(statement) + sum(map(len, lines)) > LONGEST:
        raise UsageError(f"The code has more than {LONGEST:,} characters.", "Put it into a file and import it.")
    if not statement:
        raise UsageError("The statement is empty.", "Give one, for example 'x @ x'.")
    if statement.endswith(".py:"):
        raise UsageError(f"Invalid statement {quote(statement)}: no function.", f"Write {statement}FUNCTION.")
    if "\n" in statement:
        raise UsageError(f"Invalid statement {quote(statement)}: it must be one line.", "Put other lines into --setup.")
    odd = [value for _, value in lets if not re.fullmatch(r"[\w.-]{1,20}", value)]
    values = "".join(f",{name}={value}" for name, value in lets if value not in odd)
    name = name_of(statement, repr((statement, lines, odd)), values)
    code = OwnCode(name, statement, lines, lets, target or (), sha256, in_place)
    compiled(code)
    return code


def two_sides(cpu: OwnCode, gpu: OwnCode) -> OwnCode:
    """Return the two implementations as one code, under a name of its own."""
    statement = f"{cpu.statement} on the CPU, {gpu.statement} on the GPU"
    parts = [replace(side, name="", sha256="", target=()) for side in (cpu, gpu)]
    return OwnCode(name_of(statement, repr(parts), ""), statement, cpu.setup, cpu.lets, sides=(cpu, gpu))


def _require_function(path: str, name: str) -> None:
    """Check that a file has a function, as far as its text tells.

    Raises:
        UsageError: nothing at its top level has this name, or only a module has.
    """
    if os.path.getsize(path) > LONGEST_PARSED:
        return
    with open(path, "rb") as file:
        text = file.read(LONGEST_PARSED)
    names, (first, dot, _) = top_level_names(text), name.partition(".")
    if names is not None and names.isdisjoint({first, first + dot}):
        raise no_function(path, name, functions_in(text))


def name_of(statement: str, whole: str, values: str) -> str:
    """Return the name of a workload: the statement's words, a hash of the whole code, and values of parameters.

    Values that are too long for a name are part of the hash, because the names of two rows must differ.
    """
    import hashlib  # here, because it loads OpenSSL: 4 ms before the first frame

    slug = re.sub(r"[^A-Za-z0-9]+", "-", statement).strip("-")[:24].strip("-") or "code"
    if len(values) > LONGEST_VALUES:
        whole, values = whole + values, ""
    return f"{slug}-{hashlib.sha256(whole.encode()).hexdigest()[:4]}{values}"


def hash_of_file(path: str) -> str:
    """Return the hash of a Python file, hexadecimal.

    Raises:
        UsageError: the file cannot be read.
    """
    import hashlib  # as above

    remedy = "Give the path of a Python file."
    try:
        facts = os.stat(path)
        if not stat.S_ISREG(facts.st_mode) and not stat.S_ISDIR(facts.st_mode):  # reading from a pipe waits for ever
            raise UsageError(f"Cannot read {path}: it is no ordinary file.", remedy)
        if facts.st_size > LONGEST_FILE:
            raise UsageError(f"Cannot read {path}: it has more than {LONGEST_FILE / 1e6:.0f} MB.", remedy)
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"Cannot read {path}: {reason}.", remedy) from None


class Compiled(NamedTuple):
    """Code that is fit to run."""

    setup: CodeType
    lets: tuple[tuple[str, CodeType], ...]
    text: str
    """The statement as it was typed."""
    statement: ast.Module
    """The statement as a function body that returns its value."""
    names: frozenset[str]
    """Global names that the statement uses."""
    uses_size: bool

    def function(self, parameters: tuple[str, ...], space: dict[str, Any]) -> Callable[..., Any]:
        """Return the statement as a function of what the setup made: local names are the fastest to look up."""
        body = self.statement.body
        made = ast.parse(f"def statement({', '.join(parameters)}): pass")
        function = made.body[0]
        assert isinstance(function, ast.FunctionDef)
        function.body = body
        with reading(self.text, "statement"):
            code = compile(ast.fix_missing_locations(made), STATEMENT, "exec", dont_inherit=True)
        exec(code, space)
        found: Callable[..., Any] = space["statement"]
        return found


@lru_cache(maxsize=64)
def compiled(code: OwnCode) -> Compiled:
    """Compile code; nothing of it runs.

    Raises:
        UsageError: a part is no Python; the sentence names part and line.
    """
    if code.sides:
        return compiled(code.sides[0])._replace(uses_size=any(compiled(side).uses_size for side in code.sides))
    if code.argv:
        nothing = compile("", STATEMENT, "exec")
        return Compiled(nothing, (), "", ast.Module([], []), frozenset(), any("{n}" in word for word in code.argv))
    setup_text = "\n".join(code.setup)
    setup = _compiled(setup_text, "exec", "setup", SETUP)
    for name, _ in code.lets:
        check_name(name)
    lets = tuple((name, _compiled(value, "eval", f"value of --let {name}", "<let>")) for name, value in code.lets)
    if code.target:
        return Compiled(setup, lets, "", ast.Module([], []), frozenset(), SIZE in all_names(setup, lets))
    whole = _compiled(code.statement, "exec", "statement", STATEMENT)
    with reading(code.statement, "statement"):
        tree = ast.parse(code.statement)
    if not tree.body:
        reason = "a comment runs nothing"
        raise UsageError(f"Invalid statement {quote(code.statement)}: {reason}.", "Write, for example, x @ x.")
    last = tree.body[-1]
    if isinstance(last, ast.Expr):
        tree.body[-1] = ast.copy_location(ast.Return(last.value), last)
    elif isinstance(last, ast.Assign) and isinstance(last.targets[0], ast.Name):
        tree.body.append(ast.Return(ast.Name(last.targets[0].id, ast.Load())))
    for name, text in ((SETUP, setup_text), (STATEMENT, code.statement)):
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)  # lines for tracebacks
    names = frozenset(names_in(whole))
    return Compiled(setup, lets, code.statement, tree, names, SIZE in names | all_names(setup, lets))


def needs_size(code: OwnCode) -> bool:
    """Return whether code uses n, as far as its text tells: that of a function of a file, too."""
    if compiled(code).uses_size or any(needs_size(side) for side in code.sides):
        return True
    path, name = code.target if code.sha256 else ("", "")
    try:
        with open(path, "rb") as file:
            return takes_size(file.read(LONGEST_PARSED), name, dict(code.lets))
    except OSError:  # also without a path
        return False


def all_names(setup: CodeType, lets: tuple[tuple[str, CodeType], ...]) -> frozenset[str]:
    """Return every name that the setup and the values of parameters use."""
    return frozenset(names_in(setup)).union(*(names_in(let) for _, let in lets))


def _compiled(text: str, mode: str, what: str, file: str) -> CodeType:
    with reading(text, what):
        return compile(text, file, mode, dont_inherit=True)


def names_in(code: CodeType) -> Iterator[str]:
    """Yield every name that code and the functions in it use."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_in(constant)


def info_of(code: OwnCode) -> WorkloadInfo:
    """Return the facts of code for the catalogue; nothing of it runs."""
    sizes = (MAX_SIZE,) if compiled(code).uses_size else (1,)
    variants = ("default",) if code.argv or code.sides else ("default", COMPILED)
    return WorkloadInfo(code.name, SIZE, variants, sizes, code.statement)


def place_of(error: BaseException, code: OwnCode) -> str:
    """Return where in the code something was raised, as the beginning of a sentence; empty if elsewhere."""
    names = {SETUP: "setup", STATEMENT: "statement"}
    if code.sha256:
        names = {code.target[0]: os.path.basename(code.target[0])}
    elif own := caller_code(code):
        names[own.file] = own.place
    found = [(names[frame.f_code.co_filename], line) for frame, line in traceback.walk_tb(error.__traceback__)
             if frame.f_code.co_filename in names]  # fmt: skip
    if not found:
        return ""
    part, line = found[-1]
    return f"{part}: " if part == "statement" else f"{part}, line {line}: "


def remedy_of(error: BaseException, code: OwnCode) -> str:
    """Return what to do about an exception of the code."""
    if isinstance(error, SystemExit):
        script = shlex.quote(code.statement.rpartition(":")[0])
        command = f", or time the script as a command: `cpugpu-tui time -- python {script}`" if code.sha256 else ""
        return f"Remove the exit{command}."
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"Install {error.name}, or name the folder that holds it in PYTHONPATH."
    if isinstance(error, NameError) and error.name and not code.target:
        name, option = error.name, code.setup_option
        replaces = "" if option == "--setup" else f" {option} replaces --setup."
        if find_spec(name) is not None:
            return f"Import or make {name} in {option}, for example {option} 'import {name}'.{replaces}"
        if name in numbers_in("\n".join(code.setup)) | numbers_in(code.statement):
            return f"Give {name} a value, for example --let {name}=1024 or --let {name}=n."
        return f"Make {name} in {option}, for example {option} '{name} = torch.rand(n, n)'.{replaces}"
    return "Correct the code."


# ------------------------------------------------------------------ a command


_PYTHON = re.compile(r"python[0-9.]*")


def own_command(words: Sequence[str], lets: tuple[tuple[str, str], ...] = (), startup: str | None = None) -> OwnCode:
    """Return a typed command as data, named after its words.

    Raises:
        UsageError: it is too long, its program does not exist, or it does not use a parameter or misspells it.
    """
    statement = " ".join(shlex.join(words).split())
    if len(statement) > LONGEST or "\0" in statement:
        raise UsageError(f"The command has more than {LONGEST:,} characters, or a null character.", "Use a script.")
    _check_placeholders(words, (DEVICE, SIZE, *(name for name, _ in lets)))
    for name, value in lets:
        if name in (SIZE, DEVICE):
            raise UsageError(f"Invalid parameter name {name!r}.", f"{{{name}}} is set by the run itself.")
        if not any(f"{{{name}}}" in word for word in words):
            raise UsageError(f"The command does not use --let {name}={value}.", f"Write {{{name}}} in the command.")
    started = _split(startup) if startup is not None else ()
    for program in (words[0], *started[:1]):
        if "{" not in program and shutil.which(program) is None:
            reason, remedy = _why_not_run(program)
            raise UsageError(f"Cannot run {quote(program)}: {reason}.", remedy)
    odd = [value for _, value in lets if not re.fullmatch(r"[\w.-]{1,20}", value)]
    values = "".join(f",{name}={value}" for name, value in lets if value not in odd)
    name = name_of(" ".join(map(os.path.basename, words[:2])), repr((words, started, odd)), values)
    return OwnCode(name, statement, lets=lets, argv=tuple(words), startup=started)


def _check_placeholders(words: Sequence[str], names: Sequence[str]) -> None:
    """Check for misspelt placeholders. Words with spaces, quotes or `$` are code, whose braces mean something else.

    Raises:
        UsageError: one is close to a name that would be replaced.
    """
    for word in words:
        for found in re.findall(r"\{([^\W\d]+)\}", word) if not re.search(r"[\s'\"$]", word) else ():
            if found not in names and (near := get_close_matches(found.lower(), names, 1)):
                raise UsageError(f"The command has no placeholder {{{found}}}.", f"Did you mean {{{near[0]}}}?")


def _why_not_run(program: str) -> tuple[str, str]:
    """Return why the shell would not find a program, and what to do."""
    words = program.split()
    if len(words) > 1 and shutil.which(words[0]) is not None:
        return "it is a whole command", f"Write its words without quotes: -- {program}."
    if os.path.isdir(program):
        return "it is a folder", "Give the path of a program."
    if not os.path.isfile(program):
        return "no such program", "Give its path, or correct the name."
    if not os.access(program, os.X_OK):
        return "the file is not executable", f"Name its interpreter first, or run chmod +x {shlex.quote(program)}."
    return "no such program on the PATH", f"Give its path, {shlex.quote(os.path.join(os.curdir, program))}."


def _split(text: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"Invalid --startup {text!r}: {error}.", "Write a command, as in a shell.") from None
    if not words:
        raise UsageError("--startup is empty.", "Write a command that does nothing but start.")
    return words


def words_for(code: OwnCode, n: int, device: str) -> list[str]:
    """Return the words of a command for one size and device; other braces stay as they are."""
    return replaced(code.argv, {SIZE: str(n), DEVICE: device, **dict(code.lets)})


def startup_words(code: OwnCode, device: str) -> list[str]:
    """Return a command that does nothing but start: by default Python that imports torch; empty if unknown."""
    if code.startup:
        return replaced(code.startup, {DEVICE: device})
    is_python = _PYTHON.fullmatch(os.path.basename(code.argv[0])) is not None
    return [code.argv[0], "-c", "import torch"] if is_python else []


def replaced(words: Sequence[str], values: dict[str, str]) -> list[str]:
    """Return words with each `{name}` of `values` replaced."""
    wanted = re.compile("|".join(re.escape(f"{{{name}}}") for name in values))
    return [wanted.sub(lambda found: values[found[0][1:-1]], word) for word in words]


class CommandWorkload(Workload):
    """A command that a person typed."""

    has_end_to_end = False

    def __init__(self, code: OwnCode) -> None:
        self.code = code
        self.name = code.name

    def costs(self, variant: str, n: int, itemsize_bytes: int) -> Costs:
        """Return zeros: nobody knows what a process computes."""
        return Costs(0.0, 0.0, 0.0)

    def info(self) -> WorkloadInfo:
        """Return the facts for the catalogue."""
        return info_of(self.code)
