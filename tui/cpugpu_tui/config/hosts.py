"""Read and check the hosts of a fleet: from a TOML inventory, a plain file of names, or the command line."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from cpugpu_tui.config.parsing import FieldError
from cpugpu_tui.config.paths import absolute
from cpugpu_tui.config.validation import Text, Texts, TomlError, TomlFile, read_text, value_text
from cpugpu_tui.errors import UsageError, did_you_mean
from cpugpu_tui.machine.text import printable

MOST_HOSTS = 10_000
"""A file or range with more hosts is taken for a typing error."""

LAUNCHERS = ("local", "ssh", "srun")
"""Built-in ways to reach a host. An inventory can add templates."""

_RANGE = re.compile(r"\[([^\[\]]*)\]")

_Count = Annotated[int, Meta(ge=0, le=100_000, description="a whole number from 0 to 100,000")]
_Variable = Annotated[
    str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*\Z", description="a variable name of letters, digits and _")
]
_VariableValue = Annotated[int | float | str, Meta(description="text or a number")]

_KEYS: Mapping[str, Any] = {
    "launcher": Text, "python": Text, "pre": Texts, "env": dict[_Variable, _VariableValue], "tags": Texts,
    "options": Texts, "gpus": _Count, "cpus": _Count,
}  # fmt: skip
"""Keys of `[defaults]`. An entry of `[[hosts]]` may have them too, and needs `host`."""


class Inventory(Struct):
    """An inventory file, before its tables are checked."""

    defaults: dict[str, Any] = {}
    launchers: dict[str, Texts] = {}
    hosts: Annotated[list[Any], Meta(description="tables [[hosts]]")] = []


@dataclass(frozen=True)
class Host:
    """A host of a fleet, and how to start an agent there."""

    host: str
    """Name for the launcher, the tables and the history."""
    launcher: str = "ssh"
    """One of `LAUNCHERS`, or the name of a template."""
    template: tuple[str, ...] = ()
    """Words of the user's template; empty for a built-in launcher."""
    python: str = "python3"
    """Interpreter on the host that has torch; a leading `~/` is the home folder on that host."""
    pre: tuple[str, ...] = ()
    """Shell commands to run first, like `module load cuda`; if one fails, the host fails."""
    env: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    """Tags of its runs in the history."""
    options: tuple[str, ...] = ()
    """Further arguments of `ssh` or `srun`, like `-p 2222` or `--partition=gpu`."""
    gpus: int | None = None
    """GPUs to request from Slurm; None for all of the node."""
    cpus: int | None = None
    """CPUs to request from Slurm; None for all of the node."""
    file: str = ""
    """The inventory or list that names it; empty without one."""


def check_host(text: str) -> str:
    """Return the name of a host.

    Raises:
        UsageError: the name is invalid, or a program would read it as an option.
    """
    if not text or text.startswith("-"):
        raise UsageError(f"Invalid host {printable(text)!r}.", "A host name must not be empty or begin with a dash.")
    if "[" in text or "]" in text:
        raise UsageError(f"Invalid host range {printable(text)!r}.", "Use for example gpu[01-16].")
    if not text.isprintable() or any(each.isspace() for each in text) or len(text) > 255:
        raise UsageError(f"Invalid host {printable(text)!r}.", "Use one name without spaces.")
    return text


def expanded(text: str) -> list[str]:
    """Return the names in a range like `gpu[01-04,7]`; a name without brackets is returned as it is.

    Raises:
        UsageError: the range is invalid, or has too many names.
    """
    found = _RANGE.search(text)
    if found is None:
        return [text]
    middles: list[str] = []
    for part in found[1].split(","):
        ends = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if ends is None:
            raise UsageError(f"Invalid host range {printable(text)!r}.", "Use for example gpu[01-16].")
        if int(ends[2] or ends[1]) < int(ends[1]):
            right = printable(f"{text[: found.start()]}[{ends[2]}-{ends[1]}]{text[found.end() :]}")
            raise UsageError(
                f"Invalid host range {printable(text)!r}: the start is above the end.", f"Use for example {right}."
            )
        first, last = int(ends[1]), int(ends[2] or ends[1])
        if last - first >= MOST_HOSTS:
            raise UsageError(f"{printable(text)!r} names more than {MOST_HOSTS:,} hosts.", "Use a smaller range.")
        middles += [f"{number:0{len(ends[1])}d}" for number in range(first, last + 1)]
    rests = expanded(text[found.end() :])
    if len(middles) * len(rests) > MOST_HOSTS:
        raise UsageError(f"{printable(text)!r} names more than {MOST_HOSTS:,} hosts.", "Use a smaller range.")
    return [f"{text[: found.start()]}{middle}{rest}" for middle in middles for rest in rests]


def names_in(text: str) -> list[str]:
    """Return the hosts of a list like `n[1-4],gpu7`; commas inside brackets do not separate names.

    Raises:
        UsageError: a range is invalid.
    """
    parts = re.split(r",(?![^\[]*\])", text)
    return [name for part in parts if part.strip() for name in expanded(part.strip())]


def read_hosts(path: Path, defaults: Mapping[str, Any] | None = None) -> tuple[Host, ...]:
    """Return the hosts of an inventory (`.toml`) or of a plain file, a host per line. The file overrides `defaults`.

    Raises:
        UsageError: the file cannot be read, has an invalid key or value, names a host twice, or names none.
    """
    hosts = (_from_toml if path.suffix == ".toml" else _from_lines)(path, defaults or {})
    try:
        return checked(replace(host, file=absolute(str(path))) for host in hosts)
    except UsageError as error:
        raise TomlError(path, None, error.message, error.remedy) from None


def hosts_of(names: Iterable[str], defaults: Mapping[str, Any] | None = None) -> tuple[Host, ...]:
    """Return the hosts of names from the command line, which may be ranges like `n[1-4]`.

    Raises:
        UsageError: a name is invalid, or none is given: an empty `-w "$NODE"` must not mean every host.
    """
    found = [_host(name, defaults or {}, {}) for text in names for name in names_in(text)]
    if not found:
        raise UsageError("No host is given.", "Give hosts with -w gpu[1-4], or a file of hosts with -H.")
    return checked(found)


def host_of(text: str) -> Host:
    """Return the host of a line: its name, then its launcher and its Python unless these are the usual ones.

    Raises:
        UsageError: it has other words, or the launcher is none of the built-in ones.
    """
    name, *more = text.split() or [""]
    values = {"launcher" if word in LAUNCHERS else "python": word for word in more}
    if len(values) < len(more):
        raise UsageError(f"Invalid host {printable(text)!r}.", "Write its name, then ssh or srun, then its Python.")
    return _host(name, values, {})


def checked(hosts: Iterable[Host]) -> tuple[Host, ...]:
    """Return the hosts after checking them as a whole.

    Raises:
        UsageError: the list is empty, or a host is in it twice, so that its results could not be told apart.
    """
    known: dict[str, Host] = {}
    for host in hosts:
        if host.host in known:
            raise UsageError(f"The host {host.host!r} is named twice.", "Remove one of the two.")
        known[host.host] = host
    if not known:
        raise UsageError("The list has no hosts.", "Give at least one host.")
    return tuple(known.values())


def _from_lines(path: Path, defaults: Mapping[str, Any]) -> list[Host]:
    found: list[Host] = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        words = line.partition("#")[0].split()
        if len(words) > 1:
            more = f"Unexpected {printable(words[1])!r} after the host name."
            raise TomlError(path, number, more, "Put options of a host into an inventory (hosts.toml).")
        try:
            found += [_host(name, defaults, {}) for word in words for name in names_in(word)]
        except UsageError as error:
            raise TomlError(path, number, error.message, error.remedy) from None
    return found


def _from_toml(path: Path, defaults: Mapping[str, Any]) -> list[Host]:
    file = TomlFile(path)
    inventory = file.table(Inventory, file.data)
    templates = {name: _template(file, name, words) for name, words in inventory.launchers.items()}
    shared = {**defaults, **file.values(_KEYS, inventory.defaults, ("defaults",))}
    found: list[Host] = []
    for index, given in enumerate(inventory.hosts):
        at = ("hosts", index)
        table = file.values({"host": Text, **_KEYS}, {"host": given} if isinstance(given, str) else given, at)
        if "host" not in table:
            raise file.error(at, "A host has no name.", 'Add a line like host = "gpu1" below [[hosts]].')
        values = {**shared, **table, "env": {**shared.get("env", {}), **table.get("env", {})}}
        try:
            found += [_host(name, values, templates) for name in names_in(values["host"])]
        except UsageError as error:
            field = error.field if isinstance(error, FieldError) else "host"
            place = ("defaults",) if field in inventory.defaults.keys() - table.keys() else at
            raise file.error((*place, field), error.message, error.remedy) from None
    return found


def _host(name: str, values: Mapping[str, Any], templates: Mapping[str, tuple[str, ...]]) -> Host:
    """Return a host; the types of the values have been checked."""
    launcher = values.get("launcher", "ssh")
    if launcher not in (*LAUNCHERS, *templates):
        remedy = did_you_mean(launcher, (*LAUNCHERS, *templates))
        raise FieldError("launcher", f"Unknown launcher {printable(launcher)!r}.", remedy)
    python = values.get("python", sys.executable if launcher == "local" else "python3")
    if not python or python.startswith("-") or "\n" in python or "\0" in python:
        message = f"Invalid interpreter {printable(python)!r}."
        raise FieldError("python", message, "Write its path on that host, or python3.")
    return Host(
        check_host(name), launcher, templates.get(launcher, ()), python, _lines("pre", values.get("pre", [])),
        {name: _lines(name, str(value))[0] for name, value in values.get("env", {}).items()},
        _lines("tags", values.get("tags", [])), _words("options", values.get("options", [])), values.get("gpus"),
        values.get("cpus"),
    )  # fmt: skip


def _template(file: TomlFile, name: str, given: str | list[str]) -> tuple[str, ...]:
    at = ("launchers", name)
    if name in LAUNCHERS:
        raise file.error(at, f"The launcher {name!r} is built in.", "Rename yours, or set `options` of the host.")
    words = file.parsed(at, lambda: _words(name, given))
    if not any("{host}" in word for word in words):
        raise file.error(
            at, f"The launcher {printable(name)!r} has no {{host}}.", "Write, for example, docker exec -i {host}."
        )
    return words


def _lines(name: str, given: str | list[str]) -> tuple[str, ...]:
    texts = (given,) if isinstance(given, str) else tuple(given)
    for text in texts:
        if "\n" in text or "\0" in text:
            message = f"The value {value_text(text)} of `{printable(name)}` has several lines."
            raise FieldError(name, message, "Write a list of lines.")
    return texts


def _words(name: str, given: str | list[str]) -> tuple[str, ...]:
    """Return the words of a command line or list."""
    lines = _lines(name, given)
    try:
        return tuple(shlex.split(given)) if isinstance(given, str) else lines
    except ValueError as error:
        message = f"Invalid value {value_text(given)} for `{printable(name)}`: {error}."
        raise FieldError(name, message, "Close the quotes.") from None
