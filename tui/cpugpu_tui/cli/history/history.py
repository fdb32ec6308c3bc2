"""`cpugpu-tui history`: saved runs as a table or JSON lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from cpugpu_tui.cli.options import Database, Json, in_range

if TYPE_CHECKING:
    from cpugpu_tui.compare.outcomes import Outcome
    from cpugpu_tui.store import RunSummary, Store

commands = typer.Typer()


@commands.callback(invoke_without_command=True)
def history(
    context: typer.Context,
    text: Annotated[
        str,
        typer.Option(
            "--filter",
            metavar="FILTER",
            help="Only runs that match, for example 'gpu:h200 dtype:bf16 n>1000'. "
            "Conditions: n>, n<, gpu:, cpu:, dtype:, name:, status:, date:, host:, tag:, baseline:. Other words are "
            "searched in name, status, machine, tags and devices.",
        ),
    ] = "",
    tag: Annotated[
        list[str] | None, typer.Option("--tag", metavar="TAG", help="Only runs with this tag. Repeatable.")
    ] = None,
    json: Json = False,
    database: Database = None,
    limit: Annotated[int, typer.Option(callback=in_range(1), metavar="COUNT", help="Maximum number of runs.")] = 20,
) -> None:
    """List saved runs, newest first."""
    if context.invoked_subcommand is not None:
        return
    import msgspec

    from cpugpu_tui.cli.history.past_runs import history_table, reading
    from cpugpu_tui.cli.output.json_lines import print_json
    from cpugpu_tui.cli.output.table_style import console, tell
    from cpugpu_tui.model.quantities import count_of, megabytes

    with reading(database) as store:
        runs = store.runs(limit, text=text, tags=tag or ())
        total, size = store.count(), store.size_bytes
        results = _results(store, runs) if runs and not json else {}
    if json:
        for run in runs:
            print_json(msgspec.to_builtins(run))
        return
    if runs:
        console().print(history_table(runs, results))
    if len(results) < len(runs):
        tell(f"Answers of the newest {len(results):,} runs only. `cpugpu-tui show RUN` tells those of the others.")
    if not total:
        tell("No runs yet. Start one with `cpugpu-tui run`.")
    elif text or tag:
        match = "matches" if len(runs) == 1 else "match"
        more = f", showing the newest {limit:,}" if len(runs) == limit else ""
        tell(f"{len(runs):,} of {count_of(total, 'run')} {match}{more}. Database: {store.path}, {megabytes(size)}.")
    else:
        newest = f"The newest {len(runs):,} of " if len(runs) < total else ""
        tell(f"{newest}{count_of(total, 'run')}. Database: {store.path}, {megabytes(size)}.")


def _results(store: Store, runs: Sequence[RunSummary]) -> dict[int, Outcome]:
    """Return the outcomes of the newest runs. Its imports take 15 ms, which an empty list does without."""
    from cpugpu_tui.compare.outcomes import affordable, outcomes

    return outcomes(store, affordable(runs))
