"""The version of the NVIDIA driver as the kernel tells it: a file to read, no session with the driver to open."""

from __future__ import annotations

import re
from pathlib import Path

PATH = Path("/proc/driver/nvidia/version")
"""Its first line: `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build …`."""


def driver_version(path: Path = PATH) -> str | None:
    """Return the version, like `580.95.05`; None without a driver, or where its file says something else."""
    try:
        first = path.read_text(errors="replace").splitlines()[:1]
    except OSError:
        return None
    found = re.search(r"\s(\d{3,4}(?:\.\d+)+)\s", " ".join(first) + " ")
    return found.group(1) if found else None
