"""A command that a person typed, as a workload: whole processes are timed. Only an agent runs it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Sequence

from cpugpu_tui.errors import UsageError
from cpugpu_tui.model import OwnCode, WorkloadInfo
from cpugpu_tui.workloads.contract import Costs, Workload
from cpugpu_tui.workloads.own_code import LONGEST, info_of, name_of
from cpugpu_tui.workloads.python_text import DEVICE, SIZE, quote

_PYTHON = re.compile(r"python[0-9.]*")


def own_command(words: Sequence[str], lets: tuple[tuple[str, str], ...] = (), startup: str | None = None) -> OwnCode:
    """Return a typed command as data, named after its words.

    Raises:
        UsageError: it is too long, its program does not exist, or it does not use a parameter.
    """
    statement = " ".join(shlex.join(words).split())
    if len(statement) > LONGEST or "\0" in statement:
        raise UsageError(f"The command has more than {LONGEST:,} characters, or a null character.", "Use a script.")
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


def _why_not_run(program: str) -> tuple[str, str]:
    """Return why the shell would not find a program, and what to do."""
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
