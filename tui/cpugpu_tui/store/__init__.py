"""The store: every run, with its raw samples, in one SQLite file that only the controller opens."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from cpugpu_tui.config import paths
from cpugpu_tui.errors import LockedError, StoreError
from cpugpu_tui.store.connection import WAIT_S
from cpugpu_tui.store.database import Store
from cpugpu_tui.store.faults import is_full
from cpugpu_tui.store.read_only import is_read_only, open_read_only
from cpugpu_tui.store.summary import RunSummary

__all__ = ["RunSummary", "Store", "open_store", "open_to_read"]

READER_WAIT_S = 1.0
"""How long a command that only reads waits for a lock, before it reads without having marked interrupted runs."""


def open_store(override: Path | None = None, *, keep_aside: bool = True, wait_s: float = WAIT_S) -> Store:
    """Open the database that `--db`, `$CPUGPU_DB` or the default place names.

    `keep_aside` off leaves a damaged one where it is: who wants a run of it is not helped by a new one without runs.
    Only the default place has its folder created: a folder that the person named and that is not there is a typo.

    Raises:
        StoreError: see `Store.open`.
    """
    path = paths.database_path(override)
    is_default, earlier = path == paths.default_database_path(), paths.local_database_path()
    is_first = is_default and path != earlier and earlier.exists() and not path.exists()
    store = Store.open(path, create_parents=is_default, keep_aside=keep_aside, wait_s=wait_s)
    if is_first:
        store.remark = (
            f"This home lies on a network file system, where every machine has a history of its own: {path}. "
            f"`cpugpu-tui history merge {earlier}` brings the runs from before."
        )
    return store


def open_to_read(override: Path | None = None) -> Store:
    """Open that database for a command that writes nothing: one that is read-only is good enough.

    Raises:
        StoreError: see `Store.open` and `open_read_only`.
    """
    path = paths.database_path(override)
    if is_read_only(path):
        return open_read_only(path)
    try:
        # A listing moves no file: a damaged database is the next run's to keep aside.
        is_default = path == paths.default_database_path()
        return Store.open(path, create_parents=is_default, keep_aside=False, wait_s=READER_WAIT_S)
    except StoreError as error:
        # Opening writes a little, which a full disk or a lock refuses; who only looks must see it all the same.
        is_locked = isinstance(error, LockedError)
        if not is_full(error) and not is_locked:
            raise
        with suppress(StoreError):
            return open_read_only(path, is_in_use=is_locked)
        raise
