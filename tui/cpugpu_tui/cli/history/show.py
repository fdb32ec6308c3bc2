"""`cpugpu-tui show`: a saved run as a table or as its events."""

from __future__ import annotations

import sys

import typer

from cpugpu_tui.cli.options import Database, Json, RunName

commands = typer.Typer()


@commands.command()
def show(run_name: RunName = "latest", json: Json = False, database: Database = None) -> None:
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

        print_state(state)
        return
    from cpugpu_tui.cli.output.json_lines import print_answer
    from cpugpu_tui.model import RunFinished
    from cpugpu_tui.transport.wire import encode

    is_over = bool(events) and isinstance(events[-1], RunFinished)
    for event in events[:-1] if is_over else events:
        sys.stdout.buffer.write(encode(event))
    # In the order of `run --json`: `RunFinished` is the last line.
    print_answer(state)
    if is_over:
        sys.stdout.buffer.write(encode(events[-1]))
