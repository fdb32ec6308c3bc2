"""All settings. A flag overrides the environment, which overrides the config file, which overrides the default."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cpugpu_tui.workloads import Preset

Value = bool | str | float | tuple[str, ...]

FILE_NAME = "config.toml"


class Key(NamedTuple):
    """A setting."""

    name: str
    """Key in the config file. The option has the same name with dashes, except `--db`."""
    variable: str
    """Environment variable."""
    summary: str
    default: str = ""
    """The default, in words."""
    is_path: bool = False
    """Whether `~` is expanded. In the config file the path is relative to the file's folder."""
    is_list: bool = False
    """Whether it takes several values."""
    is_number: bool = False
    is_flag: bool = False
    """Whether its value is true or false."""


KEYS = (
    Key("theme", "CPUGPU_THEME", "theme of the app", "slate"),
    Key("database", "CPUGPU_DB", "database of the history", "in the data folder", is_path=True),
    Key("python", "CPUGPU_PYTHON", "interpreter with torch, or auto to search for one", "that of the app"),
    Key("worker", "CPUGPU_WORKER", "where the agent runs: process or thread", "process"),
    Key("device", "CPUGPU_DEVICE", "devices to time", "auto", is_list=True),
    Key("mnist", "CPUGPU_MNIST", "folder of your own MNIST files", "artificial digits", is_path=True),
    Key("workloads", "CPUGPU_WORKLOADS", "files of your own workloads", "none", is_path=True, is_list=True),
    Key(
        "case_timeout", "CPUGPU_CASE_TIMEOUT", "seconds without progress after which a case fails", "no limit",
        is_number=True,
    ),
    Key("band", "CPUGPU_BAND", "largest change that `compare` calls SAME", "latency=2%,kernel-time=0.5%"),
    Key("ceilings", "CPUGPU_CEILINGS", "measure peak rates after a machine's first run (3 s)", "true", is_flag=True),
    Key("mouse", "CPUGPU_MOUSE", "use the mouse in the app; without, the terminal selects text", "true", is_flag=True),
)  # fmt: skip
"""All settings, in the order of `config show`. Sizes, dtypes and threads are set by presets instead."""


class Setting(NamedTuple):
    """A value and its origin."""

    value: Value | None
    """None if it is not set anywhere."""
    origin: str
    """`environment CPUGPU_DB`, `config.toml line 3`, `default`."""


class KeyLine(NamedTuple):
    """A line of the table `[keys]`: a command of the app and its keys, which the app checks."""

    command: str
    keys: tuple[str, ...]
    where: str
    """File and line, for error messages."""
    line: int | None
    """None if it is not known."""


class Config(NamedTuple):
    """Content of a config file."""

    values: Mapping[str, Value]
    """Name of the setting → value; paths are absolute."""
    lines: Mapping[str, int | None]
    """Name of the setting, or `presets.NAME` → its line in the file."""
    presets: tuple[Preset, ...] = ()
    keys: tuple[KeyLine, ...] = ()


EMPTY = Config({}, {})


def resolved(config: Config, environ: Mapping[str, str]) -> dict[str, Setting]:
    """Return the value and origin of each setting, without flags."""
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
    """Return the origin of a value in the config file."""
    return FILE_NAME + (f" line {line}" if line else "")


def from_text(key: Key, text: str) -> Value:
    """Return the value of an environment variable. Colons separate paths; blanks separate other values."""
    if key.is_flag:
        return text.lower() not in ("0", "false", "no", "off", "f", "n")
    if key.is_list:
        return tuple(part for part in (text.split(os.pathsep) if key.is_path else text.split()) if part)
    return text
