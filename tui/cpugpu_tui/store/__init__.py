"""The history: all runs with their raw samples in one SQLite file. Agents never open it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cpugpu_tui.config import paths
from cpugpu_tui.errors import LockedError, StoreError
from cpugpu_tui.store import schema
from cpugpu_tui.store.connection import WAIT_S, explained, is_full
from cpugpu_tui.store.database import Store
from cpugpu_tui.store.filtering import RunSummary

if TYPE_CHECKING:
    from cpugpu_tui.model import Ceilings, Plan

__all__ = [
    "RunSummary", "Store", "is_read_only", "open_read_only", "open_store", "open_to_read", "saved_peaks",
    "with_saved_peaks",
]  # fmt: skip

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


def open_to_read(override: Path | None) -> Store:
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


def with_saved_peaks(plan: Plan, database: Path | None, *, save: bool) -> Plan:
    """Return a plan that is not saved with all peak rates in the history, which is read without any change to it."""
    if save:  # the session reads them in the store that it writes to
        return plan
    return replace(plan, ceilings=saved_peaks(database))


def saved_peaks(database: Path | None, hostname: str | None = None) -> tuple[Ceilings, ...]:
    """Return all peak rates in the history, or those of a host, without any change to it; none if it cannot be read."""
    with suppress(StoreError), closing(open_read_only(paths.database_path(database))) as store:
        return store.ceilings(hostname)
    return ()


# ------------------------------------------------------------------ on read-only mounts, or in folders of other users


_COPY = "Copy it to a writable folder, and give the path of the copy"


def is_read_only(path: Path) -> bool:
    """Whether the file at `path` can be read, but it or its folder cannot be written."""
    effective = os.access in os.supports_effective_ids

    def may(what: Path, mode: int) -> bool:
        return os.access(what, mode, effective_ids=effective)

    return path.is_file() and may(path, os.R_OK) and not (may(path, os.W_OK) and may(path.parent, os.W_OK))


def version_at(path: Path) -> int:
    """Return the schema version of the database at `path`; 0 without one (fileformat2.html: offset 60)."""
    with explained(path), path.open("rb") as file:
        return int.from_bytes(file.read(64)[60:], "big")


def open_read_only(path: Path, *, any_version: bool = False, is_in_use: bool = False) -> Store:
    """Open a database for reading only. Nothing is created, upgraded or marked.

    Set `is_in_use` if another program is writing to it. Set `any_version` only to copy the file, because the other
    methods need the current tables.

    Raises:
        StoreError: the file is not a database, another program's, damaged, or of an older version; or its journal
            cannot be read in this folder.
    """
    with explained(path):
        connection = _tried(path, "mode=ro") if is_in_use else _connected(path)
        try:
            connection.row_factory = sqlite3.Row
            if schema.is_foreign(connection):
                raise StoreError(f"The file {path} is another program's database.", choose="Choose another file")
            version, known = schema.version_of(connection), len(schema.MIGRATIONS)
            if version < known and not any_version:
                raise StoreError(
                    f"Cannot upgrade the database {path} from version {version} to {known}: "
                    "the file or its folder is read-only.", choose=_COPY,
                )  # fmt: skip
        except BaseException:
            connection.close()
            raise
    refusal = StoreError(
        f"Cannot write the database {path}: the file or its folder is read-only.", choose="Choose another file"
    )
    return Store(connection, path, refusal)


def _connected(path: Path) -> sqlite3.Connection:
    """Return a connection after a first read.

    SQLite reads a database in WAL mode through files beside it. Here these cannot be created, or would be left behind.
    Without a journal nobody is writing, so the file can be opened as immutable.
    """
    journal = path.with_name(f"{path.name}-wal")
    with path.open("rb") as file:
        has_wal_mode = file.read(20)[19:] == b"\x02"  # fileformat2.html: read version at offset 19
    if has_wal_mode and not (journal.exists() and journal.stat().st_size):
        return _tried(path, "mode=ro&immutable=1")
    try:
        return _tried(path, "mode=ro")
    except sqlite3.OperationalError as error:
        unmade = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
        if not unmade or not journal.exists():
            raise
    raise StoreError(
        f"The newest runs of the database {path} are still in {journal.name}, which cannot be read.",
        choose="Copy both files to a writable folder, and give the path of the copy",
    )


def _tried(path: Path, how: str) -> sqlite3.Connection:
    """Return a connection after a first read; `how` are SQLite's URI parameters."""
    uri = f"{path.absolute().as_uri()}?{how}"
    connection = sqlite3.connect(uri, uri=True, timeout=5, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection
