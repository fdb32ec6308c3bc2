"""SQLite's error codes as sentences for a person, and what becomes of a damaged database.

It is kept aside under another name, for whoever can save its content, and a new one is begun.
"""

from __future__ import annotations

import errno
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from cpugpu_tui.config.files import OWNER_FILE
from cpugpu_tui.errors import LockedError, StoreError
from cpugpu_tui.store import schema

_ELSEWHERE = "Name another file with --db, or save nothing with --no-save."
_FULL = (
    "The disk that holds the database {path} is full.",
    "Free some space, or name a file on another disk with --db.",
)
_READ_ONLY = ("The database {path} cannot be written: the file or its folder is read-only.", _ELSEWHERE)
_LOCKED = ("The database {path} is locked by another program.", "Close that program, or name another file with --db.")

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
        getattr(error.__cause__, "sqlite_errorcode", None) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)
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


# ------------------------------------------------------------------ a damaged database


JOURNALS = ("", "-wal", "-shm", "-journal")
"""What the names of the files of one database end in; the newest runs may be in the second."""


def is_damaged(error: sqlite3.Error, path: Path, *, default_place: bool) -> bool:
    """Return whether the error says that our own database is damaged.

    What carries another mark than ours, or none, may be dear to somebody who mistyped --db; at the default place
    there is nothing but ours, whatever its first page says by now.
    """
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return False
    return default_place or _application_id(path) == schema.APPLICATION_ID


def _application_id(path: Path) -> int:
    """Return what the file's header says (fileformat2.html: application id at 68)."""
    with path.open("rb") as file:
        return int.from_bytes(file.read(72)[68:], "big")


def set_aside(path: Path) -> Path:
    """Rename a database and its journals, and return the new name.

    Raises:
        OSError: they cannot be renamed.
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
    """Remember that reading or writing met damage: the whole file is looked at when it is opened next."""
    with suppress(OSError):
        _suspicion(path).touch(mode=OWNER_FILE)


def confirm(connection: sqlite3.Connection, path: Path) -> None:
    """Look at the whole file if it is suspected: 1 s for 200 MB, hence not always.

    Raises:
        sqlite3.DatabaseError: it is damaged.
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
