"""Where things live, by the XDG rules, and which journal a database can have there.

SQLite's WAL keeps an index in memory that is shared between processes of one host; on a network file system two hosts
would each have their own, and homes on clusters are network file systems.
"""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

import platformdirs

from cpugpu_tui.config.files import create_private_folder
from cpugpu_tui.errors import StoreError, UsageError
from cpugpu_tui.machine.text import printable

APP = "cpugpu-tui"
"""Name of our folder inside each of the XDG folders."""

DATABASE_VARIABLE = "CPUGPU_DB"
"""Environment variable that names the database."""

_NETWORK = re.compile(r"nfs\d?|cifs|smb\d|smbfs|lustre|gpfs|beegfs.*|ceph|afs|9p|fuse\.(sshfs|ceph.*|glusterfs|gvfs.*)")


def data_dir() -> Path:
    """Folder of what must not be lost: the database."""
    return platformdirs.user_data_path(APP, appauthor=False)


def config_dir() -> Path:
    """Folder of what the person writes: settings, themes, keymap, workload files."""
    return platformdirs.user_config_path(APP, appauthor=False)


def state_dir() -> Path:
    """Folder of what may be deleted at any time: log, lock, window layout."""
    return platformdirs.user_state_path(APP, appauthor=False)


def default_database_path() -> Path:
    """Database of a person who named none; its folder may have to be created.

    On a network file system, where homes of clusters lie, every machine has one of its own, with its name in it.
    """
    path = local_database_path()
    return host_in_name(path, socket.gethostname()) if is_on_network(path) else path


def local_database_path() -> Path:
    """The default database of a home on a local disk."""
    return data_dir() / "results.db"


def database_path(override: Path | None = None) -> Path:
    """Return the database: `override` (`--db`), else `$CPUGPU_DB`, else the default place.

    A leading `~` is expanded, because no shell expands it in `--db=~/x.db` or in an environment file.

    Raises:
        StoreError: no file can have this name, or nobody may look where it is.
    """
    named = str(override) if override is not None else os.environ.get(DATABASE_VARIABLE, "")
    path = Path(os.path.expanduser(named)) if named else default_database_path()
    try:
        path.exists()  # asked here once: elsewhere nobody expects it to fail
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        shown = printable(str(path))
        raise StoreError(f"The database {shown} cannot be used: {reason}.", "Name another file with --db.") from None
    return path


def absolute(text: str) -> str:
    """Return the absolute path of a file or folder, as an agent is told it; a leading `~` is expanded.

    Raises:
        UsageError: a folder above it has a name that cannot be told: what agents read is UTF-8.
    """
    path = os.path.abspath(os.path.expanduser(text))
    if not path.isprintable() and any("\ud800" <= character <= "\udfff" for character in path):
        raise UsageError(f"The path {os.fsencode(path)!r} is not UTF-8.", "Rename that folder, or work in another.")
    return path


def log_path() -> Path:
    """File of the app's log."""
    return state_dir() / "log.txt"


# ------------------------------------------------------------------ the file system of a database


def journal_mode(folder: Path, mountinfo: str) -> str:
    """Return `WAL`, or `DELETE` where `folder` (absolute, without links) lies on a network file system.

    `mountinfo` is the text of /proc/self/mountinfo (man 5 proc); an empty one means unknown, hence WAL.
    """
    best, kind = -1, ""
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        if not right:
            continue
        point = Path(_unescaped(left.split()[4]))
        # A later mount on the same point hides the earlier one, hence >=.
        if len(point.parts) >= best and folder.is_relative_to(point):
            best, kind = len(point.parts), right.split()[0]
    return "DELETE" if _NETWORK.fullmatch(kind) else "WAL"


def is_on_network(path: Path) -> bool:
    """Return whether a file at `path`, which need not be there yet, lies on a network file system."""
    # os.path: what may not be looked into counts as missing, where Path raises.
    folder = next(folder for folder in path.absolute().parents if os.path.exists(folder))
    return journal_mode(folder.resolve(), mounts()) == "DELETE"


def host_in_name(path: Path, hostname: str) -> Path:
    """Return the file's name with the machine's in it: `results-node1.db`. Two machines must not write one file."""
    return path.with_name(f"{path.stem}-{re.sub(r'[^A-Za-z0-9.-]', '_', hostname) or 'host'}{path.suffix}")


def mounts() -> str:
    """Return the text of /proc/self/mountinfo, empty where there is none."""
    try:
        return Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def _unescaped(text: str) -> str:
    """Undo the kernel's octal escapes of blanks in paths."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def prepare_folder(path: Path, create_parents: bool) -> None:
    """Make sure that a database file can lie at `path`.

    Raises:
        StoreError: the folder is missing (and `create_parents` is off) or cannot be created, or `path` is a folder.
    """
    folder = path.parent
    if create_parents:
        try:
            create_private_folder(folder)
        except OSError as error:
            raise StoreError(
                f"The folder {folder} for the database cannot be created: {error.strerror}.",
                "Name a file elsewhere with --db, or save nothing with --no-save.",
            ) from error
    if not folder.is_dir():
        raise StoreError(
            f"The folder {folder} of the database does not exist.", "Create it, or name another file with --db."
        )
    if path.is_dir():
        raise StoreError(
            f"The database {path} is a folder.", "Name a file with --db, for example results.db inside it."
        )
