"""A person's code on another machine: its files come with the agent, and their folder goes with its process."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from cpugpu_tui import model
from cpugpu_tui.machine.processes import SCRATCH
from cpugpu_tui.model.names import CODE
from cpugpu_tui.timing.channel import ALIVE, SENT
from cpugpu_tui.timing.compiler_cache import KEPT

CACHES = (
    KEPT, "CUDA_CACHE_PATH", "CUPY_CACHE_DIR", "NUMBA_CACHE_DIR", "PYTHONPYCACHEPREFIX", "TORCHINDUCTOR_CACHE_DIR",
    "TORCH_EXTENSIONS_DIR", "TRITON_CACHE_DIR",
)  # fmt: skip
"""Variables that name folders in which libraries keep what they compile, below the home folder by default."""

_folder = ""
"""The folder of this process; empty for none."""


def unpack(arguments: Sequence[str]) -> str:
    """Write the files that came with the agent; return the folder below which their paths are as they were.

    What libraries compile is kept in that folder, too. Returns an empty text if no code comes from another machine.
    """
    global _folder
    if CODE not in arguments or ALIVE not in arguments:
        return ""
    _folder = tempfile.mkdtemp(prefix=f"{SCRATCH}{os.getpid()}-")  # the guardian removes it if this process is killed
    signal.signal(signal.SIGTERM, lambda number, _frame: leave(128 + number))
    with zipfile.ZipFile(sys.argv[0]) as archive:
        archive.extractall(_folder, [name for name in archive.namelist() if name.startswith(f"{SENT}/")])
    for name in CACHES:
        os.environ.setdefault(name, os.path.join(_folder, name.lower()))
    return os.path.join(_folder, SENT)


def placed(code: model.OwnCode, root: str) -> model.OwnCode:
    """Return code whose file lies below `root`."""
    target = (root + code.target[0], *code.target[1:]) if code.sha256 else code.target
    return replace(code, target=target, sides=tuple(placed(side, root) for side in code.sides))


def leave(code: int) -> NoReturn:
    """End this process at once, whatever other threads do, and remove its folder."""
    if _folder:
        shutil.rmtree(_folder, ignore_errors=True)
    os._exit(code)
