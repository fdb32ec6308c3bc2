"""Files of a person: read with a bound, created for their owner alone.

A history holds command lines, paths and names of other users' processes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

OWNER_FILE, OWNER_FOLDER = 0o600, 0o700
OTHERS = 0o077
"""Permission bits of everybody but the owner."""

MOST_OF_A_DEVICE = 1_000_000
"""Bytes read of a device: /dev/zero has no end, and holds nothing that anybody could want."""


def create_private(path: Path) -> None:
    """Create an empty file with mode 0600, whatever the umask; leave a file that exists as it is.

    SQLite takes an empty file for a new database, and gives its journals the mode of the database. A file that cannot
    be created is left to SQLite, whose error says why.
    """
    with suppress(OSError):
        # realpath: SQLite creates the target of a dangling link, and so must this.
        descriptor = os.open(os.path.realpath(path), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OWNER_FILE)
        try:
            os.fchmod(descriptor, OWNER_FILE)  # a umask may have taken the owner's own bits
        finally:
            os.close(descriptor)


def create_private_folder(folder: Path) -> None:
    """Create a folder with mode 0700, and its parents as the umask says; leave one that exists as it is.

    Raises:
        OSError: it cannot be created.
    """
    if not folder.is_dir():
        folder.mkdir(mode=OWNER_FOLDER, parents=True, exist_ok=True)
        folder.chmod(OWNER_FOLDER)


def tighten(database: Path) -> str | None:
    """Take the folder of our default database, and its files, from everybody but the owner; return what was done.

    Only what this user owns is changed, and no link is followed: a link leads to a folder that the person chose.
    """
    folder = database.parent
    changed = _tightened(folder, stat.S_ISDIR, OWNER_FOLDER)
    with suppress(OSError):
        for name in os.listdir(folder):
            if name.startswith(database.name):
                changed |= _tightened(folder / name, stat.S_ISREG, OWNER_FILE)
    if not changed:
        return None
    return f"Other users could read the history in {folder}: its folder has mode 0700 now, its files 0600."


def _tightened(path: Path, is_kind: Callable[[int], bool], mode: int) -> bool:
    try:
        found = os.lstat(path)
        if not is_kind(found.st_mode) or found.st_uid != os.geteuid() or not found.st_mode & OTHERS:
            return False
        os.chmod(path, mode)
    except OSError:
        return False
    return True


def read_at_most(path: Path, most_bytes: int) -> bytes:
    """Return what a file holds, one byte more than `most_bytes` of one that is larger.

    A named pipe that nobody writes to is empty: opening it in the usual way waits for a writer, possibly for ever.

    Raises:
        OSError: it cannot be read.
        ValueError: there is a null byte in its name.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        os.set_blocking(descriptor, True)
        is_endless = stat.S_ISCHR(os.fstat(descriptor).st_mode) and not os.isatty(descriptor)
        return file.read(min(most_bytes, MOST_OF_A_DEVICE) if is_endless else most_bytes + 1)
