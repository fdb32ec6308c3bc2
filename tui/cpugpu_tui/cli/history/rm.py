"""`cpugpu-tui rm`: delete all named runs, or none if one of them cannot be deleted."""

from __future__ import annotations

from typing import Annotated

import typer

from cpugpu_tui.cli.options import Database
from cpugpu_tui.errors import UsageError

commands = typer.Typer()


@commands.command()
def rm(
    run_names: Annotated[
        list[str], typer.Argument(metavar="RUN", help="Run numbers, `latest`, or the first characters of run ids.")
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Also delete runs of a baseline, and runs that seem to be still running.")
    ] = False,
    database: Database = None,
) -> None:
    """Delete runs and their results from the history."""
    from cpugpu_tui.cli.history.past_runs import writing
    from cpugpu_tui.cli.output.table_style import tell

    with writing(database) as store:
        run_ids = list(dict.fromkeys(store.find(name) for name in run_names))
        runs = [store.summary(run_id) for run_id in run_ids]
        for run in runs:
            if run.baselines and not force:
                raise UsageError(
                    f"Run {run.number} belongs to the baseline {run.baselines[0]!r}.",
                    "Give this name to another series first, or add --force.",
                )
        store.delete_all(run_ids, force=force)
    tell(f"Deleted {'run' if len(runs) == 1 else 'runs'} {', '.join(str(run.number) for run in runs)}.")
