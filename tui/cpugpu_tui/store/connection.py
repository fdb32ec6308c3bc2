"""The connection to the database file, its transactions, and its faults: explained in plain words, or set aside.

A damaged database is kept under another name, so that its runs may be recovered, and a new one is created.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from cpugpu_tui.config.paths import OWNER_FILE
from cpugpu_tui.errors import LockedError, NewerStoreError, ReplacedError, StoreError
from cpugpu_tui.store import schema

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

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection inside a transaction, so that several queries see the same state."""
        with self._transaction("BEGIN"):
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
        with self._transaction("BEGIN IMMEDIATE"):
            yield self._connection

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        with self._lock, explained(self.path):
            try:
                self._connection.execute(begin)
                yield
                self._connection.execute("COMMIT")
            except BaseException as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CORRUPT:
                    suspect(self.path)
                # On a full disk SQLite has rolled back already.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise


def _identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of a file; None if it does not exist."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


# ------------------------------------------------------------------ faults


_ELSEWHERE = "Choose another file"
_FULL = ("The disk that holds the database {path} is full.", "Free some space, or choose a file on another disk")
_READ_ONLY = ("Cannot write the database {path}: the file or its folder is read-only.", _ELSEWHERE)
_LOCKED = ("The database {path} is locked by another program.", "Close that program, or choose another file")

_SENTENCES: dict[int, tuple[str, str]] = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_IOERR_SHMSIZE: _FULL,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_PERM: _READ_ONLY,
    sqlite3.SQLITE_CANTOPEN: ("Cannot open or create the database {path}.", _ELSEWHERE),
    sqlite3.SQLITE_NOTADB: ("The file {path} is not a database.", "It was not changed. Choose another file"),
    sqlite3.SQLITE_CORRUPT: ("The database {path} is damaged.", "To recover its runs, try `sqlite3 FILE .recover`"),
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_PROTOCOL: (
        "The file system that holds the database {path} cannot lock files.", "Choose a file on a local disk"
    ),
}  # fmt: skip
"""Code of SQLite → message, and what else to do or to choose."""

_REMEDIES = {
    sqlite3.SQLITE_CORRUPT: "The next run renames it and creates a new one. To recover its runs, try "
                            "`sqlite3 FILE .recover`.",
}  # fmt: skip
"""Code of SQLite → what to do if the file is the history, unless --db helps."""


def sentence_for(error: Exception, path: Path) -> StoreError:
    """Return the error about the database at `path`. Unknown codes quote SQLite's message."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None:
        # The low byte is the general code; the rest distinguishes variants that share a message.
        known = _SENTENCES.get(code) or _SENTENCES.get(code & 0xFF)
        if known is not None:
            kind = LockedError if code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) else StoreError
            return kind(known[0].format(path=path), _REMEDIES.get(code & 0xFF, ""), choose=known[1])
    reason = error.strerror if isinstance(error, OSError) else error
    return StoreError(f"Cannot use the database {path}: {reason}.", choose=_ELSEWHERE)


def locked(path: Path) -> StoreError:
    """Return the error that the database at `path` is locked."""
    return LockedError(_LOCKED[0].format(path=path), choose=_LOCKED[1])


def is_full(error: StoreError) -> bool:
    """Whether the disk is full."""
    return (
        getattr(error.__cause__, "sqlite_errorcode", None) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)
        or getattr(error.__cause__, "errno", None) == errno.ENOSPC
    )


def is_of_the_write(error: StoreError) -> bool:
    """Whether the data itself was refused, so that another attempt would fail as well."""
    refusals = (ValueError, OverflowError, LookupError, sqlite3.IntegrityError, sqlite3.DataError)
    return isinstance(error.__cause__, refusals)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and of data conversion into a `StoreError` about the database at `path`.

    A LookupError means that a newer version has removed a column or key.
    """
    try:
        yield
    except (sqlite3.Error, OSError, ValueError, OverflowError, LookupError) as error:
        raise sentence_for(error, path) from error


# ------------------------------------------------------------------ a damaged database


JOURNALS = ("", "-wal", "-shm", "-journal")
"""Suffixes of the files of one database. The newest runs may be in `-wal`."""


def is_damaged(error: sqlite3.Error, path: Path, *, default_place: bool) -> bool:
    """Return whether the error means that a database of this program is damaged.

    A file without the application id may be any file, named by mistake with --db. The default path holds only
    databases of this program, even if their first page is damaged.
    """
    if getattr(error, "sqlite_errorcode", 0) & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return False
    with path.open("rb") as file:
        application_id = int.from_bytes(file.read(72)[68:], "big")  # fileformat2.html: offset 68
    return default_place or application_id == schema.APPLICATION_ID


def set_aside(path: Path) -> Path:
    """Rename a damaged database and its journals; return the new path.

    Raises:
        OSError: a file cannot be renamed.
    """
    stem = aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
    count = 1
    while aside.exists():
        count += 1
        aside = stem.with_name(f"{stem.name}-{count}")
    for ending in JOURNALS:
        with suppress(FileNotFoundError):
            path.with_name(path.name + ending).rename(aside.with_name(aside.name + ending))
    _suspicion(path).unlink(missing_ok=True)
    return aside


def suspect(path: Path) -> None:
    """Note on disk that the file may be damaged, so that the next opening checks all of it."""
    with suppress(OSError):
        _suspicion(path).touch(mode=OWNER_FILE)


def confirm(connection: sqlite3.Connection, path: Path) -> None:
    """Check the whole file if `suspect` was called. Not done always, because 200 MB take 1 s.

    Raises:
        sqlite3.DatabaseError: the file is damaged.
    """
    if not _suspicion(path).exists():
        return
    with closing(connection.execute("PRAGMA quick_check(1)")) as found:
        finding = found.fetchone()[0]
    if finding != "ok":
        error = sqlite3.DatabaseError(finding)
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error
    _suspicion(path).unlink(missing_ok=True)


def _suspicion(path: Path) -> Path:
    return path.with_name(f"{path.name}.suspected")
