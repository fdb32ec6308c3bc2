"""Settings from flags, environment and file, checked in one place. Nothing here writes.

`load_config` finds and loads the config file. Without one no parser is imported: the app's first frame waits for it.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from cpugpu_tui.config import paths
from cpugpu_tui.config.settings import EMPTY, FILE_NAME, Config


def config_path() -> Path:
    """Return the path of the config file, whether or not it exists."""
    return paths.config_dir() / FILE_NAME


def load_config() -> Config:
    """Return the config; an empty one without a file.

    Raises:
        UsageError: the file cannot be read, or is invalid; the message names the line.
    """
    file = config_path()
    with suppress(PermissionError):  # the folder may be unreadable; then `read` raises the error
        if not file.exists():
            return EMPTY
    from cpugpu_tui.config.config_file import read

    return read(file)
