"""The driver's library as a file: one that is there and cannot be loaded is another fault than one that is missing."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

NAME = "libnvidia-ml.so.1"
_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/lib64", "/lib",
    "/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib",
)  # fmt: skip


def unloadable() -> tuple[Path, str] | None:
    """Return the library's file and why the system does not load it; None where there is no such file."""
    named = filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))
    for folder in (*named, *_FOLDERS):
        file = Path(folder, NAME)
        if file.exists():
            try:
                ctypes.CDLL(str(file))
            except OSError as error:
                return file, str(error).removeprefix(f"{file}: ")
    return None
