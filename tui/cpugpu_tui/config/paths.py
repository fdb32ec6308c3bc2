"""Where things live, by the XDG rules. Nothing here creates a folder; whoever writes a file does."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import platformdirs

from cpugpu_tui.errors import StoreError, UsageError
from cpugpu_tui.machine.text import printable

APP = "cpugpu-tui"
"""Name of our folder inside each of the XDG folders."""

DATABASE_VARIABLE = "CPUGPU_DB"
"""Environment variable that names the database."""


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
    # The store imports this module.
    from cpugpu_tui.config.filesystem import host_in_name, is_on_network

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
