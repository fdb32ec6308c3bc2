"""`cpugpu-tui history prune`: delete old runs, or list those that would be deleted."""

from __future__ import annotations

from typing import Annotated

import typer

from cpugpu_tui.cli.options import Database, Json, in_range
from cpugpu_tui.errors import UsageError

LISTED = 20
"""Maximum number of runs in the list of a dry run."""

commands = typer.Typer()


@commands.command()
def prune(
    keep: Annotated[
        int | None, typer.Option(callback=in_range(0), metavar="COUNT", help="Number of newest runs to keep.")
    ] = None,
    older_than: Annotated[
        str | None, typer.Option(metavar="AGE", help="List or delete only runs older than AGE, such as 30d, 12h or 2w.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete the runs instead of listing them.")] = False,
    json: Json = False,
    database: Database = None,
) -> None:
    """List old runs, or delete them with --yes.

    Runs are kept if they have a tag, belong to a baseline or are still running.
    """
    import time

    import msgspec

    from cpugpu_tui.cli.history.past_runs import history_table, reading, writing
    from cpugpu_tui.cli.output.json_lines import print_json
    from cpugpu_tui.cli.output.table_style import console, tell
    from cpugpu_tui.model.quantities import count_of, megabytes
    from cpugpu_tui.store.maintenance import age_ns, pruning

    if keep is None and older_than is None:
        raise UsageError("No runs selected to prune.", "Use --older-than 30d, --keep 100 or both.")
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
    spared = f" Kept: {count_of(len(found.spared), 'run')} (tagged, in a baseline or running)." if found.spared else ""
    if not found.going:
        tell(f"Nothing to delete.{spared}")
    elif yes:
        sizes = f"{store.path}: {megabytes(size)} before, {megabytes(size_after)} now"
        tell(f"Deleted {count_of(len(found.going), 'run')}. {sizes}.{spared}")
    else:
        console().print(history_table(found.going[:LISTED]))
        listed = f", {LISTED} of them listed" if len(found.going) > LISTED else ""
        tell(f"Would delete {count_of(len(found.going), 'run')}{listed}. Add --yes to delete them.{spared}")
