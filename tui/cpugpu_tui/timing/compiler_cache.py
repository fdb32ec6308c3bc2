"""The folder that keeps what the compiler found out about this machine, so that its start-up happens once.

torch's compiler tries out vector instructions with small C++ programs before it compiles anything: 51 s on an H200
server, 10 s on two cores. What it finds depends on torch, the C++ compiler and the CPU, which are the folder's name.
The folder holds libraries that will be loaded, so nobody else may write to it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder

from cpugpu_tui.machine.processes import SCRATCH

LEAST_FREE_BYTES = 64 << 20
"""On a disk with less free space the files go to a temporary folder: a full one would look like an old CPU."""

LOCK_LIMIT_S = 180.0
"""How long to wait for another agent that fills the folder, three times what that takes."""

LOCK_POLL_S = 0.1

LOCK = "lock"

KEPT = "CPUGPU_TUI_KEPT_FILES"
"""Variable of an agent that has a person's code from another machine."""


@dataclass(frozen=True)
class CompilerFolder:
    """Where the compiler keeps its files while it starts."""

    path: str
    marker: str = ""
    """File that says that the start-up has ended well; empty in a temporary folder."""
    why_temporary: str = ""

    @property
    def is_ready(self) -> bool:
        """Whether an earlier start-up has filled it."""
        return bool(self.marker) and os.path.exists(self.marker)

    def note_works(self, probe: str) -> None:
        """Note that the CPU runs what a probe was built from."""
        with open(self._probe(probe), "wb"):
            pass

    def works(self, probe: str) -> bool:
        """Whether an earlier start-up found that the CPU runs it."""
        return os.path.exists(self._probe(probe))

    def _probe(self, probe: str) -> str:
        return os.path.join(self.path, f"works-{hashlib.sha256(probe.encode()).hexdigest()[:16]}")

    def note_ready(self) -> None:
        """Note that the start-up has ended well, atomically."""
        if self.marker and not self.is_ready:
            with tempfile.NamedTemporaryFile(dir=self.path, delete=False) as file:
                pass
            os.replace(file.name, self.marker)


@contextmanager
def kept_folder(kind: str) -> Iterator[CompilerFolder]:
    """Yield the folder of this machine, locked, for a kind of device; a temporary one if it cannot be used."""
    path = os.path.join(kept_files(), f"compiler-{_fingerprint()}")
    marker = os.path.join(path, f"ready-{kind}")
    lock, why = -1, ""
    try:
        lock = _locked(path, marker)
    except OSError as error:
        why = f"{path}: {error.strerror or error}"
    if lock < 0:
        with temporary_folder() as folder:
            yield CompilerFolder(folder, why_temporary=why)
        return
    try:
        found = CompilerFolder(path, marker)
        if not any(name.startswith("ready-") for name in os.listdir(path)):
            _empty(path)  # left by a start-up that did not end
        yield found
    finally:
        os.close(lock)


@contextmanager
def temporary_folder() -> Iterator[str]:
    """Yield a new folder, and remove it."""
    folder = tempfile.mkdtemp(prefix=f"{SCRATCH}{os.getpid()}-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _locked(path: str, marker: str) -> int:
    """Make the folder if it is missing; return its lock, shared once the marker is there: then agents only load it.

    Raises:
        OSError: it cannot be made or written, is not this user's alone, or another agent does not release it.
    """
    make_private(path)
    lock = os.open(os.path.join(path, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    ends = time.monotonic() + LOCK_LIMIT_S
    while True:
        try:
            fcntl.flock(lock, (fcntl.LOCK_SH if os.path.exists(marker) else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > ends:
                os.close(lock)
                raise
            time.sleep(LOCK_POLL_S)
        except OSError:
            os.close(lock)
            raise
        else:
            return lock


def make_private(path: str) -> None:
    """Make a folder whose files are loaded as code, if it is missing.

    Raises:
        OSError: it cannot be made, is not this user's alone, or its disk is almost full.
    """
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise PermissionError(None, "Not a folder of this user alone")
    free = os.statvfs(path)
    if free.f_bavail * free.f_frsize < LEAST_FREE_BYTES:
        raise OSError(None, "Less than 64 MB free")


def _empty(path: str) -> None:
    for entry in os.scandir(path):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        elif entry.name != LOCK:
            os.unlink(entry.path)


def kept_files() -> str:
    """Return the folder for files that are kept, but can be made again. `KEPT` names it where nothing is to stay."""
    if kept := os.environ.get(KEPT):
        return kept
    home = os.environ.get("XDG_CACHE_HOME", "")
    return os.path.join(home if os.path.isabs(home) else os.path.expanduser("~/.cache"), "cpugpu-tui")


def _fingerprint() -> str:
    """Return a name for torch, Python, C++ compiler and CPU together."""
    import torch

    parts = (
        torch.__version__, str(torch.version.git_version), str(torch.version.cuda), platform.python_version(),
        platform.machine(), _compiler_version(), _cpu_flags(),
    )  # fmt: skip
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _compiler_version() -> str:
    command = os.environ.get("CXX", "g++")
    try:
        done = subprocess.run([command, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return command
    return f"{command} {done.stdout.partition(chr(10))[0]}"


def _cpu_flags() -> str:
    """Return the CPU's flags as Linux lists them; empty if it does not."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            return next((line.strip() for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        return ""


# ------------------------------------------------------------------ bytecode of torch


def keep_bytecode() -> None:
    """Let this process keep bytecode in the cache, if torch has none; without a folder that is safe, do nothing.

    Images of containers are often built without bytecode and set `PYTHONDONTWRITEBYTECODE`, or are read-only. Each
    start of Python then compiles the sources of torch: on an H100 server an import of torch took 6 s instead of 3 s.
    """
    if not lacks_bytecode(PathFinder.find_spec("torch")):
        return
    folder = os.path.join(kept_files(), "bytecode")
    with suppress(OSError):
        make_private(folder)
        sys.pycache_prefix, sys.dont_write_bytecode = folder, False


def lacks_bytecode(spec: ModuleSpec | None) -> bool:
    """Whether a package has no bytecode, and Python will not write it beside the source."""
    if spec is None or spec.origin is None or spec.cached is None or os.path.exists(spec.cached):
        return False
    return sys.dont_write_bytecode or not os.access(os.path.dirname(spec.origin), os.W_OK)
