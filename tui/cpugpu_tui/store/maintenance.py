"""Upkeep of a history: runs of another database into this one, and which runs to prune."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from cpugpu_tui.errors import StoreError, UsageError
from cpugpu_tui.store import row_mapping, schema
from cpugpu_tui.store.database import Store
from cpugpu_tui.store.faults import explained
from cpugpu_tui.store.read_only import open_read_only, version_at
from cpugpu_tui.store.summary import RunSummary


@dataclass(frozen=True)
class Merged:
    """What became of the other database's runs."""

    added: int
    known: int
    """Were here already, by their ids."""
    running: int
    """Left out: their end is not written yet."""
    baselines: tuple[str, ...]
    """Names that stand for another series here, and go on doing so."""


def merge(into: Store, path: Path) -> Merged:
    """Copy runs, tags, baselines and ceilings of the database at `path`, which is only read; twice is as good as once.

    Raises:
        UsageError: there is no file, or it is the very same.
        StoreError: either database fails, or the other is a newer version's.
    """
    if not path.is_file():
        raise UsageError(f"There is no file {path}.", "Name a database, such as results.db of another machine.")
    if path.samefile(into.path):
        raise UsageError(f"{path} is the very database that it would be merged into.", "Name another file.")
    with _readable(path) as other:
        added, known, running = _merge_runs(into, other)
        refused = _merge_baselines(into, other)
        mine = {row_mapping.ceilings_row(found)[:4]: found.measured_wall_ns for found in into.ceilings()}
        for found in other.ceilings():
            if found.measured_wall_ns > mine.get(row_mapping.ceilings_row(found)[:4], 0):
                into.keep_ceilings(found)
    return Merged(added, known, running, refused)


def _merge_runs(into: Store, other: Store) -> tuple[int, int, int]:
    """Copy runs, oldest first, each in a transaction of its own: a live run waits for one at most."""
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
    """Open a database of any version for reading; an older one is upgraded as a copy, which is deleted again."""
    version, known = version_at(path), len(schema.MIGRATIONS)
    with closing(open_read_only(path, any_version=True)) as other:
        if version == known:
            yield other
            return
        if version > known:
            raise StoreError(
                f"The database {path} was written by a newer cpugpu-tui (its version is {version}, known is {known}).",
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
    """What goes, and what was spared although it is old."""

    going: tuple[RunSummary, ...]
    spared: tuple[RunSummary, ...]
    """Runs that have a tag, are a baseline's, or are running."""


def age_ns(text: str) -> int:
    """Return the length of `30d`, `12h`, `90min` or `2w`.

    Raises:
        UsageError: it is something else.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(min|h|d|w)", text.strip())
    if found is None:
        raise UsageError(f"{text!r} is no age.", "Write 30d, 12h, 90min or 2w.")
    # Who wrote four hundred digits means for ever, which is more than a float holds.
    return int(min(float(found[1]) * _UNITS_NS[found[2]], 1e30))


def pruning(runs: Sequence[RunSummary], keep: int | None, before_wall_ns: int | None) -> Pruning:
    """Judge all runs, newest first: beyond the newest `keep`, and begun before a time, where these are given."""
    old = [
        run
        for position, run in enumerate(runs)
        if (keep is None or position >= keep) and (before_wall_ns is None or run.started_wall_ns < before_wall_ns)
    ]
    return Pruning(tuple(run for run in old if not is_dear(run)), tuple(run for run in old if is_dear(run)))


def is_dear(run: RunSummary) -> bool:
    """Return whether a run stays whatever its age: tagged, a baseline's, or running."""
    return bool(run.tags or run.baselines) or run.status == "running"
