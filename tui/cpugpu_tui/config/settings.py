"""What can be set once instead of being typed: flag, then environment, then the config file, then our default."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cpugpu_tui.workloads import Preset

Value = bool | str | float | tuple[str, ...]

FILE_NAME = "config.toml"


@dataclass(frozen=True)
class Key:
    """Something that can be set."""

    name: str
    """In the file; the option is the same with dashes, except for `--db`."""
    variable: str
    """Of the environment."""
    summary: str
    default: str = ""
    """What holds when nobody set it, in words."""
    is_path: bool = False
    """Whether `~` is expanded, and in the file the value is relative to the file's folder."""
    is_list: bool = False
    """Whether there may be several."""
    is_number: bool = False
    is_flag: bool = False
    """Whether it is true or false."""


KEYS = (
    Key("theme", "CPUGPU_THEME", "theme of the app", "slate"),
    Key("database", "CPUGPU_DB", "file of the history", "in the data folder", is_path=True),
    Key("python", "CPUGPU_PYTHON", "interpreter with torch that runs the kernels, or auto", "this one"),
    Key("worker", "CPUGPU_WORKER", "process or thread", "process"),
    Key("device", "CPUGPU_DEVICE", "devices to time", "auto", is_list=True),
    Key("mnist", "CPUGPU_MNIST", "folder of your own MNIST files", "drawn digits", is_path=True),
    Key("workloads", "CPUGPU_WORKLOADS", "files of your own workloads", "none", is_path=True, is_list=True),
    Key("case_timeout", "CPUGPU_CASE_TIMEOUT", "seconds a case may go without an answer", "no limit", is_number=True),
    Key("ceilings", "CPUGPU_CEILINGS", "measure peak rates after a machine's first run (3 s)", "true", is_flag=True),
)
"""All keys, as `config show` lists them. Sizes, dtypes and threads belong to presets, which bear a name."""


@dataclass(frozen=True)
class Setting:
    """A value and who set it."""

    value: Value | None
    """None where nobody did."""
    origin: str
    """`environment CPUGPU_DB`, `config.toml line 3`, `default`."""


@dataclass(frozen=True)
class KeyLine:
    """A line of the table `[keys]`: what a command of the app is to be called by. Only the app knows its commands."""

    command: str
    keys: tuple[str, ...]
    where: str
    """File and line, for complaints."""
    line: int | None
    """None where it was not found."""


@dataclass(frozen=True)
class Config:
    """What a config file says."""

    values: Mapping[str, Value]
    """By the name of the key; paths are absolute."""
    lines: Mapping[str, int | None]
    """Where each key and, as `presets.NAME`, each preset stands."""
    presets: tuple[Preset, ...] = ()
    keys: tuple[KeyLine, ...] = ()


EMPTY = Config({}, {})


def resolved(config: Config, environ: Mapping[str, str]) -> dict[str, Setting]:
    """Return each key's value as it holds where no flag is given, and who set it."""
    found = {}
    for key in KEYS:
        text = environ.get(key.variable, "")
        if text:
            found[key.name] = Setting(from_text(key, text), f"environment {key.variable}")
        elif key.name in config.values:
            found[key.name] = Setting(config.values[key.name], origin(config.lines.get(key.name)))
        else:
            found[key.name] = Setting(None, "default")
    return found


def origin(line: int | None) -> str:
    """Return who set what stands in this line of the file."""
    return FILE_NAME + (f" line {line}" if line else "")


def from_text(key: Key, text: str) -> Value:
    """Return the value of an environment variable: several paths are divided by colons, other things by blanks."""
    if key.is_flag:
        return text.lower() not in ("0", "false", "no", "off", "f", "n")
    if key.is_list:
        return tuple(part for part in (text.split(os.pathsep) if key.is_path else text.split()) if part)
    return text
