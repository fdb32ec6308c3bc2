"""`cpugpu-tui config`: the settings and their origin, the path of the config file, the themes."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import typer

from cpugpu_tui.cli.options import Json
from cpugpu_tui.errors import print_notice

if TYPE_CHECKING:
    from cpugpu_tui.config.settings import Config
    from cpugpu_tui.workloads import Preset

commands = typer.Typer()


@commands.callback(invoke_without_command=True)
def config(context: typer.Context) -> None:
    """Show the settings and where each was set.

    Flags override environment variables. Both override the config file.
    """
    if context.invoked_subcommand is None:
        show(json=False)


@commands.command()
def show(json: Json = False) -> None:
    """Print each setting and preset with its value and origin."""
    from cpugpu_tui.cli.output.json_lines import print_json
    from cpugpu_tui.cli.output.table_style import add_columns, console, new_table, plain
    from cpugpu_tui.config import config
    from cpugpu_tui.config.settings import KEYS, origin, resolved
    from cpugpu_tui.ui.key_overrides import keymap_of

    found = config.load()
    keymap = keymap_of(found.keys).keys
    settings = resolved(found, os.environ)
    if json:
        for name, setting in settings.items():
            print_json({"key": name, "value": setting.value, "origin": setting.origin})
        for preset in found.presets:
            print_json({"preset": preset.name, **_preset_data(preset), "origin": _preset_origin(found, preset)})
        lines = {line.command: origin(line.line) for line in found.keys}
        for command, keys in keymap.items():
            print_json({"command": command, "keys": list(keys), "origin": lines.get(command, "default")})
        return
    table = new_table()
    add_columns(table, "key", "value", "set by", "what")
    for key in KEYS:
        setting = settings[key.name]
        value = key.default if setting.value is None else _value_text(setting.value)
        table.add_row(*map(plain, (key.name, value, setting.origin, key.summary)))
    out = console()
    out.print(table)
    if found.presets:
        out.print(_presets_table(found))
    if found.keys:
        out.print(_keys_table(found, keymap))
    out.print(f"Order of precedence: flag, environment variable, {config.path()}, default.", soft_wrap=True)


@commands.command("path")
def print_path() -> None:
    """Print the path of the config file, even if it does not exist."""
    from cpugpu_tui.cli.output.table_style import tell
    from cpugpu_tui.config import config

    # Unescaped into a pipe, so that a script can open it.
    (tell if sys.stdout.isatty() else print)(str(config.path()))


@commands.command()
def themes(json: Json = False) -> None:
    """List the themes: your own, the built-in ones and those of Textual."""
    from cpugpu_tui.cli.output.json_lines import print_json
    from cpugpu_tui.cli.output.table_style import add_columns, console, new_table, plain
    from cpugpu_tui.config.paths import config_dir
    from cpugpu_tui.machine.text import printable
    from cpugpu_tui.ui.themes import all_themes

    rows, broken = all_themes(config_dir() / "themes")
    if json:
        for name, brightness, origin in rows:
            print_json({"theme": name, "brightness": brightness, "origin": origin})
    else:
        table = new_table()
        add_columns(table, "theme", "brightness", "from")
        for row in rows:
            table.add_row(*map(plain, row))
        console().print(table)
    for sentence in broken:
        print_notice(f"cpugpu-tui: {printable(sentence)}")


def _keys_table(found: Config, keymap: Mapping[str, Sequence[str]]) -> object:
    """Return a table of the app's commands whose keys the config file sets."""
    from cpugpu_tui.cli.output.table_style import add_columns, new_table, plain
    from cpugpu_tui.config.settings import origin

    table = new_table()
    add_columns(table, "command of the app", "keys", "set by")
    for line in found.keys:
        table.add_row(*map(plain, (line.command, ", ".join(keymap[line.command]), origin(line.line))))
    return table


def _presets_table(found: Config) -> object:
    """Return a table of the presets in the config file."""
    from cpugpu_tui.cli.output.table_style import add_columns, new_table, plain

    table = new_table()
    add_columns(table, "preset", "workload", "sizes", "dtypes", "threads", "variants", "set by")
    for preset in found.presets:
        data = _preset_data(preset)
        cells = [_value_text(data[name]) for name in ("workload", "sizes", "dtypes", "threads", "variants")]
        table.add_row(*map(plain, (preset.name, *cells, _preset_origin(found, preset))))
    return table


def _preset_data(preset: Preset) -> dict[str, object]:
    """Return a preset in the form of the config file."""
    (part,) = preset.parts
    return {
        "workload": part.workload, "sizes": list(part.sizes), "dtypes": list(preset.dtypes or ("float32",)),
        "threads": [count or "all" for count in preset.threads or (0,)], "variants": list(part.variants),
    }  # fmt: skip


def _preset_origin(found: Config, preset: Preset) -> str:
    """Return the file and line that define a preset."""
    from cpugpu_tui.config.settings import FILE_NAME

    line = found.lines.get(f"presets.{preset.name}")
    return FILE_NAME + (f" line {line}" if line else "")


def _value_text(value: object) -> str:
    """Return a value as printable text. Environment variables may hold control characters."""
    from cpugpu_tui.machine.text import printable

    parts = [str(part) for part in value] if isinstance(value, (list, tuple)) else [str(value)]
    shown = parts if len(parts) <= 8 else [*parts[:3], "...", parts[-1]]
    return printable(", ".join(shown))
