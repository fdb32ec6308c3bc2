"""Opens the history for a command, and lists its runs as a table.

Import neither agents nor the tables of a run here: a list took 0.6 s with them, of which 0.25 s were imports.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cpugpu_tui.config import paths
from cpugpu_tui.errors import StoreError, UsageError, kind_of, print_notice
from cpugpu_tui.machine.text import printable, shortened
from cpugpu_tui.model.quantities import duration, size_text
from cpugpu_tui.store import RunSummary, Store, open_store, open_to_read

if TYPE_CHECKING:
    from rich.table import Table

    from cpugpu_tui.compare.series import Series
    from cpugpu_tui.render.outcomes import Outcome


@contextmanager
def reading(database: Path | None, *, must_exist: bool = False) -> Iterator[Store]:
    """Open the history for a command that only reads, and print on stderr what opening changed.

    Raises:
        UsageError: with `must_exist`, there is none; it is not created.
        StoreError: it cannot be read.
    """
    path = paths.database_path(database)
    save = paths.with_database("cpugpu-tui run quick")
    none_saved = UsageError(f"No runs are saved yet in {path}.", f"Save one with `{save}`.")
    if must_exist and not path.exists():
        raise none_saved
    try:
        opened = open_to_read(database)
    except StoreError:
        if path != paths.default_database_path() or path.exists():
            raise
        raise none_saved from None  # a read-only disk without a history
    with _closing(opened) as store:
        yield store


@contextmanager
def writing(database: Path | None, *, keep_aside: bool = False) -> Iterator[Store]:
    """Open the history for a command that changes it.

    With `keep_aside`, a damaged database is moved away and a new one is started.

    Raises:
        StoreError: the database cannot be opened or written.
    """
    with _closing(open_store(database, keep_aside=keep_aside)) as store:
        yield store


@contextmanager
def _closing(store: Store) -> Iterator[Store]:
    with closing(store):
        if store.remark:
            print_notice(f"cpugpu-tui: {store.remark}")
        yield store


def series_in(text: str, database: Path | None) -> Series:
    """Return the series that `text` names, `FILE:RUN` for one in another database.

    Raises:
        UsageError: the database, baseline or run does not exist, or the series has no finished run.
        StoreError: a database cannot be read.
    """
    from cpugpu_tui.compare.series import Series, series_named

    file, name = file_and_name(text)
    try:
        with reading(file or database, must_exist=True) as store:
            series = series_named(store, name)
    except StoreError as error:
        raise error.of_argument() if file is not None else error from None
    except UsageError as error:
        if file is not None:
            error.remedy = f"To list its runs, use `cpugpu-tui history --db {shlex.quote(str(file))}`."
        raise
    return Series(f"{file.name}: {series.text}", series.runs) if file is not None else series


def file_and_name(text: str) -> tuple[Path | None, str]:
    """Return the database, None for the history, and the name of a series in it. `FILE.db` means its newest run.

    Raises:
        UsageError: the database does not exist.
    """
    head, _, name = (text, "", "") if text.endswith(".db") else text.rpartition(":")
    if not head:
        return None, text
    file = paths.database_path(Path(head))
    if file.is_file():
        return file, name or "latest"
    kind = kind_of(file)
    if kind or "/" in head or file.suffix:
        raise UsageError(
            f"{head} is {kind}, not a database." if kind else f"Database {head} does not exist.",
            "Give an existing database before the colon, for example other.db:latest.",
        )
    return None, text


def history_table(runs: Sequence[RunSummary], results: Mapping[int, Outcome] | None = None) -> Table:
    """Return a table with one row per run, in the given order; `results` adds answers of some."""
    from cpugpu_tui.cli.output.table_style import table_of

    words = [[*(f"baseline {name}" for name in run.baselines), *run.tags] for run in runs]
    with_hosts, with_tags = any(run.fleet_host for run in runs), any(words)
    columns: list[str | tuple[str, bool]] = [("run", False), "started", "what", "dtype", "sizes", "status"]
    columns += ("answer",) if results is not None else ()
    columns += [("cases", False), ("took", False), "devices"]
    columns += [*(["host"] if with_hosts else []), *(["tags"] if with_tags else [])]
    rows = []
    for run, tags in zip(runs, words, strict=True):
        started = datetime.fromtimestamp(run.started_wall_ns / 1e9)
        rows.append([
            str(run.number), f"{started:%Y-%m-%d %H:%M:%S}", shortened(printable(run.title)),
            ", ".join(run.dtypes) or "–",
            "–".join(dict.fromkeys(size_text(size) for size in (*run.sizes[:1], *run.sizes[-1:]))), run.status,
            *((_result(results.get(run.number)),) if results is not None else ()),
            run.cases_text, "–" if run.duration_ns is None else duration(run.duration_ns / 1e9),
            " · ".join(run.device_texts),
            *([printable(run.fleet_host or "–")] if with_hosts else []), *([", ".join(tags)] if with_tags else []),
        ])  # fmt: skip
    return table_of(columns, rows)


def _result(found: Outcome | None) -> str:
    """Return the answer of a run."""
    if found is None:
        return ""
    more = f" (1 of {found.sweeps} sweeps)" if found.sweeps > 1 and found.answer else ""
    return f"{found.answer or '–'}{more}"
