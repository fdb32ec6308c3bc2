"""`cpugpu-tui import`: add exported runs to the history. All files are read before the first run is saved."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from cpugpu_tui.cli.options import Database, Json
from cpugpu_tui.cli.output.printing import print_json, tell
from cpugpu_tui.errors import UsageError

STDIN = Path("-")

MOST_BYTES = 2_000_000_000
"""Maximum size of one file. A hundred runs of 2,000 cases are smaller, and /dev/zero must not fill the memory."""

Files = Annotated[list[Path], typer.Argument(metavar="FILE", help="Exports in json or ndjson format; - for stdin.")]

commands = typer.Typer()


@commands.command("import")
def import_runs(files: Files, database: Database = None, json: Json = False) -> None:
    """Import runs from json or ndjson exports.

    Runs that are already in the history are not changed.
    """
    from cpugpu_tui.cli.history.past_runs import writing
    from cpugpu_tui.export.reading import read_runs

    runs = {run.started.run_id: run for path in files for run in read_runs(_content(path), _name(path))}
    with writing(database, keep_aside=True) as store:
        for run_id, run in runs.items():
            try:
                known = store.find(run_id) == run_id  # `find` also accepts the start of an id
            except UsageError:
                known = False
            number = store.import_run(run.events)
            if json:
                print_json({"run_id": run_id, "number": number, "new": not known})
            elif known:
                tell(f"Already in the history as run {number}: cpugpu-tui show {number}")
            else:
                tell(f"Imported as run {number}: cpugpu-tui show {number}")


def _name(path: Path) -> str:
    return "stdin" if path == STDIN else str(path)


def _content(path: Path) -> bytes:
    from cpugpu_tui.config.paths import MOST_OF_A_DEVICE, read_at_most

    try:
        if path == STDIN:
            data = sys.stdin.buffer.read(MOST_OF_A_DEVICE)
            data += b"" if b"\0" in data else sys.stdin.buffer.read(MOST_BYTES + 1 - len(data))
        else:
            data = read_at_most(path, MOST_BYTES)
    except OSError as error:
        raise UsageError(
            f"Cannot read {path}: {error.strerror}.", "Give the path of a file written by `cpugpu-tui export`."
        ) from error
    if len(data) > MOST_BYTES:
        raise UsageError(f"{_name(path)} is larger than {MOST_BYTES / 1e9:g} GB.", "Export fewer runs into one file.")
    return data
