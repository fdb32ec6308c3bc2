"""`cpugpu-tui history prune`: deletes old runs, or says which would go."""

from __future__ import annotations

from typing import Annotated

import typer

from cpugpu_tui.cli.options import Database, Json
from cpugpu_tui.errors import UsageError

LISTED = 20
"""Runs that a dry run names one by one."""

commands = typer.Typer()


@commands.command()
def prune(
    keep: Annotated[int | None, typer.Option(min=0, help="Keep this many of the newest runs.")] = None,
    older_than: Annotated[str | None, typer.Option(help="Only runs older than this: 30d, 12h, 2w.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete them; without it they are only listed.")] = False,
    json: Json = False,
    database: Database = None,
) -> None:
    """Delete old runs; those with a tag, of a baseline or running stay."""
    import time

    import msgspec

    from cpugpu_tui.cli.history.past_runs import history_table, megabytes, reading, runs_text, writing
    from cpugpu_tui.cli.output.json_lines import print_json
    from cpugpu_tui.cli.output.table_style import console, tell
    from cpugpu_tui.store.maintenance import age_ns, pruning

    if keep is None and older_than is None:
        raise UsageError("What is old has to be said.", "Write --keep 100, or --older-than 30d, or both.")
    before = time.time_ns() - age_ns(older_than) if older_than is not None else None
    with (writing if yes else reading)(database) as store:
        found = pruning(store.runs(), keep, before)
        size = store.size_bytes
        if yes and found.going:
            store.delete_all([run.run_id for run in found.going])
            store.shrink()
        size_after = store.size_bytes
    if json:
        for run in found.going:
            print_json(msgspec.to_builtins(run))
        return
    spared = f" {runs_text(len(found.spared))} with a tag, of a baseline or running stay." if found.spared else ""
    if not found.going:
        tell(f"Nothing to delete.{spared}")
    elif yes:
        sizes = f"{store.path} has {megabytes(size_after)}, it had {megabytes(size)}"
        tell(f"Deleted {runs_text(len(found.going))}: {sizes}.{spared}")
    else:
        console().print(history_table(found.going[:LISTED]))
        more = f"{len(found.going) - LISTED:,} more and these: " if len(found.going) > LISTED else ""
        tell(f"{more}{runs_text(len(found.going))} would be deleted; add --yes to do it.{spared}")
