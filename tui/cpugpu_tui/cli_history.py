"""The commands `history`, `show`, `rm` and `tag`: short bodies that import what they need."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cpugpu_tui.command_options import Database, Json, RunName

commands = typer.Typer()
history_commands = typer.Typer()
commands.add_typer(history_commands, name="history")

Force = Annotated[bool, typer.Option("--force", help="A baseline's too, and one whose end was never written.")]
# `-hot` must be a tag that goes, hence no -h here; and `-b` is not taken for an option that is unknown.
WITH_SIGNS = {"help_option_names": ["--help"], "ignore_unknown_options": True}


@history_commands.callback(invoke_without_command=True)
def history(
    context: typer.Context,
    text: Annotated[
        str, typer.Option("--filter", help="Words that are in the name, status, machine, tags or devices.")
    ] = "",
    tag: Annotated[list[str] | None, typer.Option("--tag", help="Only runs with this tag; repeatable.")] = None,
    json: Json = False,
    database: Database = None,
    limit: Annotated[int, typer.Option(min=1, help="How many runs.")] = 20,
) -> None:
    """List past runs, newest first."""
    if context.invoked_subcommand is None:
        from cpugpu_tui.cli.history import print_history

        print_history(database, limit, text=text, tags=tag or (), as_json=json)


@history_commands.command()
def prune(
    keep: Annotated[int | None, typer.Option(min=0, help="Keep this many of the newest runs.")] = None,
    older_than: Annotated[str | None, typer.Option(help="Only runs older than this: 30d, 12h, 2w.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete them; without it they are only listed.")] = False,
    json: Json = False,
    database: Database = None,
) -> None:
    """Delete old runs; those with a tag, of a baseline or running stay."""
    from cpugpu_tui.cli import history

    history.prune(database, keep, older_than, sure=yes, as_json=json)


@history_commands.command()
def merge(
    other: Annotated[Path, typer.Argument(metavar="OTHER.db", help="Database to copy from; it is only read.")],
    json: Json = False,
    database: Database = None,
) -> None:
    """Copy the runs of another database into this one; those that are here already are left as they are."""
    from cpugpu_tui.cli.history import merge_from

    merge_from(other, database, as_json=json)


@commands.command()
def show(run_name: RunName = "latest", json: Json = False, database: Database = None) -> None:
    """Print the table of a past run (or its events, with --json)."""
    from cpugpu_tui.cli.history import print_run

    print_run(run_name, database, as_json=json)


@commands.command()
def rm(
    run_names: Annotated[list[str], typer.Argument(metavar="RUN...", help="Numbers, latest, or beginnings of ids.")],
    force: Force = False,
    database: Database = None,
) -> None:
    """Delete runs, with all that was measured in them."""
    from cpugpu_tui.cli.history import remove

    remove(run_names, database, force=force)


@commands.command(context_settings=WITH_SIGNS)
def tag(
    run_name: RunName,
    changes: Annotated[list[str] | None, typer.Argument(metavar="[+WORD|-WORD]...", help="Give or take.")] = None,
    json: Json = False,
    database: Database = None,
) -> None:
    """Give a run tags and take them from it; a run with a tag is never pruned."""
    from cpugpu_tui.cli.history import change_tags

    change_tags(run_name, changes or [], database, as_json=json)
