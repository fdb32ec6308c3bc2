"""Saved runs: `cpugpu-tui history` lists, prunes and merges them; `show`, `rm` and `tag` take named ones."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cpugpu_tui.cli import options as opt
from cpugpu_tui.cli.output.printing import print_answer, print_json, tell
from cpugpu_tui.cli.past_runs import history_table, reading, writing
from cpugpu_tui.config.paths import with_database
from cpugpu_tui.errors import UsageError
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model.quantities import count_of, megabytes

if TYPE_CHECKING:
    from cpugpu_tui.render.outcomes import Outcome

LISTED = 20
"""Maximum number of runs in the list of a dry run."""

commands = typer.Typer()
history_commands = typer.Typer()
commands.add_typer(history_commands, name="history")


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


@opt.takes(history_commands.callback(invoke_without_command=True), HistoryGiven, "text tag json database limit")
def history(given: HistoryGiven) -> None:
    """List saved runs, newest first.

    An answer is that of the run by itself. `show` also counts starts of earlier runs. `took` is the time from the
    start of a run to its end. It includes pauses and, in a resumed run, the time between its parts.
    """
    limit, text, tag = given.limit, given.text, given.tag
    if given.context.invoked_subcommand is not None:
        return

    with reading(given.database, must_exist="database" in opt.typed(given.context)) as store:
        # One more tells whether there are more. Counting all that match would read each of them, in 10,000 runs 0.1 s.
        matching = store.runs(limit + 1, text=text, tags=tag or ())
        runs = matching[:limit]
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
        show = with_database("cpugpu-tui show RUN")
        tell(f"Answers of the newest {len(results):,} runs only. `{show}` tells those of the others.")
    if not total:
        tell(f"No runs yet. Start one with `{with_database('cpugpu-tui run')}`.")
    elif text or tag:
        which = f"{len(runs):,} of {count_of(total, 'run')} {'matches' if len(runs) == 1 else 'match'}"
        if len(matching) > limit:
            which = f"The newest {limit:,} that match, of {count_of(total, 'run')} in all"
        tell(f"{which}. Database: {store.path}, {megabytes(size)}.")
    else:
        newest = f"The newest {len(runs):,} of " if len(runs) < total else ""
        tell(f"{newest}{count_of(total, 'run')}. Database: {store.path}, {megabytes(size)}.")


@opt.takes(history_commands.command(), HistoryGiven, "keep older_than yes json database")
def prune(given: HistoryGiven) -> None:
    """List old runs, or delete them with --yes.

    Runs are kept if they have a tag, belong to a baseline or are still running.
    """
    from cpugpu_tui.cli.output.table_style import console
    from cpugpu_tui.store.maintenance import age_ns, pruning

    if given.keep is None and given.older_than is None:
        raise UsageError("No runs selected to prune.", "Use --older-than 30d, --keep 100 or both.")
    before = time.time_ns() - age_ns(given.older_than) if given.older_than is not None else None
    is_typed = "database" in opt.typed(given.context)
    with writing(given.database) if given.yes else reading(given.database, must_exist=is_typed) as store:
        found = pruning(store.runs(), given.keep, before)
        size = store.size_bytes
        if given.yes and found.going:
            store.delete(*(run.run_id for run in found.going))
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


@opt.takes(history_commands.command(), HistoryGiven, "other json database")
def merge(given: HistoryGiven) -> None:
    """Copy the runs of another database into this history.

    Runs that are already here are not changed.
    """
    import msgspec

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


LONGEST_TAG = 40
"""Maximum length of a tag, which has to fit into a table."""

# `-hot` removes the tag `hot`, so there is no -h here, and unknown options such as `-b` are arguments.
WITH_SIGNS = {"help_option_names": ["--help"], "ignore_unknown_options": True}


class RunsGiven(opt.Given):
    """The options of commands on named runs."""

    run_names: Annotated[list[str], opt.argument("RUN", opt.RUN_NAMES)]
    force: Annotated[bool, opt.flag(
        "--force", "Also delete runs of a baseline, and runs that seem to be still running."
    )] = False  # fmt: skip
    tagged: Annotated[str, opt.argument("RUN", opt.RUN_NAME)]
    changes: Annotated[list[str] | None, opt.argument("+TAG|-TAG", "Tags to add (+TAG) or remove (-TAG).")] = None


@opt.takes(commands.command(), opt.Given, "run_name explain json database")
def show(given: opt.Given) -> None:
    """Print the table of a saved run.

    With --json, print its events.
    """
    from cpugpu_tui.state.folding import folded

    notice = None
    with reading(given.database, must_exist=True) as store:
        run_id = store.find(given.run_name)
        events = store.load(run_id)
        state = folded(events)
        if state.plan.is_of_two_codes and not given.json:  # --json then loads 14 modules less
            from cpugpu_tui.compare.comparison import differing_pairs
            from cpugpu_tui.render.sentences import results_differ

            differing, command = differing_pairs(store, events)
            notice = f"{results_differ(pair.size for pair in differing)} `{command}` shows both." if differing else None
        is_interrupted = state.finished is None and store.summary(run_id).status == "interrupted"
    if not given.json:
        from cpugpu_tui.cli.output.tables import print_state

        print_state(state, notice, in_full=given.explain, is_interrupted=is_interrupted)
        return
    from cpugpu_tui.model import RunFinished
    from cpugpu_tui.transport.agent_output import encode

    is_over = bool(events) and isinstance(events[-1], RunFinished)
    for event in events[:-1] if is_over else events:
        sys.stdout.buffer.write(encode(event))
    # In the order of `run --json`: `RunFinished` is the last line.
    print_answer(state)
    if is_over:
        sys.stdout.buffer.write(encode(events[-1]))


@opt.takes(commands.command(), RunsGiven, "run_names force database")
def rm(given: RunsGiven) -> None:
    """Delete runs and their results from the history."""
    with writing(given.database) as store:
        run_ids = list(dict.fromkeys(store.find(name) for name in given.run_names))
        runs = [store.summary(run_id) for run_id in run_ids]
        for run in runs:
            if run.baselines and not given.force:
                name = run.baselines[0]
                delete = with_database(f"cpugpu-tui baseline {shlex.quote(name)} --delete")
                raise UsageError(
                    f"Run {run.number} belongs to the baseline {name!r}.",
                    f"Delete that with `{delete}` first, or add --force.",
                )
        store.delete(*run_ids, force=given.force)
    tell(f"Deleted {'run' if len(runs) == 1 else 'runs'} {', '.join(str(run.number) for run in runs)}.")


@opt.takes(commands.command(context_settings=WITH_SIGNS), RunsGiven, "tagged changes json database")
def tag(given: RunsGiven) -> None:
    """Add tags to a run, or remove them.

    Use +TAG to add and -TAG to remove a tag. Without a tag, print the tags of the run.
    `history prune` keeps every run that has a tag.
    """
    if given.tagged.startswith("+"):
        raise UsageError(
            f"{given.tagged!r} is a tag, and a run comes first.", f"Write, for example, latest {given.tagged}."
        )
    # For the same tag the last sign counts, as in `+a -a`.
    signs = {tag_word(change): change[:1] for change in given.changes or ()}
    with (writing if signs else reading)(given.database) as store:
        run_id = store.find(given.tagged)
        if signs:
            store.tag(run_id, *([word for word, sign in signs.items() if sign == wanted] for wanted in "+-"))
        run = store.summary(run_id)
    if given.json:
        print_json({"number": run.number, "run_id": run.run_id, "tags": list(run.tags)})
    else:
        tell(f"Run {run.number}: {', '.join(run.tags) or 'no tags'}.")


def tag_word(change: str) -> str:
    """Return the tag in `+TAG` or `-TAG`.

    Raises:
        UsageError: the sign is missing, or the tag is not a single printable word.
    """
    sign, word = change[:1], change[1:]
    if sign not in ("+", "-"):
        raise UsageError(f"{change!r} does not start with + or -.", "Use +TAG to add and -TAG to remove a tag.")
    if not word or len(word) > LONGEST_TAG or word != printable(word) or any(c.isspace() or c == "," for c in word):
        raise UsageError(f"Invalid tag {word!r}.", f"Use one word of at most {LONGEST_TAG} characters, without commas.")
    return word
