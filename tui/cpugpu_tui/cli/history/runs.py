"""Commands on named runs: `cpugpu-tui show`, `rm` and `tag`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cpugpu_tui.cli.options import Database, Explain, Json, RunName
from cpugpu_tui.cli.output.printing import print_answer, print_json, tell
from cpugpu_tui.errors import UsageError

LONGEST_TAG = 40
"""Maximum length of a tag, which has to fit into a table."""

# `-hot` removes the tag `hot`, so there is no -h here, and unknown options such as `-b` are arguments.
WITH_SIGNS = {"help_option_names": ["--help"], "ignore_unknown_options": True}

commands = typer.Typer()


@commands.command()
def show(run_name: RunName = "latest", explain: Explain = False, json: Json = False, database: Database = None) -> None:
    """Print the table of a saved run.

    With --json, print its events.
    """
    from cpugpu_tui.cli.history.past_runs import reading
    from cpugpu_tui.state.folding import folded

    with reading(database) as store:
        events = store.load(store.find(run_name))
    state = folded(events)
    if not json:
        from cpugpu_tui.cli.output.tables import print_state

        print_state(state, in_full=explain)
        return
    from cpugpu_tui.model import RunFinished
    from cpugpu_tui.transport.wire import encode

    is_over = bool(events) and isinstance(events[-1], RunFinished)
    for event in events[:-1] if is_over else events:
        sys.stdout.buffer.write(encode(event))
    # In the order of `run --json`: `RunFinished` is the last line.
    print_answer(state)
    if is_over:
        sys.stdout.buffer.write(encode(events[-1]))


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


@commands.command(context_settings=WITH_SIGNS)
def tag(
    run_name: RunName,
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="+TAG|-TAG", help="Tags to add (+TAG) or remove (-TAG).")
    ] = None,
    json: Json = False,
    database: Database = None,
) -> None:
    """Add tags to a run, or remove them.

    Use +TAG to add and -TAG to remove a tag. Without a tag, print the tags of the run.
    `history prune` keeps every run that has a tag.
    """
    from cpugpu_tui.cli.history.past_runs import reading, writing

    # For the same tag the last sign counts, as in `+a -a`.
    signs = {tag_word(change): change[:1] for change in changes or ()}
    with (writing if signs else reading)(database) as store:
        run_id = store.find(run_name)
        if signs:
            store.tag(run_id, *([word for word, sign in signs.items() if sign == wanted] for wanted in "+-"))
        run = store.summary(run_id)
    if json:
        print_json({"number": run.number, "run_id": run.run_id, "tags": list(run.tags)})
    else:
        tell(f"Run {run.number}: {', '.join(run.tags) or 'no tags'}.")


def tag_word(change: str) -> str:
    """Return the tag in `+TAG` or `-TAG`.

    Raises:
        UsageError: the sign is missing, or the tag is not a single printable word.
    """
    from cpugpu_tui.machine.text import printable

    sign, word = change[:1], change[1:]
    if sign not in ("+", "-"):
        raise UsageError(f"{change!r} does not start with + or -.", "Use +TAG to add and -TAG to remove a tag.")
    if not word or len(word) > LONGEST_TAG or word != printable(word) or any(c.isspace() or c == "," for c in word):
        raise UsageError(f"Invalid tag {word!r}.", f"Use one word of at most {LONGEST_TAG} characters, without commas.")
    return word
