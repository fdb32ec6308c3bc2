"""The history: all runs with their raw samples in one SQLite file. Agents never open it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from cpugpu_tui.config import paths
from cpugpu_tui.errors import LockedError, StoreError
from cpugpu_tui.store.connection import WAIT_S, is_full
from cpugpu_tui.store.database import Store
from cpugpu_tui.store.read_only import is_read_only, open_read_only
from cpugpu_tui.store.summary import RunSummary

__all__ = ["RunSummary", "Store", "open_store", "open_to_read"]

READER_WAIT_S = 1.0
"""How long a read-only command waits for a lock. Then it reads without marking interrupted runs first."""


def open_store(override: Path | None = None, *, keep_aside: bool = True, wait_s: float = WAIT_S) -> Store:
    """Open the database: `override` (`--db`), else `$CPUGPU_DB`, else the default.

    Without `keep_aside` a damaged database stays where it is and raises, because a new one would hold no runs.
    Only the folder of the default database is created: a missing folder that the user named is a typing error.

    Raises:
        StoreError: see `Store.open`.
    """
    path = paths.database_path(override)
    is_default, earlier = path == paths.default_database_path(), paths.local_database_path()
    is_first = is_default and path != earlier and earlier.exists() and not path.exists()
    store = Store.open(path, create_parents=is_default, keep_aside=keep_aside, wait_s=wait_s)
    if is_first:
        store.remark = (
            f"This home folder is on a network file system, so each host has its own history: {path}. "
            f"To bring over the earlier runs, use `cpugpu-tui history merge {earlier}`."
        )
    return store


def open_to_read(override: Path | None = None) -> Store:
    """Open the database for a command that only reads; a read-only file will do.

    Raises:
        StoreError: see `Store.open` and `open_read_only`.
    """
    path = paths.database_path(override)
    if is_read_only(path):
        return open_read_only(path)
    try:
        # A command that only reads must not rename a damaged database; the next run does.
        is_default = path == paths.default_database_path()
        return Store.open(path, create_parents=is_default, keep_aside=False, wait_s=READER_WAIT_S)
    except StoreError as error:
        # Opening writes a little, which fails on a full disk or a lock. Reading must work all the same.
        is_locked = isinstance(error, LockedError)
        if not is_full(error) and not is_locked:
            raise
        with suppress(StoreError):
            return open_read_only(path, is_in_use=is_locked)
        raise
