"""Merge another database into this one, and select runs to prune."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from cpugpu_tui.errors import StoreError, UsageError, kind_of
from cpugpu_tui.store import open_read_only, rows, schema, version_at
from cpugpu_tui.store.connection import explained
from cpugpu_tui.store.database import Store
from cpugpu_tui.store.filtering import RunSummary


@dataclass(frozen=True)
class Merged:
    """Result of a merge, in numbers of runs."""

    added: int
    known: int
    """Runs that were here already, by their ids."""
    running: int
    """Runs left out because they are still running."""
    baselines: tuple[str, ...]
    """Names that keep meaning another series here."""


def merge(into: Store, path: Path) -> Merged:
    """Copy runs, tags, baselines and peak rates from the database at `path`. Repeating it changes nothing.

    Raises:
        UsageError: the file does not exist, is not a database, cannot be read, or is the database itself.
        StoreError: one of the databases is locked, this one cannot be used, or a newer version wrote the other one.
    """
    if (kind := kind_of(path)) != "a file":
        raise UsageError(
            f"{path} is {kind}, not a database." if kind else f"The file {path} does not exist.",
            "Give the path of a database, for example a results.db copied from another machine.",
        )
    if path.samefile(into.path):
        raise UsageError(f"Cannot merge the database {path} into itself.", "Choose another file.")
    with _readable(path) as other:
        added, known, running = _merge_runs(into, other)
        refused = _merge_baselines(into, other)
        mine = {rows.ceilings_row(found)[:4]: found.measured_wall_ns for found in into.ceilings()}
        for found in other.ceilings():
            if found.measured_wall_ns > mine.get(rows.ceilings_row(found)[:4], 0):
                into.keep_ceilings(found)
    return Merged(added, known, running, refused)


def _merge_runs(into: Store, other: Store) -> tuple[int, int, int]:
    """Copy runs, oldest first, each in its own transaction, so that a live run waits for one copy at most."""
    here = {run.run_id for run in into.runs()}
    added = running = 0
    runs = other.runs()
    for run in reversed(runs):
        if run.status == "running":
            running += run.run_id not in here
            continue
        if run.run_id not in here:
            into.import_run(other.load(run.run_id))
            added += 1
        if run.tags:
            into.tag(run.run_id, run.tags)
    return added, sum(run.run_id in here for run in runs), running


def _merge_baselines(into: Store, other: Store) -> tuple[str, ...]:
    mine, refused = into.baselines(), []
    for name, series_id in other.baselines().items():
        if mine.get(name, series_id) != series_id:
            refused.append(name)
        elif name not in mine and into.runs_of(series_id):
            into.set_baseline(name, series_id)
    return tuple(refused)


@contextmanager
def _readable(path: Path) -> Iterator[Store]:
    """Open a database of any version for reading. Of an older one, a temporary copy is upgraded."""
    known = len(schema.MIGRATIONS)
    try:
        version, other = version_at(path), open_read_only(path, any_version=True)
    except StoreError as error:
        raise error.of_argument() from error
    with closing(other):
        if version == known:
            yield other
            return
        if version > known:
            raise StoreError(
                f"A newer cpugpu-tui wrote the database {path} (version {version}, supported {known}).",
                "Update cpugpu-tui to merge it.",
            )
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / path.name
            with explained(path):
                schema.back_up(other._connection, copy)
            with closing(Store.open(copy, keep_aside=False)) as upgraded:
                yield upgraded


# ------------------------------------------------------------------ pruning


_UNITS_NS = {"min": 60 * 10**9, "h": 3600 * 10**9, "d": 86_400 * 10**9, "w": 604_800 * 10**9}


@dataclass(frozen=True)
class Pruning:
    """Runs to delete, and old runs to keep."""

    going: tuple[RunSummary, ...]
    spared: tuple[RunSummary, ...]
    """Runs that have a tag, belong to a baseline, or are running."""


def age_ns(text: str) -> int:
    """Return an age like `30d`, `12h`, `90min` or `2w` in nanoseconds.

    Raises:
        UsageError: the text has another form.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(min|h|d|w)", text.strip())
    if found is None:
        raise UsageError(f"Invalid age {text!r}.", "Use a number and a unit, for example 30d, 12h, 90min or 2w.")
    # Limited, because four hundred digits are more than a float holds.
    return int(min(float(found[1]) * _UNITS_NS[found[2]], 1e30))


def pruning(runs: Sequence[RunSummary], keep: int | None, before_wall_ns: int | None) -> Pruning:
    """Select from runs (newest first) those beyond the newest `keep`, and started before a time, if given."""
    old = [
        run
        for position, run in enumerate(runs)
        if (keep is None or position >= keep) and (before_wall_ns is None or run.started_wall_ns < before_wall_ns)
    ]
    return Pruning(tuple(run for run in old if not is_dear(run)), tuple(run for run in old if is_dear(run)))


def is_dear(run: RunSummary) -> bool:
    """Return whether pruning keeps a run whatever its age: tagged, part of a baseline, or running."""
    return bool(run.tags or run.baselines) or run.status == "running"
