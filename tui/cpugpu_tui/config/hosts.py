"""The hosts of a fleet: an inventory in TOML, a plain file of names, or names on the command line; all checked."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from cpugpu_tui.config.validation import Text, Texts, TomlError, TomlFile, read_text, shown
from cpugpu_tui.errors import UsageError
from cpugpu_tui.machine.text import printable

MOST_HOSTS = 10_000
"""More than this out of one file or range is a slip of the finger."""

LAUNCHERS = ("local", "ssh", "srun")
"""How a host is reached, without the person's own templates."""

_RANGE = re.compile(r"\[([^\[\]]*)\]")

_Count = Annotated[int, Meta(ge=0, le=100_000, description="how many to ask Slurm for, 0 to 100,000")]
_Variable = Annotated[
    str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*\Z", description="a variable's name, of letters, digits and _")
]
_VariableValue = Annotated[int | float | str, Meta(description="text or a number")]

_KEYS: Mapping[str, Any] = {
    "launcher": Text, "python": Text, "pre": Texts, "env": dict[_Variable, _VariableValue], "tags": Texts,
    "options": Texts, "gpus": _Count, "cpus": _Count,
}  # fmt: skip
"""What `[defaults]` may hold, and with `host` each of `[[hosts]]`."""


class Inventory(Struct):
    """A file of hosts."""

    defaults: dict[str, Any] = {}
    launchers: dict[str, Texts] = {}
    hosts: Annotated[list[Any], Meta(description="tables [[hosts]]")] = []


@dataclass(frozen=True)
class Host:
    """Where an agent runs, and how it is started there."""

    host: str
    """What the launcher calls it, and what tables and the history call it."""
    launcher: str = "ssh"
    """One of `LAUNCHERS`, or the name of a template."""
    template: tuple[str, ...] = ()
    """Words of the person's own template; empty for a built-in launcher."""
    python: str = "python3"
    """Interpreter there that has torch; a leading `~/` is that person's home there."""
    pre: tuple[str, ...] = ()
    """Shell commands before it, like `module load cuda`; if one fails, the host fails."""
    env: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    """Words that stand at its runs in the history."""
    options: tuple[str, ...] = ()
    """Further words for `ssh` or `srun`, like `-p 2222` or `--partition=gpu`."""
    gpus: int | None = None
    """GPUs to ask Slurm for; None for all that the node has."""
    cpus: int | None = None
    """CPUs to ask Slurm for; None for all that the node has."""


def check_host(text: str) -> str:
    """Return a host's name.

    Raises:
        UsageError: it would be read as an option, or holds what no name has.
    """
    if not text or text.startswith("-"):
        raise UsageError(f"{printable(text)!r} is no host: a program would read it as an option.", "Write its name.")
    if "[" in text or "]" in text:
        raise UsageError(f"{printable(text)!r} is no range of hosts.", "Write it like gpu[01-16].")
    if not text.isprintable() or any(each.isspace() for each in text) or len(text) > 255:
        raise UsageError(f"{printable(text)!r} is no host.", "Write one name, without spaces.")
    return text


def expanded(text: str) -> list[str]:
    """Return the names that `gpu[01-04,7]` stands for; a name without brackets stands for itself.

    Raises:
        UsageError: the range is none, or has too many names.
    """
    found = _RANGE.search(text)
    if found is None:
        return [text]
    middles: list[str] = []
    for part in found[1].split(","):
        ends = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if ends is None or int(ends[2] or ends[1]) < int(ends[1]):
            raise UsageError(f"{printable(text)!r} is no range of hosts.", "Write it like gpu[01-16].")
        first, last = int(ends[1]), int(ends[2] or ends[1])
        if last - first >= MOST_HOSTS:
            raise UsageError(f"{printable(text)!r} is more than {MOST_HOSTS:,} hosts.", "Write a smaller range.")
        middles += [f"{number:0{len(ends[1])}d}" for number in range(first, last + 1)]
    rests = expanded(text[found.end() :])
    if len(middles) * len(rests) > MOST_HOSTS:
        raise UsageError(f"{printable(text)!r} is more than {MOST_HOSTS:,} hosts.", "Write a smaller range.")
    return [f"{text[: found.start()]}{middle}{rest}" for middle in middles for rest in rests]


def names_in(text: str) -> list[str]:
    """Return the hosts of `n[1-4],gpu7`: commas between names, not those inside brackets.

    Raises:
        UsageError: a range is none.
    """
    parts = re.split(r",(?![^\[]*\])", text)
    return [name for part in parts if part.strip() for name in expanded(part.strip())]


def read_hosts(path: Path, defaults: Mapping[str, Any] | None = None) -> tuple[Host, ...]:
    """Return the hosts of an inventory (`.toml`) or of a plain file, a host a line; `defaults` yield to the file.

    Raises:
        UsageError: it cannot be read, has a wrong key or value, names a host twice, or no host at all.
    """
    hosts = (_from_toml if path.suffix == ".toml" else _from_lines)(path, defaults or {})
    try:
        return checked(hosts)
    except UsageError as error:
        raise TomlError(path, None, error.message, error.remedy) from None


def hosts_of(names: Iterable[str], defaults: Mapping[str, Any] | None = None) -> tuple[Host, ...]:
    """Return hosts that were named on the command line, `n[1-4]` among them.

    Raises:
        UsageError: a name cannot be one, or there is none: an empty `-w "$NODE"` must not mean every host.
    """
    found = [_host(name, defaults or {}, {}) for text in names for name in names_in(text)]
    if not found:
        raise UsageError("No host is named.", "Name hosts with -w gpu[1-4], or a file of them with -H.")
    return checked(found)


def checked(hosts: Iterable[Host]) -> tuple[Host, ...]:
    """Return the hosts.

    Raises:
        UsageError: there is none, or one is there twice: its results could not be told apart.
    """
    known: dict[str, Host] = {}
    for host in hosts:
        if host.host in known:
            raise UsageError(f"The host {host.host!r} is named twice.", "Take one of them out.")
        known[host.host] = host
    if not known:
        raise UsageError("There is no host in it.", "Write a name on each line.")
    return tuple(known.values())


def _from_lines(path: Path, defaults: Mapping[str, Any]) -> list[Host]:
    found: list[Host] = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        words = line.partition("#")[0].split()
        if len(words) > 1:
            more = f"more than a name: {printable(words[1])!r}."
            raise TomlError(path, number, more, "Say more in an inventory, hosts.toml.")
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
            raise file.error(at, "A host has no name.", 'Write [[hosts]] and below it host = "gpu1".')
        values = {**shared, **table, "env": {**shared.get("env", {}), **table.get("env", {})}}
        found += file.parsed(at, partial(_hosts, values, templates))
    return found


def _hosts(values: Mapping[str, Any], templates: Mapping[str, tuple[str, ...]]) -> list[Host]:
    return [_host(name, values, templates) for name in names_in(values["host"])]


def _host(name: str, values: Mapping[str, Any], templates: Mapping[str, tuple[str, ...]]) -> Host:
    """Return a host of values whose types were checked."""
    launcher = values.get("launcher", "ssh")
    if launcher not in (*LAUNCHERS, *templates):
        raise UsageError(
            f"There is no launcher {printable(launcher)!r}.", f"There are: {', '.join((*LAUNCHERS, *templates))}."
        )
    python = values.get("python", sys.executable if launcher == "local" else "python3")
    if not python or python.startswith("-") or "\n" in python or "\0" in python:
        raise UsageError(f"{printable(python)!r} is no interpreter.", "Write its path on that host, or python3.")
    return Host(
        check_host(name),
        launcher,
        templates.get(launcher, ()),
        python,
        _lines("pre", values.get("pre", [])),
        {name: _lines(name, str(value))[0] for name, value in values.get("env", {}).items()},
        _lines("tags", values.get("tags", [])),
        _words("options", values.get("options", [])),
        values.get("gpus"),
        values.get("cpus"),
    )


def _template(file: TomlFile, name: str, given: str | list[str]) -> tuple[str, ...]:
    at = ("launchers", name)
    if name in LAUNCHERS:
        raise file.error(at, f"The launcher {name!r} is built in.", "Rename yours; `options` go to ssh and srun.")
    words = file.parsed(at, lambda: _words(name, given))
    if not any("{host}" in word for word in words):
        raise file.error(
            at, f"The launcher {printable(name)!r} has no {{host}}.", "Write docker exec -i {host} or the like."
        )
    return words


def _lines(name: str, given: str | list[str]) -> tuple[str, ...]:
    texts = (given,) if isinstance(given, str) else tuple(given)
    for text in texts:
        if "\n" in text or "\0" in text:
            raise UsageError(
                f"`{printable(name)}` is {shown(text)}, which has several lines.", "Write a list of lines."
            )
    return texts


def _words(name: str, given: str | list[str]) -> tuple[str, ...]:
    """Return the words of a command line, or of a list of words."""
    lines = _lines(name, given)
    try:
        return tuple(shlex.split(given)) if isinstance(given, str) else lines
    except ValueError as error:
        raise UsageError(f"`{printable(name)}` is {shown(given)}: {error}.", "Close the quotes.") from None
