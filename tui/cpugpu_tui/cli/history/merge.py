"""`cpugpu-tui history merge`: copy the runs of another database into the history."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cpugpu_tui.cli.options import Database, Json

commands = typer.Typer()


@commands.command()
def merge(
    other: Annotated[Path, typer.Argument(metavar="OTHER.db", help="Database to copy from. It is not changed.")],
    json: Json = False,
    database: Database = None,
) -> None:
    """Copy the runs of another database into this history.

    Runs that are already here are not changed.
    """
    import msgspec

    from cpugpu_tui.cli.history.past_runs import writing
    from cpugpu_tui.cli.output.json_lines import print_json
    from cpugpu_tui.cli.output.table_style import tell
    from cpugpu_tui.model.quantities import count_of
    from cpugpu_tui.store.maintenance import merge as merge_runs

    with writing(database, keep_aside=True) as store:
        merged = merge_runs(store, other)
    if json:
        print_json(msgspec.to_builtins(merged))
        return
    parts = [f"Added {count_of(merged.added, 'run')}"]
    parts += [f"{merged.known:,} already here"] if merged.known else []
    parts += [f"skipped {merged.running:,} still running"] if merged.running else []
    parts += [f"kept this history's baseline {name!r}" for name in merged.baselines]
    tell(f"{', '.join(parts)}.")
