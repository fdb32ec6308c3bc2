"""`cpugpu-tui rm`: deletes runs, all that are named or, if one cannot be, none."""

from __future__ import annotations

from typing import Annotated

import typer

from cpugpu_tui.cli.options import Database
from cpugpu_tui.errors import UsageError

commands = typer.Typer()


@commands.command()
def rm(
    run_names: Annotated[list[str], typer.Argument(metavar="RUN...", help="Numbers, latest, or beginnings of ids.")],
    force: Annotated[
        bool, typer.Option("--force", help="A baseline's too, and one whose end was never written.")
    ] = False,
    database: Database = None,
) -> None:
    """Delete runs, with all that was measured in them."""
    from cpugpu_tui.cli.history.past_runs import writing
    from cpugpu_tui.cli.output.table_style import tell

    with writing(database) as store:
        run_ids = list(dict.fromkeys(store.find(name) for name in run_names))
        runs = [store.summary(run_id) for run_id in run_ids]
        for run in runs:
            if run.baselines and not force:
                raise UsageError(
                    f"Run {run.number} is of the baseline {run.baselines[0]!r}.",
                    "Name another series as the baseline first, or delete it all the same with --force.",
                )
        store.delete_all(run_ids, force=force)
    tell(f"Deleted {'run' if len(runs) == 1 else 'runs'} {', '.join(str(run.number) for run in runs)}.")
