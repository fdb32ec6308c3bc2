"""Read files up to a size limit, and create files that only their owner can read.

A history holds command lines, paths and names of other users' processes, so others must not read it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

OWNER_FILE, OWNER_FOLDER = 0o600, 0o700
OTHERS = 0o077
"""Permission bits of everyone except the owner."""

MOST_OF_A_DEVICE = 1_000_000
"""Bytes read from a device at most: /dev/zero never ends."""


def create_private(path: Path) -> None:
    """Create an empty file with mode 0600, whatever the umask; leave an existing file unchanged.

    SQLite treats an empty file as a new database, and gives its journals the mode of the database. Failures are
    ignored here: SQLite then fails as well, and its error gives the reason.
    """
    with suppress(OSError):
        # realpath, because SQLite creates the target of a dangling link.
        descriptor = os.open(os.path.realpath(path), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OWNER_FILE)
        try:
            os.fchmod(descriptor, OWNER_FILE)  # the umask may have cleared the owner's bits
        finally:
            os.close(descriptor)


def create_private_folder(folder: Path) -> None:
    """Create a folder with mode 0700, its parents by the umask; leave an existing folder unchanged.

    Raises:
        OSError: the folder cannot be created.
    """
    if not folder.is_dir():
        folder.mkdir(mode=OWNER_FOLDER, parents=True, exist_ok=True)
        folder.chmod(OWNER_FOLDER)


def tighten(database: Path) -> str | None:
    """Remove other users' access to the folder of the default database and its files; return a notice if any had it.

    Files of other owners and links are left alone: a link leads to a folder that the user chose.
    """
    folder = database.parent
    changed = _tightened(folder, stat.S_ISDIR, OWNER_FOLDER)
    with suppress(OSError):
        for name in os.listdir(folder):
            if name.startswith(database.name):
                changed |= _tightened(folder / name, stat.S_ISREG, OWNER_FILE)
    if not changed:
        return None
    return f"Other users could read the history in {folder}. Its folder now has mode 0700, its files 0600."


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
    """Return the content of a file, or its first `most_bytes` + 1 bytes if it is larger.

    A named pipe without a writer reads as empty; an ordinary open would wait for a writer, possibly for ever.

    Raises:
        OSError: the file cannot be read.
        ValueError: the path contains a null byte.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        os.set_blocking(descriptor, True)
        is_endless = stat.S_ISCHR(os.fstat(descriptor).st_mode) and not os.isatty(descriptor)
        return file.read(min(most_bytes, MOST_OF_A_DEVICE) if is_endless else most_bytes + 1)
