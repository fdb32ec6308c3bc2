"""An open file and its transactions: what every part of the store stands on."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cpugpu_tui.errors import NewerStoreError, ReplacedError, StoreError
from cpugpu_tui.store.faults import explained, locked, suspect

WAIT_S = 5.0
"""How long an operation waits for a database that another program has locked."""


class Connected:
    """A connection that any thread may use, one at a time."""

    def __init__(self, connection: sqlite3.Connection, path: Path, refusal: StoreError | None = None) -> None:
        """Wrap a connection, to which nothing is written if there is a `refusal`; `Store.open` gives a store."""
        self.path = path
        """The file, as it was named."""
        self.remark: str | None = None
        """What opening did that a person should know: an upgrade and where the copy lies, a damaged file kept aside."""
        self._connection = connection
        # SQLite's own lower() knows the letters of English alone.
        connection.create_function("lowered", 1, str.lower)
        # Reentrant: a write inside `patience` takes it again.
        self._lock = threading.RLock()
        self._refusal = refusal
        self._files: dict[Path, tuple[int, int]] = {}
        """What files these are, whatever their names are by now: the database and the journals that it has."""

    @property
    def notice(self) -> str | None:
        """Why nothing can be saved here although it can be read: a newer version's, or read-only; else None."""
        return str(self._refusal) if self._refusal else None

    @property
    def is_newer(self) -> bool:
        """Whether a newer version made the database."""
        return isinstance(self._refusal, NewerStoreError)

    @property
    def size_bytes(self) -> int:
        """Bytes on the disk, with what is in the journal and not yet in the file."""
        files = (self.path, self.path.with_name(f"{self.path.name}-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def remember_files(self) -> None:
        """Take the files that have the names now for those that were opened: nothing is written once they changed."""
        names = (self.path.with_name(self.path.name + ending) for ending in ("", "-wal", "-shm"))
        self._files = {name: found for name in names if (found := _identity(name)) is not None}

    @property
    def is_in_place(self) -> bool:
        """Whether the database, whatever became of its journals, still is the file that was opened."""
        return _identity(self.path) == self._files.get(self.path)

    def checkpoint(self) -> None:
        """Move what is in the journal to the file, as far as that is possible now."""
        with self._lock, suppress(sqlite3.Error):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextmanager
    def patience(self, wait_s: float) -> Iterator[None]:
        """Wait only so long for locks inside: of another program, or of another thread of this one.

        Raises:
            StoreError: another thread did not let go of the connection in that time.
        """
        if not self._lock.acquire(timeout=wait_s):
            raise locked(self.path)
        try:
            with explained(self.path):
                self._connection.execute(f"PRAGMA busy_timeout = {wait_s * 1000:.0f}")
                try:
                    yield
                finally:
                    self._connection.execute(f"PRAGMA busy_timeout = {WAIT_S * 1000:.0f}")
        finally:
            self._lock.release()

    def close(self) -> None:
        """Close the file. Harmless when called twice."""
        with self._lock, explained(self.path):
            self._connection.close()

    def integrity_check(self) -> list[str]:
        """Return what is wrong inside the file, one line per finding; empty when it is sound."""
        with self._reading() as connection:
            findings = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
            orphans = [
                f"{row[0]} row {row[1]} has no {row[2]}" for row in connection.execute("PRAGMA foreign_key_check")
            ]
        return [finding for finding in findings if finding != "ok"] + orphans

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Give the connection inside a transaction, so that several queries see the same state."""
        with self._lock, explained(self.path), _watched(self.path), _transaction(self._connection, "BEGIN"):
            yield self._connection

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Give the connection inside a transaction that may write: committed at the end, or undone as a whole."""
        if self._refusal:
            raise self._refusal
        if any(_identity(name) != known for name, known in self._files.items()):
            # SQLite writes on into a file without a name, and all of that is lost when it is closed.
            raise ReplacedError(
                f"The database {self.path} was deleted, moved or replaced while it was in use.",
                "Start cpugpu-tui again: the next run begins a new one.",
            )
        with self._lock, explained(self.path), _watched(self.path), _transaction(self._connection, "BEGIN IMMEDIATE"):
            yield self._connection


def _identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of a file, None if there is none by this name."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def _watched(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CORRUPT:
            suspect(path)
        raise


@contextmanager
def _transaction(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A full disk makes SQLite roll back by itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
