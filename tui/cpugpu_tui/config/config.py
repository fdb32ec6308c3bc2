"""Where the config file is, and what it says. Nothing here writes.

Without a file nothing is parsed: the app's first frame waits for this.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from cpugpu_tui.config import paths
from cpugpu_tui.config.settings import EMPTY, FILE_NAME, Config


def path() -> Path:
    """Return where the config is, whether there is one or not."""
    return paths.config_dir() / FILE_NAME


def load() -> Config:
    """Return what the config says; without a file nothing.

    Raises:
        UsageError: it cannot be read or is wrong; the sentence names the line.
    """
    file = path()
    with suppress(PermissionError):  # a folder into which nobody may look: `read` says so
        if not file.exists():
            return EMPTY
    from cpugpu_tui.config.config_file import read

    return read(file)
