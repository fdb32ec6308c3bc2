"""Reads files that a person names: never without an end, and never waiting for a pipe."""

from __future__ import annotations

import os
import stat
from pathlib import Path

MOST_OF_A_DEVICE = 1_000_000
"""Bytes read of a device: /dev/zero has no end, and holds nothing that anybody could want."""


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
