"""`cpugpu-tui config`: the settings and their origin, the path of the config file, the themes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import typer

from cpugpu_tui.cli import options as opt
from cpugpu_tui.cli.output.printing import print_json, tell
from cpugpu_tui.config import config_path, load_config
from cpugpu_tui.config.paths import config_dir
from cpugpu_tui.config.settings import KEYS, Setting, origin, resolved
from cpugpu_tui.errors import UsageError, print_notice
from cpugpu_tui.machine.text import printable

if TYPE_CHECKING:
    from cpugpu_tui.workloads import Preset

commands = typer.Typer()
config_commands = typer.Typer()
commands.add_typer(config_commands, name="config")


@opt.takes(config_commands.callback(invoke_without_command=True), opt.Given, "")
def config(given: opt.Given) -> None:
    """Show the settings and where each was set.

    Flags override environment variables. Both override the config file.
    """
    if given.context.invoked_subcommand is None:
        show(given)


@opt.takes(config_commands.command(), opt.Given, "json")
def show(given: opt.Given) -> None:
    """Print each setting and preset with its value and origin."""
    from cpugpu_tui.cli.output.table_style import console, table_of
    from cpugpu_tui.ui.keys import keymap_of

    found = load_config()
    keymap = keymap_of(found.keys).keys
    settings = resolved(found, os.environ)
    for sentence in _wrong_values(settings):
        print_notice(f"cpugpu-tui: {printable(sentence)}")
    origins = {preset.name: origin(found.lines.get(f"presets.{preset.name}")) for preset in found.presets}
    if given.json:
        for name, setting in settings.items():
            print_json({"key": name, "value": setting.value, "origin": setting.origin})
        for preset in found.presets:
            print_json({"preset": preset.name, **_preset_data(preset), "origin": origins[preset.name]})
        lines = {line.command: origin(line.line) for line in found.keys}
        for command, keys in keymap.items():
            print_json({"command": command, "keys": list(keys), "origin": lines.get(command, "default")})
        return
    values = {name: setting.value for name, setting in settings.items() if setting.value is not None}
    table = [
        (key.name, _value_text(values.get(key.name, key.default)), settings[key.name].origin, key.summary)
        for key in KEYS
    ]
    out = console()
    out.print(table_of(("key", "value", "set by", "what"), table))
    if found.presets:
        heads = ("workload", "sizes", "dtypes", "threads", "variants")
        data = [(preset, _preset_data(preset)) for preset in found.presets]
        presets = [
            (preset.name, *(_value_text(each[head]) for head in heads), origins[preset.name]) for preset, each in data
        ]
        out.print(table_of(("preset", *heads, "set by"), presets))
    if found.keys:
        bound = [(line.command, ", ".join(keymap[line.command]), origin(line.line)) for line in found.keys]
        out.print(table_of(("command of the app", "keys", "set by"), bound))
    out.print(f"Order of precedence: flag, environment variable, {config_path()}, default.", soft_wrap=True)


@config_commands.command("path")
def print_path() -> None:
    """Print the path of the config file, even if it does not exist."""
    # Unescaped into a pipe, so that a script can open it.
    (tell if sys.stdout.isatty() else print)(str(config_path()))


@opt.takes(config_commands.command(), opt.Given, "json")
def themes(given: opt.Given) -> None:
    """List the themes: your own, the built-in ones and those of Textual."""
    from cpugpu_tui.cli.output.table_style import console, table_of
    from cpugpu_tui.ui.themes import all_themes

    rows, broken = all_themes(config_dir() / "themes")
    if given.json:
        for name, brightness, origin in rows:
            print_json({"theme": name, "brightness": brightness, "origin": origin})
    else:
        console().print(table_of(("theme", "brightness", "from"), rows))
    for sentence in broken:
        print_notice(f"cpugpu-tui: {printable(sentence)}")


def _wrong_values(settings: Mapping[str, Setting]) -> Iterator[str]:
    """Yield a sentence on each value that a command would refuse: this page is where people look for it."""
    from cpugpu_tui.config import parsing
    from cpugpu_tui.ui.themes import require_theme

    for name, (value, where) in settings.items():
        try:
            if name == "theme" and value is not None:
                require_theme(str(value), config_dir() / "themes")
            elif value is not None:
                parsing.check(name, value)
        except UsageError as error:
            yield f"{where}: {error}"


def _preset_data(preset: Preset) -> dict[str, object]:
    """Return a preset in the form of the config file."""
    (part,) = preset.parts
    return {
        "workload": part.workload, "sizes": list(part.sizes), "dtypes": list(preset.dtypes or ("float32",)),
        "threads": [count or "all" for count in preset.threads or (0,)], "variants": list(part.variants),
    }  # fmt: skip


def _value_text(value: object) -> str:
    """Return a value as printable text. Environment variables may hold control characters."""
    parts = [str(part) for part in value] if isinstance(value, (list, tuple)) else [str(value)]
    shown = parts if len(parts) <= 8 else [*parts[:3], "...", parts[-1]]
    return printable(", ".join(shown))
