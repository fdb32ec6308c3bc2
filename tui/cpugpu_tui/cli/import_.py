"""`import`: runs of exports into the history. Every file is read before the first run is saved."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from cpugpu_tui.cli.history import writing
from cpugpu_tui.cli.listing import print_json
from cpugpu_tui.cli.table_style import tell
from cpugpu_tui.config.files import MOST_OF_A_DEVICE, read_at_most
from cpugpu_tui.errors import UsageError
from cpugpu_tui.export.reading import read_runs
from cpugpu_tui.export.stream import ExportedRun
from cpugpu_tui.store import Store

STDIN = Path("-")

MOST_BYTES = 2_000_000_000
"""Read of one file: /dev/zero would fill the memory, and a hundred runs of 2 000 cases are less."""


def import_files(files: Sequence[Path], database: Path | None, *, as_json: bool) -> None:
    """Save the runs of all files and print the number of each; known ones stay as they are.

    Raises:
        UsageError: a file cannot be read or is no export; then nothing was saved.
        StoreError: the history cannot be written.
    """
    runs = {run.started.run_id: run for path in files for run in read_runs(_content(path), _name(path))}
    with writing(database, keep_aside=True) as store:
        for run in runs.values():
            _save(store, run, as_json=as_json)


def _save(store: Store, run: ExportedRun, *, as_json: bool) -> None:
    run_id = run.started.run_id
    known = has_run(store, run_id)
    number = store.import_run(run.events)
    if as_json:
        print_json({"run_id": run_id, "number": number, "new": not known})
    elif known:
        tell(f"Run {number} is there already: cpugpu-tui show {number}")
    else:
        tell(f"Imported as run {number}: cpugpu-tui show {number}")


def has_run(store: Store, run_id: str) -> bool:
    """Whether the history has a run of this very id."""
    try:
        return store.find(run_id) == run_id
    except UsageError:
        return False


def _name(path: Path) -> str:
    return "stdin" if path == STDIN else str(path)


def _content(path: Path) -> bytes:
    try:
        if path == STDIN:
            data = sys.stdin.buffer.read(MOST_OF_A_DEVICE)
            data += b"" if b"\0" in data else sys.stdin.buffer.read(MOST_BYTES + 1 - len(data))
        else:
            data = read_at_most(path, MOST_BYTES)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", "Name an export of cpugpu-tui.") from error
    if len(data) > MOST_BYTES:
        raise UsageError(f"{_name(path)} is larger than {MOST_BYTES / 1e9:g} GB.", "Export fewer runs into one file.")
    return data
