"""Commands of `config` and `new-workload`: short bodies that import what they need."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from cpugpu_tui.command_options import Json

commands = typer.Typer()
config_commands = typer.Typer()
commands.add_typer(config_commands, name="config")


@config_commands.callback(invoke_without_command=True)
def config(context: typer.Context) -> None:
    """Say what is set, and by whom: flag, environment, config file or default."""
    if context.invoked_subcommand is None:
        show(json=False)


@config_commands.command()
def show(json: Json = False) -> None:
    """Print each key with its value and who set it, and your own presets."""
    from cpugpu_tui.cli.config import print_config
    from cpugpu_tui.config.config import load
    from cpugpu_tui.ui.custom_keys import keymap_of

    found = load()
    raise typer.Exit(print_config(found, keymap_of(found.keys).keys, as_json=json))


@config_commands.command("path")
def print_path() -> None:
    """Print where the config file is, or would be."""
    from cpugpu_tui.cli.config import print_path as say

    raise typer.Exit(say())


@config_commands.command()
def themes(json: Json = False) -> None:
    """List the themes that `theme` can name: your own, those that come with this, Textual's."""
    from cpugpu_tui.cli.config import print_themes
    from cpugpu_tui.config.paths import config_dir
    from cpugpu_tui.ui.themes import all_themes

    raise typer.Exit(print_themes(*all_themes(config_dir() / "themes"), as_json=json))


@commands.command("new-workload")
def new_workload(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the workload.")],
    out: Annotated[Path | None, typer.Option(help="File or folder to write to (default: NAME.py here).")] = None,
) -> None:
    """Write a workload file of your own to start from; it runs as it stands."""
    from cpugpu_tui.cli.new_workload import write_workload

    raise typer.Exit(write_workload(name, out))


def defaults(app: typer.Typer, arguments: Sequence[str]) -> dict[str, Any]:
    """Return what the config file says, as every command's defaults: a flag or the environment stands above them.

    Whoever asks for help, or where the config is, is not stopped by a broken one.

    Raises:
        UsageError: the config is wrong.
    """
    if arguments[:1] == ["config"] or {"-h", "--help", "--version"} & set(arguments) or _is_completion():
        return {}
    from cpugpu_tui.config.config import load

    config = load()
    if config.keys:
        from cpugpu_tui.ui.custom_keys import keymap_of

        keymap_of(config.keys)
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in config.values.items()}
    found = _for_each(app, values) if values else {}
    # `run` takes several interpreters, and a variable of several words would be split where a path has a space.
    python = os.environ.get("CPUGPU_PYTHON") or values.get("python")
    return {**found, "run": {**values, "python": [python]}} if python else found


def _is_completion() -> bool:
    return any(name.endswith("_COMPLETE") for name in os.environ)


def _for_each(part: typer.Typer, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values for the commands of a part, and for those of the parts below it."""
    found = dict(values)
    for command in part.registered_commands:
        function = command.callback.__name__.replace("_", "-") if command.callback is not None else ""
        found[command.name or function] = values
    for group in part.registered_groups:
        if group.typer_instance is not None:
            inner = _for_each(group.typer_instance, values)
            found.update({group.name: inner} if isinstance(group.name, str) else inner)
    return found
