"""SQLite's error codes as sentences for the person whose history is at stake."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cpugpu_tui.errors import LockedError, StoreError

_ELSEWHERE = "Name another file with --db, or save nothing with --no-save."
_FULL = (
    "The disk that holds the database {path} is full.",
    "Free some space, or name a file on another disk with --db.",
)
_READ_ONLY = ("The database {path} cannot be written: the file or its folder is read-only.", _ELSEWHERE)
_LOCKED = (
    "The database {path} is locked by another program.",
    "Close that program, or name another file with --db.",
)

_SENTENCES: dict[int, tuple[str, str]] = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_IOERR_SHMSIZE: _FULL,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_PERM: _READ_ONLY,
    sqlite3.SQLITE_CANTOPEN: ("The database {path} can neither be opened nor created.", _ELSEWHERE),
    sqlite3.SQLITE_NOTADB: ("The file {path} is not a database.", "It was left as it is; name another file with --db."),
    sqlite3.SQLITE_CORRUPT: (
        "The database {path} is damaged.",
        "The next run keeps it aside and begins a new one; `sqlite3 FILE .recover` may save what is in it.",
    ),
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_PROTOCOL: (
        "The file system that holds the database {path} cannot lock files.",
        "Name a file on a local disk with --db.",
    ),
}


def sentence_for(error: Exception, path: Path) -> StoreError:
    """Return the failure of the database at `path` in words; codes without a sentence of their own quote SQLite."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None:
        # The low byte is the general code, the rest tells variants that one sentence covers.
        known = _SENTENCES.get(code) or _SENTENCES.get(code & 0xFF)
        if known is not None:
            kind = LockedError if code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) else StoreError
            return kind(known[0].format(path=path), known[1])
    return StoreError(f"The database {path} cannot be used: {error}.", _ELSEWHERE)


def locked(path: Path) -> StoreError:
    """Return that the database at `path` is locked."""
    return LockedError(_LOCKED[0].format(path=path), _LOCKED[1])


def is_full(error: StoreError) -> bool:
    """Whether the database failed for want of space."""
    return (
        getattr(error.__cause__, "sqlite_errorcode", None)
        in (
            sqlite3.SQLITE_FULL,
            sqlite3.SQLITE_IOERR_SHMSIZE,
        )
        or getattr(error.__cause__, "errno", None) == errno.ENOSPC
    )


def is_of_the_write(error: StoreError) -> bool:
    """Whether the database refused what was to be written, so that trying again is in vain."""
    refusals = (ValueError, OverflowError, LookupError, sqlite3.IntegrityError, sqlite3.DataError)
    return isinstance(error.__cause__, refusals)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what SQLite and the conversion of values raise into a `StoreError` about the database at `path`.

    LookupError is a column or key that a newer version no longer has.
    """
    try:
        yield
    except (sqlite3.Error, OSError, ValueError, OverflowError, LookupError) as error:
        raise sentence_for(error, path) from error
