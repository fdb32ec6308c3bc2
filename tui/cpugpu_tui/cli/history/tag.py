"""`cpugpu-tui tag`: gives a run tags and takes them from it."""

from __future__ import annotations

from typing import Annotated

import typer

from cpugpu_tui.cli.options import Database, Json, RunName
from cpugpu_tui.errors import UsageError

LONGEST_TAG = 40
"""Characters: a tag is a word of a table."""

# `-hot` must be a tag that goes, hence no -h here; and `-b` is not taken for an option that is unknown.
WITH_SIGNS = {"help_option_names": ["--help"], "ignore_unknown_options": True}

commands = typer.Typer()


@commands.command(context_settings=WITH_SIGNS)
def tag(
    run_name: RunName,
    changes: Annotated[list[str] | None, typer.Argument(metavar="[+WORD|-WORD]...", help="Give or take.")] = None,
    json: Json = False,
    database: Database = None,
) -> None:
    """Give a run tags and take them from it; a run with a tag is never pruned."""
    from cpugpu_tui.cli.history.past_runs import reading, writing
    from cpugpu_tui.cli.output.json_lines import print_json
    from cpugpu_tui.cli.output.table_style import tell

    # The last word on a tag counts, as in `+a -a`.
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
    """Return the tag of `+word` or `-word`.

    Raises:
        UsageError: the sign is missing, or it is no word of a table.
    """
    from cpugpu_tui.machine.text import printable

    sign, word = change[:1], change[1:]
    if sign not in ("+", "-"):
        raise UsageError(f"{change!r} neither gives nor takes a tag.", "Write +word to give it, -word to take it.")
    if not word or len(word) > LONGEST_TAG or word != printable(word) or any(c.isspace() or c == "," for c in word):
        raise UsageError(f"{word!r} is no tag.", f"A tag is one word of at most {LONGEST_TAG} characters.")
    return word
