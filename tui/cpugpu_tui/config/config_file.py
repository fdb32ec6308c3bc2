"""Read and check the config file."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from cpugpu_tui.config.parsing import check_device, full_dtype, parse_bands, parse_threads
from cpugpu_tui.config.settings import KEYS, Config, Key, KeyLine, Value
from cpugpu_tui.config.sizes import parse_sizes
from cpugpu_tui.config.validation import Text, Texts, TomlFile
from cpugpu_tui.errors import did_you_mean, home_path
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import DTYPES
from cpugpu_tui.workloads import PRESETS, Part, Preset, catalogue
from cpugpu_tui.workloads.own_files import NAME

Seconds = Annotated[float, Meta(gt=0, lt=1e9, description="a number above 0")]
Worker = Annotated[Literal["process", "thread"], Meta(description="process or thread")]
Keys = Annotated[
    Annotated[str, Meta(min_length=1)] | Annotated[list[Annotated[str, Meta(min_length=1)]], Meta(min_length=1)],
    Meta(description="a key in quotes, or a list of keys"),
]
Parts = Annotated[int | str | list[int | str], Meta(description="a number, text, or a list of both")]


class PresetTable(Struct):
    """A table `[presets.NAME]`."""

    workload: Text
    sizes: Parts
    dtypes: Parts = ""
    threads: Parts = ""
    variants: Parts = ""
    summary: str = ""


def read(path: Path) -> Config:
    """Return the config in a file.

    Raises:
        TomlError: the file cannot be read, is not TOML, or has an invalid key or value.
    """
    file = TomlFile(path)
    types = {key.name: _type(key) for key in KEYS} | {"keys": dict[str, Keys], "presets": dict[str, Any]}
    found = file.values(types, file.data)
    key_table, tables = found.pop("keys", {}), found.pop("presets", {})
    values = {key.name: _value(file, key, found[key.name]) for key in KEYS if key.name in found}
    presets = tuple(_preset(file, name, table) for name, table in tables.items())
    lines = {name: file.line_of(name) for name in values}
    lines |= {f"presets.{name}": file.line_of("presets", name) for name in tables}
    return Config(values, lines, presets, tuple(_key_line(file, name, keys) for name, keys in key_table.items()))


def _type(key: Key) -> Any:
    if key.name == "worker":
        return Worker
    if key.is_flag:
        return bool
    if key.is_number:
        return Seconds
    return Texts if key.is_list else Text


def _value(file: TomlFile, key: Key, given: Any) -> Value:
    """Return a value in its final form: lists as tuples, paths absolute."""
    if "\0" in "".join(part for part in (given if isinstance(given, list) else [given]) if isinstance(part, str)):
        raise file.error((key.name,), f"{key.name} holds a NUL character, which no name may.", "Remove \\u0000.")
    if key.name == "band":
        file.parsed((key.name,), partial(parse_bands, given, {}))
    if not key.is_list and not key.is_path:
        return given  # type: ignore[no-any-return]  # `TomlFile.values` checked its type
    texts = [given] if isinstance(given, str) else given
    if key.name == "device":
        for text in texts:
            file.parsed((key.name,), partial(check_device, text))
    if key.is_path:
        texts = [os.path.normpath(os.path.join(file.path.parent, home_path(text))) for text in texts]
    return tuple(texts) if key.is_list else texts[0]


def _key_line(file: TomlFile, name: str, keys: str | list[str]) -> KeyLine:
    """Return a line of the table `[keys]`. The app checks that its command and keys exist."""
    line = file.line_of("keys", name)
    where = f"{file.path}, line {line}" if line else str(file.path)
    return KeyLine(name, (keys,) if isinstance(keys, str) else tuple(keys), where, line)


def _preset(file: TomlFile, name: str, given: object) -> Preset:
    """Return the preset of a table `[presets.NAME]`."""
    at = ("presets", name)
    if not NAME.fullmatch(name):
        raise file.error(at, f"Invalid preset name {printable(name)!r}.", "Use letters, digits, dots and dashes.")
    if name in PRESETS or name in {info.name for info in catalogue()}:
        raise file.error(at, f"{name!r} is a built-in preset or workload.", "Rename your preset.")
    table = file.table(PresetTable, given, at)
    threads = _texts(table.threads)
    given_sizes = table.sizes if isinstance(table.sizes, list) else [table.sizes]
    sizes = ", ".join(map(str, given_sizes))
    dtypes = tuple(dict.fromkeys(map(full_dtype, _texts(table.dtypes))))
    for dtype in dtypes:
        if dtype not in DTYPES:
            raise file.error((*at, "dtypes"), f"Unknown dtype {printable(dtype)!r}.", did_you_mean(dtype, DTYPES))
    part = Part(
        table.workload, file.parsed((*at, "sizes"), lambda: parse_sizes(sizes)), _texts(table.variants) or ("default",)
    )
    return Preset(
        name, (part,), printable(table.summary) or f"your preset: {table.workload}, sizes {sizes}",
        dtypes=dtypes,
        threads=file.parsed((*at, "threads"), lambda: parse_threads(",".join(threads))) if threads else (),
    )  # fmt: skip


def _texts(given: int | str | list[int | str]) -> tuple[str, ...]:
    """Return the comma-separated parts of a number, a text, or a list of both."""
    parts = given if isinstance(given, list) else [given]
    return tuple(piece.strip() for part in parts for piece in str(part).split(",") if piece.strip())
