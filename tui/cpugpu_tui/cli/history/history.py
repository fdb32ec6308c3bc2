"""`cpugpu-tui history`: list saved runs, prune old ones, and merge another database."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cpugpu_tui.cli import options as opt
from cpugpu_tui.cli.output.printing import print_json, tell
from cpugpu_tui.errors import UsageError

if TYPE_CHECKING:
    from cpugpu_tui.render.outcomes import Outcome

LISTED = 20
"""Maximum number of runs in the list of a dry run."""

commands = typer.Typer()


class HistoryGiven(opt.Given):
    """The options of `history` and its commands."""

    text: Annotated[str, opt.option(
        "FILTER", "Only runs that match, for example 'gpu:h200 dtype:bf16 n>1000'. "
        "Conditions: n>, n<, gpu:, cpu:, dtype:, name:, status:, date:, host:, tag:, baseline:. Other words are "
        "searched in name, status, machine, tags and devices.", "--filter",
    )] = ""  # fmt: skip
    tag: Annotated[list[str] | None, opt.option("TAG", "Only runs with this tag. Repeatable.", "--tag")] = None
    limit: Annotated[int, opt.count_of("Maximum number of runs.", check=opt.in_range(1))] = 20
    keep: Annotated[int | None, opt.count_of("Number of newest runs to keep.", check=opt.in_range(0))] = None
    older_than: Annotated[str | None, opt.option(
        "AGE", "List or delete only runs older than AGE, such as 30d, 12h or 2w."
    )] = None  # fmt: skip
    yes: Annotated[bool, opt.flag("--yes", "Delete the runs instead of listing them.")] = False
    other: Annotated[Path, opt.argument("OTHER.db", "Database to copy from. It is not changed.")]


@opt.takes(commands.callback(invoke_without_command=True), HistoryGiven, "text tag json database limit")
def history(given: HistoryGiven) -> None:
    """List saved runs, newest first."""
    limit, text, tag = given.limit, given.text, given.tag
    if given.context.invoked_subcommand is not None:
        return

    from cpugpu_tui.cli.history.past_runs import history_table, reading
    from cpugpu_tui.model.quantities import count_of, megabytes

    with reading(given.database) as store:
        runs = store.runs(limit, text=text, tags=tag or ())
        total, size = store.count(), store.size_bytes
        results: dict[int, Outcome] = {}
        if runs and not given.json:
            from cpugpu_tui.render.outcomes import affordable, outcomes  # 15 ms, which an empty list does without

            results = outcomes(store, affordable(runs))
    if given.json:
        for run in runs:
            print_json(run._asdict())
        return
    if runs:
        from cpugpu_tui.cli.output.table_style import console

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


@opt.takes(commands.command(), HistoryGiven, "keep older_than yes json database")
def prune(given: HistoryGiven) -> None:
    """List old runs, or delete them with --yes.

    Runs are kept if they have a tag, belong to a baseline or are still running.
    """

    from cpugpu_tui.cli.history.past_runs import history_table, reading, writing
    from cpugpu_tui.cli.output.table_style import console
    from cpugpu_tui.model.quantities import count_of, megabytes
    from cpugpu_tui.store.maintenance import age_ns, pruning

    if given.keep is None and given.older_than is None:
        raise UsageError("No runs selected to prune.", "Use --older-than 30d, --keep 100 or both.")
    before = time.time_ns() - age_ns(given.older_than) if given.older_than is not None else None
    with (writing if given.yes else reading)(given.database) as store:
        found = pruning(store.runs(), given.keep, before)
        size = store.size_bytes
        if given.yes and found.going:
            store.delete_all([run.run_id for run in found.going])
            store.shrink()
        size_after = store.size_bytes
    if given.json:
        for run in found.going:
            print_json(run._asdict())
        return
    spared = f" Kept: {count_of(len(found.spared), 'run')} (tagged, in a baseline or running)." if found.spared else ""
    if not found.going:
        tell(f"Nothing to delete.{spared}")
    elif given.yes:
        sizes = f"{store.path}: {megabytes(size)} before, {megabytes(size_after)} now"
        tell(f"Deleted {count_of(len(found.going), 'run')}. {sizes}.{spared}")
    else:
        console().print(history_table(found.going[:LISTED]))
        listed = f", {LISTED} of them listed" if len(found.going) > LISTED else ""
        tell(f"Would delete {count_of(len(found.going), 'run')}{listed}. Add --yes to delete them.{spared}")


@opt.takes(commands.command(), HistoryGiven, "other json database")
def merge(given: HistoryGiven) -> None:
    """Copy the runs of another database into this history.

    Runs that are already here are not changed.
    """
    import msgspec

    from cpugpu_tui.cli.history.past_runs import writing
    from cpugpu_tui.model.quantities import count_of
    from cpugpu_tui.store.maintenance import merge as merge_runs

    with writing(given.database, keep_aside=True) as store:
        merged = merge_runs(store, given.other)
    if given.json:
        print_json(msgspec.to_builtins(merged))
        return
    parts = [f"Added {count_of(merged.added, 'run')}"]
    parts += [f"{merged.known:,} already here"] if merged.known else []
    parts += [f"skipped {merged.running:,} still running"] if merged.running else []
    parts += [f"kept this history's baseline {name!r}" for name in merged.baselines]
    tell(f"{', '.join(parts)}.")
