"""The config file, read and checked: every complaint is one sentence with the line."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import tomllib

from cpugpu_tui.config import toml
from cpugpu_tui.config.converting import convert
from cpugpu_tui.config.parsing import check_device, parse_sizes, parse_threads
from cpugpu_tui.config.settings import KEYS, Config, Key, KeyLine, Value
from cpugpu_tui.errors import UsageError
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import DTYPES
from cpugpu_tui.telemetry.files import read_at_most
from cpugpu_tui.workloads import PRESETS, Part, Preset, catalogue
from cpugpu_tui.workloads.loading import NAME

T = TypeVar("T")

PRESET_KEYS = ("workload", "sizes", "dtypes", "threads", "variants", "summary")
MOST_BYTES = 1_000_000
"""A larger file is no config of ours."""

WRITE = "Mend the file; `cpugpu-tui config show` says what holds."


class _File:
    """The text of a config file, and complaints about it."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self._lines = text.splitlines()

    def line_of(self, key: str, table: tuple[str, ...] = ()) -> int | None:
        """Return the line of a key in a table, of the table's head for an empty key; None where it is not found."""
        at: tuple[str, ...] = ()
        for number, line in enumerate(self._lines, 1):
            head = re.match(r"\s*\[([^\[\]]+)\]", line)
            if head is not None:
                at = _dotted(head[1])
                if not key and at == table:
                    return number
            name = re.match(r"\s*([^=#\[]+?)\s*=", line)
            if key and name is not None and (*at, *_dotted(name[1])) == (*table, key):
                return number
        return self.line_of("", table) if key and table else None

    def where(self, key: str, table: tuple[str, ...]) -> str:
        """Return file and line."""
        line = self.line_of(key, table)
        return f"{self.path}, line {line}" if line else str(self.path)

    def wrong(self, message: str, remedy: str, key: str = "", table: tuple[str, ...] = ()) -> UsageError:
        """Return a complaint that names file and line."""
        return UsageError(f"{self.where(key, table)}: {message}", remedy)


def _dotted(text: str) -> tuple[str, ...]:
    """Return the parts of a TOML name, `a."b.c"` → (a, b.c); nothing where it is none."""
    try:
        data: Any = toml.loads(f"[{text}]")
    except tomllib.TOMLDecodeError:
        return ()
    parts = []
    while data:
        ((name, data),) = data.items()
        parts.append(name)
    return tuple(parts)


def read(path: Path) -> Config:
    """Return what the file says.

    Raises:
        UsageError: it cannot be read, is no TOML, or has a wrong key or value; the sentence names the line.
    """
    try:
        data_bytes = read_at_most(path, MOST_BYTES)
        text = data_bytes.decode("utf-8-sig") if len(data_bytes) <= MOST_BYTES else ""
    except OSError as error:
        raise UsageError(f"The config {path} cannot be read: {error.strerror}.", "Mend its permissions.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"The config {path} is no UTF-8 text.", "Write it anew, or take it away.") from error
    if len(data_bytes) > MOST_BYTES:
        raise UsageError(f"The config {path} is larger than {MOST_BYTES:,} bytes.", "Write it anew, or take it away.")
    file = _File(path, text)
    try:
        data = toml.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _no_toml(path, error) from None
    tables, key_table = data.pop("presets", {}), data.pop("keys", {})
    _refuse_unknown(file, data, [*(key.name for key in KEYS), "keys", "presets"], ())
    values = {key.name: _value(file, key, data[key.name]) for key in KEYS if key.name in data}
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise file.wrong("presets are tables.", "Write [presets.NAME] and below it workload and sizes.", "presets")
    presets = tuple(_preset(file, name, table) for name, table in tables.items())
    lines = {name: file.line_of(name) for name in values}
    lines |= {f"presets.{name}": file.line_of("", ("presets", name)) for name in tables}
    return Config(values, lines, presets, _key_lines(file, key_table))


def _key_lines(file: _File, table: object) -> tuple[KeyLine, ...]:
    """Return what the table `[keys]` says; whether there are such commands and keys is for the app to say."""
    if not isinstance(table, dict):
        raise file.wrong("keys is a table.", 'Write [keys] and below it lines like run = "f5".', "keys")
    found, at = [], ("keys",)
    for name, given in table.items():
        listed = [given] if isinstance(given, str) else given
        texts = _typed(file, printable(name), listed, list[str], "a key in quotes, or a list of such", at)
        if not texts or not all(texts):
            raise file.wrong(f"{printable(name)} has no key.", "Write a key, or take the line away.", name, at)
        found.append(KeyLine(name, tuple(texts), file.where(name, at), file.line_of(name, at)))
    return tuple(found)


def _no_toml(path: Path, error: tomllib.TOMLDecodeError) -> UsageError:
    said = re.fullmatch(r"(.*) \(at line (\d+), column \d+\)", str(error), re.DOTALL)
    where, what = (f"{path}, line {said[2]}", said[1]) if said else (str(path), str(error).split(" (at ")[0])
    return UsageError(f"{where}: This is no TOML: {printable(what)}.", 'Write lines like theme = "slate".')


def _refuse_unknown(file: _File, data: dict[str, Any], known: Iterable[str], table: tuple[str, ...]) -> None:
    names = list(known)
    for name in data:
        if name not in names:
            like = difflib.get_close_matches(name, names, 1)
            place = f"in [{'.'.join(table)}]" if table else "here"
            remedy = f"Did you mean {like[0]}?" if like else f"There are: {', '.join(names)}."
            raise file.wrong(f"There is no {printable(name)!r} {place}.", remedy, name, table)


def _value(file: _File, key: Key, given: object) -> Value:
    if key.is_flag:
        return _typed(file, key.name, given, bool, "true or false")
    if key.is_number:
        number = _typed(file, key.name, given, float, "a number")
        if not 0 < number < 1e9:
            raise file.wrong(f"{key.name} of {number:g} is not possible.", "Write a number above 0.", key.name)
        return number
    if not key.is_list:
        text = _typed(file, key.name, given, str, "text in quotes")
        if not text:
            raise file.wrong(f"{key.name} is empty.", "Write a value, or take the line away.", key.name)
        _check(file, key.name, (text,))
        return _absolute(file, text) if key.is_path else text
    texts = [given] if isinstance(given, str) else given
    listed = _typed(file, key.name, texts, list[str], "text in quotes, or a list of such")
    _check(file, key.name, listed)
    return tuple(_absolute(file, text) if key.is_path else text for text in listed)


def _check(file: _File, name: str, texts: Iterable[str]) -> None:
    for text in texts:
        if name == "worker" and text not in ("process", "thread"):
            raise file.wrong(f"There is no worker mode {printable(text)!r}.", "Write process or thread.", name)
        if name == "device":
            _at(file, name, (), partial(check_device, text))


def _absolute(file: _File, text: str) -> str:
    return os.path.normpath(os.path.join(file.path.parent, os.path.expanduser(text)))


def _typed(file: _File, name: str, given: object, kind: type[T], what: str, table: tuple[str, ...] = ()) -> T:
    try:
        return convert(given, kind)
    except msgspec.ValidationError:
        raise file.wrong(f"{name} is not {what}.", "Mend the value.", name, table) from None


def _at(file: _File, name: str, table: tuple[str, ...], parse: Callable[[], T]) -> T:
    """Return what a parser makes of a value; its complaint with file and line."""
    try:
        return parse()
    except UsageError as error:
        raise file.wrong(error.message, error.remedy, name, table) from None


def _preset(file: _File, name: str, table: dict[str, Any]) -> Preset:
    """Return a preset of the person's own."""
    at = ("presets", name)
    if not NAME.fullmatch(name):
        raise file.wrong(f"{printable(name)!r} is no name for a preset.", "Use letters, digits, dots, dashes.", "", at)
    if name in PRESETS or name in {info.name for info in catalogue()}:
        raise file.wrong(f"The name {name!r} is taken by a built-in one.", "Rename yours.", "", at)
    _refuse_unknown(file, table, PRESET_KEYS, at)
    for needed in ("workload", "sizes"):
        if needed not in table:
            raise file.wrong(f"The preset {name!r} has no {needed}.", f"Write a line {needed} = …", "", at)
    workload = _typed(file, "workload", table["workload"], str, "text in quotes", at)
    sizes = _texts(file, "sizes", table, at)
    threads = _texts(file, "threads", table, at)
    dtypes = _texts(file, "dtypes", table, at)
    for dtype in dtypes:
        if dtype not in DTYPES:
            raise file.wrong(
                f"There is no dtype {printable(dtype)!r}.", f"There are: {', '.join(DTYPES)}.", "dtypes", at
            )
    variants = _texts(file, "variants", table, at) or ("default",)
    summary = _typed(file, "summary", table.get("summary", ""), str, "text in quotes", at)
    parsed = _at(file, "sizes", at, lambda: parse_sizes(",".join(sizes)))
    part = Part(workload, parsed, variants)
    return Preset(
        name, (part,), printable(summary) or f"your own: {workload}, sizes {', '.join(sizes)}", "",
        dtypes=dtypes, threads=_at(file, "threads", at, lambda: parse_threads(",".join(threads))) if threads else (),
    )  # fmt: skip


def _texts(file: _File, name: str, table: dict[str, Any], at: tuple[str, ...]) -> tuple[str, ...]:
    """Return the parts of a value that is a number, text, or a list of either; nothing where there is none."""
    given = table.get(name, [])
    listed = given if isinstance(given, list) else [given]
    parts = _typed(file, name, listed, list[int | str], "a number, text, or a list of them", at)
    return tuple(piece.strip() for part in parts for piece in str(part).split(",") if piece.strip())
