"""The hosts of a fleet: an inventory in TOML, a plain file of names, or names on the command line; all checked."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import tomllib

from cpugpu_tui.config import toml
from cpugpu_tui.config.converting import convert
from cpugpu_tui.errors import UsageError
from cpugpu_tui.machine.text import printable
from cpugpu_tui.telemetry.files import read_at_most

T = TypeVar("T")

MOST_BYTES = 1_000_000
"""A larger file is no list of hosts."""

MOST_HOSTS = 10_000
"""More than this out of one file or range is a slip of the finger."""

LAUNCHERS = ("local", "ssh", "srun")
"""How a host is reached, without the person's own templates."""

WRITE = "Correct the file; docs/fleet.md describes its format."

_RANGE = re.compile(r"\[([^\[\]]*)\]")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


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
        UsageError: it cannot be read, says what cannot be, names a host twice, or no host at all.
    """
    text = _text(path)
    try:
        hosts = _from_toml(text, defaults or {}) if path.suffix == ".toml" else _from_lines(text, defaults or {})
        return checked(hosts)
    except UsageError as error:
        raise UsageError(f"{path}: {error.message}", error.remedy) from None


def _text(path: Path) -> str:
    try:
        data = read_at_most(path, MOST_BYTES)
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"The hosts {path} cannot be read: {error.strerror}.", "Name another file with -H.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"The hosts {path} are no UTF-8 text.", "Name another file with -H.") from error
    if len(data) > MOST_BYTES:
        raise UsageError(f"{path} is larger than {MOST_BYTES:,} bytes, which no list of hosts is.", "Name another.")
    return text


def hosts_of(names: Iterable[str], defaults: Mapping[str, Any] | None = None) -> tuple[Host, ...]:
    """Return hosts that were named on the command line, `n[1-4]` among them.

    Raises:
        UsageError: a name cannot be one, or there is none: an empty `-w "$NODE"` must not mean every host.
    """
    found = [_host({**(defaults or {}), "host": name}, {}) for text in names for name in names_in(text)]
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


def _from_lines(text: str, defaults: Mapping[str, Any]) -> list[Host]:
    found: list[Host] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) > 1:
            raise UsageError(
                f"Line {number}: more than a name: {printable(words[1])!r}.", "Say more in an inventory, hosts.toml."
            )
        try:
            found += [_host({**defaults, "host": name}, {}) for name in names_in(words[0])]
        except UsageError as error:
            raise UsageError(f"Line {number}: {error.message}", error.remedy) from None
    return found


def _from_toml(text: str, defaults: Mapping[str, Any]) -> list[Host]:
    try:
        data = toml.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"This is no TOML: {printable(str(error))}.", 'Write [[hosts]] and host = "gpu1".') from None
    _refuse_unknown(data, ("defaults", "hosts", "launchers"), "the file")
    for name, kind in (("defaults", dict), ("hosts", list), ("launchers", dict)):
        if not isinstance(data.get(name, kind()), kind):
            raise UsageError(f"{name} is not of the right kind.", "Write [defaults], [launchers] and [[hosts]].")
    templates = {name: _template(name, given) for name, given in data.get("launchers", {}).items()}
    shared = {**defaults, **data.get("defaults", {})}
    if "host" in shared:
        raise UsageError("[defaults] names a host.", "Name hosts in [[hosts]].")
    return [host for table in data.get("hosts", []) for host in _hosts_of_table(table, shared, templates)]


def _hosts_of_table(table: object, shared: dict[str, Any], templates: dict[str, tuple[str, ...]]) -> list[Host]:
    if isinstance(table, str):
        table = {"host": table}
    if not isinstance(table, dict) or not isinstance(table.get("host"), str):
        raise UsageError("A host has no name.", 'Write [[hosts]] and below it host = "gpu1".')
    env = {**_env(shared.get("env", {})), **_env(table.get("env", {}))}
    return [_host({**shared, **table, "host": name, "env": env}, templates) for name in names_in(table["host"])]


def _env(given: object) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise UsageError("env is no table.", 'Write env = { NAME = "value" }.')
    return given


def _host(table: Mapping[str, Any], templates: Mapping[str, tuple[str, ...]]) -> Host:
    """Return a host of checked values."""
    name = check_host(table["host"])
    _refuse_unknown(table, [each.name for each in fields(Host) if each.name != "template"], f"host {name}")
    launcher = _typed("launcher", table.get("launcher", "ssh"), str)
    if launcher not in (*LAUNCHERS, *templates):
        raise UsageError(
            f"There is no launcher {printable(launcher)!r}.", f"There are: {', '.join((*LAUNCHERS, *templates))}."
        )
    return Host(
        name, launcher, templates.get(launcher, ()),
        _python(table.get("python", sys.executable if launcher == "local" else "python3")),
        tuple(_line("pre", each) for each in _list("pre", table.get("pre", []))),
        {_variable(key): _value(key, value) for key, value in _env(table.get("env", {})).items()},
        tuple(_line("tags", each) for each in _list("tags", table.get("tags", []))),
        _words("options", table.get("options", [])),
        _count("gpus", table.get("gpus")), _count("cpus", table.get("cpus")),
    )  # fmt: skip


def _template(name: str, given: object) -> tuple[str, ...]:
    if name in LAUNCHERS:
        raise UsageError(
            f"The launcher {name!r} is built in.", "Give yours another name; `options` go to ssh and srun."
        )
    words = _words(name, given)
    if not any("{host}" in word for word in words):
        raise UsageError(f"The launcher {printable(name)!r} has no {{host}}.", "Write it like docker exec -i {host}.")
    return words


def _words(name: str, given: object) -> tuple[str, ...]:
    """Return the words of a command line, or of a list of words."""
    if not isinstance(given, str):
        return tuple(_line(name, each) for each in _list(name, given))
    try:
        return tuple(shlex.split(given))
    except ValueError as error:
        raise UsageError(f"{printable(name)} cannot be read: {error}.", "Close the quotes.") from None


def _python(given: object) -> str:
    text = _line("python", given)
    if not text or text.startswith("-"):
        raise UsageError(f"{printable(text)!r} is no interpreter.", "Write its path on that host, or python3.")
    return text


def _variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise UsageError(f"{printable(name)!r} is no name of a variable.", "Use letters, digits and _.")
    return name


def _value(name: str, given: object) -> str:
    """Return a variable's value; `true` has two spellings in the world, so that a person is to choose one."""
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        raise UsageError(f"The variable {name} has neither a text nor a number.", f'Write {name} = "…" in env.')
    return _line(name, str(given))


def _line(name: str, given: object) -> str:
    text = _typed(name, given, str)
    if "\n" in text or "\0" in text:
        raise UsageError(f"{printable(name)} has several lines.", "Write a list of lines.")
    return text


def _list(name: str, given: object) -> list[str]:
    return _typed(name, [given] if isinstance(given, str) else given, list[str])


def _count(name: str, given: object) -> int | None:
    count = _typed(name, given, int | None)  # type: ignore[arg-type]  # msgspec knows unions, `type[T]` does not
    if count is not None and not 0 <= count <= 100_000:
        raise UsageError(f"{count} {name} are not possible.", "Write how many to ask Slurm for.")
    return count


def _typed(name: str, given: object, kind: type[T]) -> T:
    try:
        return convert(given, kind)
    except msgspec.ValidationError:
        raise UsageError(f"{printable(name)} has a value of the wrong kind.", WRITE) from None


def _refuse_unknown(table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    names = list(known)
    for name in table:
        if name not in names:
            raise UsageError(f"There is no {printable(name)!r} in {where}.", f"There are: {', '.join(names)}.")
