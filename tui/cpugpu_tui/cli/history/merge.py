"""`cpugpu-tui history merge`: copies the runs of another database into the history."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cpugpu_tui.cli.options import Database, Json

commands = typer.Typer()


@commands.command()
def merge(
    other: Annotated[Path, typer.Argument(metavar="OTHER.db", help="Database to copy from; it is only read.")],
    json: Json = False,
    database: Database = None,
) -> None:
    """Copy the runs of another database into this one; those that are here already are left as they are."""
    import msgspec

    from cpugpu_tui.cli.history.past_runs import runs_text, writing
    from cpugpu_tui.cli.output.json_lines import print_json
    from cpugpu_tui.cli.output.table_style import tell
    from cpugpu_tui.store.maintenance import merge as merge_runs

    with writing(database, keep_aside=True) as store:
        merged = merge_runs(store, other)
    if json:
        print_json(msgspec.to_builtins(merged))
        return
    said = [f"{runs_text(merged.added)} added"]
    said += [f"{merged.known:,} known already"] if merged.known else []
    said += [f"{merged.running:,} still running and left out"] if merged.running else []
    said += [f"the baseline {name!r} stays what it was here" for name in merged.baselines]
    tell(f"{'; '.join(said)}.")
