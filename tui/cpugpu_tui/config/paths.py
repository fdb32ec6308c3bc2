"""Folders and files of the program: where they are, and how private ones are made and read.

A history holds command lines, paths and names of other users' processes, so others must not read it.
SQLite's WAL needs memory that all writers share. On a network file system, where homes of clusters lie, two hosts do
not share memory, so WAL cannot be used there.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import platformdirs

from cpugpu_tui.errors import StoreError, UsageError, home_path, kind_of
from cpugpu_tui.machine.text import printable

APP = "cpugpu-tui"
"""Name of the app's folder in each XDG folder."""

typed_database: Path | None = None
"""File of `--db` on this command line; None if none is there. One in the environment or the config stays in force."""

_NETWORK = r"nfs\d?|cifs|smb\d|smbfs|lustre|gpfs|beegfs.*|ceph|afs|9p|fuse\.(sshfs|ceph.*|glusterfs|gvfs.*)"


def data_dir() -> Path:
    """Folder of data that must not be lost: the database."""
    return platformdirs.user_data_path(APP, appauthor=False)


def config_dir() -> Path:
    """Folder of files that the user writes: settings, themes, keys, workloads."""
    return platformdirs.user_config_path(APP, appauthor=False)


def default_database_path() -> Path:
    """Path of the default database; its folder may not exist yet.

    On a network file system each machine has its own, like `results-node1.db`: two hosts must not write one file.
    """
    from cpugpu_tui.machine.procfs import hostname

    path = local_database_path()
    # os.path.exists: False for a folder that cannot be searched, where Path.exists raises.
    folder = next(folder for folder in path.absolute().parents if os.path.exists(folder))
    if journal_mode(folder.resolve(), mounts()) == "WAL":
        return path
    return path.with_name(f"{path.stem}-{re.sub(r'[^A-Za-z0-9.-]', '_', hostname()) or 'host'}{path.suffix}")


def local_database_path() -> Path:
    """Path of the default database when the home folder is on a local disk."""
    return data_dir() / "results.db"


@contextmanager
def named(database: Path | None) -> Iterator[None]:
    """Let the commands printed meanwhile name this database, which was typed with `--db`."""
    global typed_database
    typed_database = database
    try:
        yield
    finally:
        typed_database = None


def with_database(command: str) -> str:
    """Return a printed command that uses the history, with the `--db` of this command line."""
    if typed_database is None:
        return command
    import shlex

    return f"{command} --db {shlex.quote(printable(str(typed_database)))}"


def database_path(override: Path | None = None) -> Path:
    """Return the path of the database: `override` (`--db`), else `$CPUGPU_DB`, else the default.

    A leading `~` is expanded, because no shell expands it in `--db=~/x.db` or in an environment file.

    Raises:
        StoreError: the name is invalid, or its folder cannot be searched.
    """
    named = str(override) if override is not None else os.environ.get("CPUGPU_DB", "")
    path = Path(home_path(named)) if named else default_database_path()
    try:
        path.exists()  # may raise; checked once here, so that later callers need not
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        shown = printable(str(path))
        raise StoreError(f"Cannot use the database {shown}: {reason}.", choose="Choose another file") from None
    return path


def absolute(text: str) -> str:
    """Return the absolute path of a file or folder for an agent; a leading `~` is expanded.

    Raises:
        UsageError: the path is not UTF-8, so it cannot be sent to an agent.
    """
    path = os.path.abspath(home_path(text))
    if not path.isprintable() and any("\ud800" <= character <= "\udfff" for character in path):
        raise UsageError(f"The path {os.fsencode(path)!r} is not UTF-8.", "Rename that folder, or use another one.")
    return path


def log_path() -> Path:
    """Path of the app's log, in the folder of files that may be deleted at any time."""
    return platformdirs.user_state_path(APP, appauthor=False) / "log.txt"


# ------------------------------------------------------------------ the file system of a database


def journal_mode(folder: Path, mountinfo: str) -> str:
    """Return `WAL`, or `DELETE` if `folder` (absolute, without links) is on a network file system.

    `mountinfo` is the text of /proc/self/mountinfo (man 5 proc); if it is empty, the result is WAL.
    """
    best, kind = -1, ""
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        if not right:
            continue
        # The kernel writes blanks in paths as octal numbers.
        point = Path(re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), left.split()[4]))
        # A later mount on the same point hides the earlier one, hence >=.
        if len(point.parts) >= best and folder.is_relative_to(point):
            best, kind = len(point.parts), right.split()[0]
    return "DELETE" if re.fullmatch(_NETWORK, kind) else "WAL"


def mounts() -> str:
    """Return the text of /proc/self/mountinfo; empty on systems without it."""
    try:
        return Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def prepare_folder(path: Path, create_parents: bool) -> None:
    """Check that a database file can be created or opened at `path`.

    Raises:
        StoreError: the folder is missing (and `create_parents` is off) or cannot be created, or `path` is a folder.
    """
    folder = path.parent
    if create_parents:
        try:
            create_private_folder(folder)
        except OSError as error:
            raise StoreError(
                f"Cannot create the folder {folder} for the database: {error.strerror}.", choose="Choose another file"
            ) from error
    if not folder.is_dir():
        raise StoreError(
            f"The folder {folder} of the database does not exist.", choose="Create it, or choose another file"
        )
    if (kind := kind_of(path)) not in ("", "a file"):
        example = f" such as {path / 'results.db'}" if kind == "a folder" else ""
        raise StoreError(f"The database '{path}' is {kind}, not a file.", choose=f"Choose a file{example}")


# ------------------------------------------------------------------ files


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
