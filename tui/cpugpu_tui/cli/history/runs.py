"""Commands on named runs: `cpugpu-tui show`, `rm` and `tag`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cpugpu_tui.cli import options as opt
from cpugpu_tui.cli.output.printing import print_answer, print_json, tell
from cpugpu_tui.errors import UsageError

LONGEST_TAG = 40
"""Maximum length of a tag, which has to fit into a table."""

# `-hot` removes the tag `hot`, so there is no -h here, and unknown options such as `-b` are arguments.
WITH_SIGNS = {"help_option_names": ["--help"], "ignore_unknown_options": True}

commands = typer.Typer()


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
    from cpugpu_tui.cli.history.past_runs import reading
    from cpugpu_tui.state.folding import folded

    with reading(given.database) as store:
        events = store.load(store.find(given.run_name))
    state = folded(events)
    if not given.json:
        from cpugpu_tui.cli.output.tables import print_state

        print_state(state, in_full=given.explain)
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


@opt.takes(commands.command(), RunsGiven, "run_names force database")
def rm(given: RunsGiven) -> None:
    """Delete runs and their results from the history."""
    from cpugpu_tui.cli.history.past_runs import writing

    with writing(given.database) as store:
        run_ids = list(dict.fromkeys(store.find(name) for name in given.run_names))
        runs = [store.summary(run_id) for run_id in run_ids]
        for run in runs:
            if run.baselines and not given.force:
                raise UsageError(
                    f"Run {run.number} belongs to the baseline {run.baselines[0]!r}.",
                    "Give this name to another series first, or add --force.",
                )
        store.delete_all(run_ids, force=given.force)
    tell(f"Deleted {'run' if len(runs) == 1 else 'runs'} {', '.join(str(run.number) for run in runs)}.")


@opt.takes(commands.command(context_settings=WITH_SIGNS), RunsGiven, "tagged changes json database")
def tag(given: RunsGiven) -> None:
    """Add tags to a run, or remove them.

    Use +TAG to add and -TAG to remove a tag. Without a tag, print the tags of the run.
    `history prune` keeps every run that has a tag.
    """
    from cpugpu_tui.cli.history.past_runs import reading, writing

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
    from cpugpu_tui.machine.text import printable

    sign, word = change[:1], change[1:]
    if sign not in ("+", "-"):
        raise UsageError(f"{change!r} does not start with + or -.", "Use +TAG to add and -TAG to remove a tag.")
    if not word or len(word) > LONGEST_TAG or word != printable(word) or any(c.isspace() or c == "," for c in word):
        raise UsageError(f"Invalid tag {word!r}.", f"Use one word of at most {LONGEST_TAG} characters, without commas.")
    return word
