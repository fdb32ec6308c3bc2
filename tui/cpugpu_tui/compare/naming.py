"""How a person names a series: in the history, or in the database of another machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cpugpu_tui.compare.comparison import Series, series_named
from cpugpu_tui.config import paths
from cpugpu_tui.errors import UsageError
from cpugpu_tui.store import Store, open_to_read

Say = Callable[[Store], None]


def _silently(_store: Store) -> None:
    """Say nothing of an opened history."""


def series_in(text: str, database: Path | None, say: Say = _silently) -> Series:
    """Return the series that `text` names, `FILE:RUN` for one in another database; `say` as for `reading`.

    Raises:
        UsageError: there is no such database, baseline or run, or its series has no finished run.
        StoreError: a database cannot be read.
    """
    file, name = file_and_name(text)
    with reading(file or database, say) as store:
        series = series_named(store, name)
    return Series(f"{file.name}: {series.text}", series.runs) if file is not None else series


def file_and_name(text: str) -> tuple[Path | None, str]:
    """Return the database, None for the history, and what names a series in it.

    Raises:
        UsageError: it names a database that is not there.
    """
    head, colon, name = text.rpartition(":")
    if not colon or not head:
        return None, text
    file = paths.database_path(Path(head))
    if file.is_file():
        return file, name or "latest"
    if "/" in head or file.suffix:
        raise UsageError(f"There is no database {head}.", "Write FILE:RUN, like other.db:latest.")
    return None, text


@contextmanager
def reading(database: Path | None, say: Say = _silently) -> Iterator[Store]:
    """Open the history to read, and close it; one that does not exist is not created.

    `say` is called with the open store, for what a person should know of it: an older one was upgraded.

    Raises:
        UsageError: there is none.
        StoreError: it cannot be read.
    """
    path = paths.database_path(database)
    if not path.exists():
        raise UsageError(f"There are no saved runs yet in {path}.", "`cpugpu-tui run quick` makes one.")
    store = open_to_read(database)
    try:
        say(store)
        yield store
    finally:
        store.close()
