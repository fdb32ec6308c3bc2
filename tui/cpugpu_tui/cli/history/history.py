"""`cpugpu-tui history`: past runs as a table or as JSON lines."""

from __future__ import annotations

from typing import Annotated

import typer

from cpugpu_tui.cli.options import Database, Json

commands = typer.Typer()


@commands.callback(invoke_without_command=True)
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
    if context.invoked_subcommand is not None:
        return
    import msgspec

    from cpugpu_tui.cli.history.past_runs import history_table, megabytes, reading, runs_text
    from cpugpu_tui.cli.output.json_lines import print_json
    from cpugpu_tui.cli.output.table_style import console, tell

    with reading(database) as store:
        runs = store.runs(limit, text=text, tags=tag or ())
        total, size = store.count(), store.size_bytes
    if json:
        for run in runs:
            print_json(msgspec.to_builtins(run))
        return
    if runs:
        console().print(history_table(runs))
    if not total:
        tell("No runs yet. `cpugpu-tui run` makes the first.")
    elif text or tag:
        match = "matches" if len(runs) == 1 else "match"
        more = f", the {limit:,} newest are shown" if len(runs) == limit else ""
        tell(f"{len(runs):,} of {runs_text(total)} {match}{more}; {store.path} has {megabytes(size)}.")
    else:
        newest = f"The {len(runs):,} newest of " if len(runs) < total else ""
        tell(f"{newest}{runs_text(total)}; {store.path} has {megabytes(size)}.")
