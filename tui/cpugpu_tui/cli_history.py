"""The commands `history` and `show`: short bodies that import what they need."""

from __future__ import annotations

from typing import Annotated

import typer

from cpugpu_tui.command_options import Database, Json, RunName

commands = typer.Typer()
history_commands = typer.Typer()
commands.add_typer(history_commands, name="history")


@history_commands.callback(invoke_without_command=True)
def history(
    context: typer.Context,
    json: Json = False,
    database: Database = None,
    limit: Annotated[int, typer.Option(min=1, help="How many runs.")] = 20,
) -> None:
    """List past runs, newest first."""
    if context.invoked_subcommand is None:
        from cpugpu_tui.cli.listing import print_history

        print_history(database, limit, as_json=json)


@commands.command()
def show(run_name: RunName = "latest", json: Json = False, database: Database = None) -> None:
    """Print the table of a past run (or its events, with --json)."""
    from cpugpu_tui.cli.listing import print_run

    print_run(run_name, database, as_json=json)
