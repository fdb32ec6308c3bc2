"""`cpugpu-tui config`: what holds, and who set it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from cpugpu_tui.cli.listing import print_json
from cpugpu_tui.cli.table_style import tell
from cpugpu_tui.cli.tables import add_columns, console, new_table, plain
from cpugpu_tui.config import config
from cpugpu_tui.config.settings import FILE_NAME, KEYS, Config, origin, resolved
from cpugpu_tui.errors import EXIT_OK, print_notice
from cpugpu_tui.machine.text import printable
from cpugpu_tui.workloads import Preset


def print_path() -> int:
    """Print where the config is, also when there is none yet, or a broken one."""
    # Raw into a pipe: a script wants to open it.
    (tell if sys.stdout.isatty() else print)(str(config.path()))
    return EXIT_OK


def print_config(found: Config, keymap: Mapping[str, Sequence[str]], *, as_json: bool) -> int:
    """Print each key with its value and its origin, then the presets, then the app's keys (all of them as JSON).

    `keymap` has the keys in force by id of the command: only the app knows its commands.
    """
    settings = resolved(found, os.environ)
    if as_json:
        for name, setting in settings.items():
            print_json({"key": name, "value": setting.value, "origin": setting.origin})
        for preset in found.presets:
            print_json({"preset": preset.name, **preset_data(preset), "origin": preset_origin(found, preset)})
        lines = {line.command: origin(line.line) for line in found.keys}
        for command, keys in keymap.items():
            print_json({"command": command, "keys": list(keys), "origin": lines.get(command, "default")})
        return EXIT_OK
    table = new_table()
    add_columns(table, "key", "value", "set by", "what")
    for key in KEYS:
        setting = settings[key.name]
        value = key.default if setting.value is None else value_text(setting.value)
        table.add_row(*map(plain, (key.name, value, setting.origin, key.summary)))
    out = console()
    out.print(table)
    if found.presets:
        out.print(presets_table(found))
    if found.keys:
        out.print(keys_table(found, keymap))
    out.print(f"A flag stands above the environment, the environment above {config.path()}.", soft_wrap=True)
    return EXIT_OK


def keys_table(found: Config, keymap: Mapping[str, Sequence[str]]) -> object:
    """Return a row for each command of the app whose keys the person chose."""
    table = new_table()
    add_columns(table, "command of the app", "keys", "set by")
    for line in found.keys:
        table.add_row(*map(plain, (line.command, ", ".join(keymap[line.command]), origin(line.line))))
    return table


def print_themes(rows: Sequence[tuple[str, str, str]], broken: Sequence[str], *, as_json: bool) -> int:
    """Print name, brightness and origin of each theme; on stderr the files that are left out."""
    if as_json:
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
    return EXIT_OK


def presets_table(found: Config) -> object:
    """Return a row for each preset of the person's own."""
    table = new_table()
    add_columns(table, "preset", "workload", "sizes", "dtypes", "threads", "variants", "set by")
    for preset in found.presets:
        data = preset_data(preset)
        cells = [value_text(data[name]) for name in ("workload", "sizes", "dtypes", "threads", "variants")]
        table.add_row(*map(plain, (preset.name, *cells, preset_origin(found, preset))))
    return table


def preset_data(preset: Preset) -> dict[str, object]:
    """Return a preset as the file has it."""
    (part,) = preset.parts
    return {
        "workload": part.workload,
        "sizes": list(part.sizes),
        "dtypes": list(preset.dtypes or ("float32",)),
        "threads": [count or "all" for count in preset.threads or (0,)],
        "variants": list(part.variants),
    }


def preset_origin(found: Config, preset: Preset) -> str:
    """Return where a preset stands."""
    line = found.lines.get(f"presets.{preset.name}")
    return FILE_NAME + (f" line {line}" if line else "")


def value_text(value: object) -> str:
    """Return a value in words: what an environment holds is no text of ours."""
    parts = [str(part) for part in value] if isinstance(value, (list, tuple)) else [str(value)]
    shown = parts if len(parts) <= 8 else [*parts[:3], "...", parts[-1]]
    return printable(", ".join(shown))
