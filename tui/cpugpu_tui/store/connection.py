"""The connection to the database file, and its transactions."""

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
"""How long an operation waits while another program locks the database."""


class Connected:
    """A connection that threads can share; they use it one at a time."""

    def __init__(self, connection: sqlite3.Connection, path: Path, refusal: StoreError | None = None) -> None:
        """Wrap a connection; with a `refusal`, every write raises it. Use `Store.open` to get a store."""
        self.path = path
        """The file, as the caller named it."""
        self.remark: str | None = None
        """A notice about the opening: an upgrade and its backup, or a damaged file that was renamed."""
        self._connection = connection
        # SQLite's own lower() converts ASCII letters only.
        connection.create_function("lowered", 1, str.lower)
        # Reentrant: a write inside `patience` takes it again.
        self._lock = threading.RLock()
        self._refusal = refusal
        self._files: dict[Path, tuple[int, int]] = {}
        """Device and inode of the database and its journals when they were opened."""

    @property
    def notice(self) -> str | None:
        """Why the database can only be read (newer version, or read-only file); None if it can be written."""
        return str(self._refusal) if self._refusal else None

    @property
    def is_newer(self) -> bool:
        """Whether a newer version of the program wrote the database."""
        return isinstance(self._refusal, NewerStoreError)

    @property
    def size_bytes(self) -> int:
        """Bytes on the disk, including the journal."""
        files = (self.path, self.path.with_name(f"{self.path.name}-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def remember_files(self) -> None:
        """Record which files are open. Writes fail once another file has one of their names."""
        names = (self.path.with_name(self.path.name + ending) for ending in ("", "-wal", "-shm"))
        self._files = {name: found for name in names if (found := _identity(name)) is not None}

    @property
    def is_in_place(self) -> bool:
        """Whether the database is still the file that was opened; journals may have changed."""
        return _identity(self.path) == self._files.get(self.path)

    def checkpoint(self) -> None:
        """Move the journal into the file, as far as that is possible now."""
        with self._lock, suppress(sqlite3.Error):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextmanager
    def patience(self, wait_s: float) -> Iterator[None]:
        """Limit the wait for locks inside the block, of other programs and other threads.

        Raises:
            StoreError: another thread held the connection for longer than that.
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
        """Close the file. May be called twice."""
        with self._lock, explained(self.path):
            self._connection.close()

    def integrity_check(self) -> list[str]:
        """Return the defects inside the file, a line each; empty if there are none."""
        with self._reading() as connection:
            findings = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
            orphans = [
                f"{row[0]} row {row[1]} has no {row[2]}" for row in connection.execute("PRAGMA foreign_key_check")
            ]
        return [finding for finding in findings if finding != "ok"] + orphans

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection inside a transaction, so that several queries see the same state."""
        with self._lock, explained(self.path), _watched(self.path), _transaction(self._connection, "BEGIN"):
            yield self._connection

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection inside a write transaction: committed at the end, rolled back on errors."""
        if self._refusal:
            raise self._refusal
        if any(_identity(name) != known for name, known in self._files.items()):
            # SQLite would go on writing to the deleted file, whose content is lost when it is closed.
            raise ReplacedError(
                f"The database {self.path} was deleted, moved or replaced while it was in use.",
                "Start cpugpu-tui again; the next run creates a new database.",
            )
        with self._lock, explained(self.path), _watched(self.path), _transaction(self._connection, "BEGIN IMMEDIATE"):
            yield self._connection


def _identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of a file; None if it does not exist."""
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
        # On a full disk SQLite has rolled back already.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
