"""A damaged database is kept aside under another name, for whoever can save its content, and a new one is begun."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path

from cpugpu_tui.config.files import OWNER_FILE
from cpugpu_tui.store import schema

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
