"""Finds the interpreter whose torch can use the GPU, for `--python auto`, `doctor` and the app.

Each interpreter is asked in a process of its own. All are killed at the limit, whatever they do.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO

from cpugpu_tui.machine.text import printable
from cpugpu_tui.transport.signal_watch import to_kill

LIMIT_S = 10.0
"""For all interpreters together. Importing torch takes 1 s from a warm cache and 5 s from a cold disk."""

AT_ONCE = 8
"""Processes at the same time: each that has torch takes 0.4 GB while it imports it."""

LONGEST_ANSWER = 1 << 16
"""Bytes that an interpreter may write; one that writes more is killed."""

POLL_S = 0.05
"""How often `should_stop` is asked."""

OLDEST = (3, 10)
"""Python that the agent needs."""

_MARK = "cpugpu-tui answer "
_QUESTION = f"""
import sys
sys.path[:] = [folder for folder in sys.path if folder]
import json, os, signal
signal.alarm({2 * LIMIT_S:.0f})
found = {{"python": list(sys.version_info[:2])}}
try:
    import torch
    found["torch"] = str(torch.__version__)
    found["has_cuda"] = bool(torch.version.cuda and torch.cuda.is_available())
except Exception:
    pass
sys.stdout.write("\\n{_MARK}" + json.dumps(found) + "\\n")
sys.stdout.flush()
os._exit(0)
"""
"""Nothing of ours, and nothing of the current folder, is imported; the alarm ends it where nobody else can."""


@dataclass(frozen=True)
class Interpreter:
    """An interpreter that has torch."""

    path: str
    torch: str
    """Version of torch."""
    has_cuda: bool
    """Whether its torch can use an NVIDIA GPU."""

    @property
    def rank(self) -> tuple[bool, tuple[int, ...]]:
        """Larger is better: a usable GPU first, then the newer torch."""
        numbers = self.torch.partition("+")[0].split(".")
        return self.has_cuda, tuple(int(part) for part in numbers if part.isascii() and part.isdecimal())

    @property
    def able(self) -> str:
        """What it can do, as the end of a sentence about it."""
        return f"has torch {self.torch}, {'which can use the GPU' if self.has_cuda else 'for the CPU only'}"


@dataclass(frozen=True)
class Choice:
    """The interpreter that `--python auto` takes."""

    python: str | None
    """Its path; None for the interpreter of this program."""
    sentence: str
    """What a person should know of the choice; empty where it is the default one and can use the GPU."""


def never() -> bool:
    """Return False: nobody stops the search."""
    return False


def choose(should_stop: Callable[[], bool] = never) -> Choice:
    """Return this program's own interpreter if its torch can use the GPU, else the best other one. Blocks for seconds.

    `should_stop` is polled; once it is True the search ends with what it has.
    """
    own = next(iter(ask((sys.executable,), should_stop)), None)
    if own is not None and own.has_cuda:
        return Choice(None, "")
    best = better_than(own, ask(_others(sys.executable, Path.cwd()), should_stop))
    if best is not None:
        return Choice(best.path, f"Using {best.path}: it {best.able}.")
    if own is None:
        return Choice(None, "No interpreter with torch was found.")
    none = "No interpreter was found whose torch can use the GPU"
    return Choice(None, f"{none}: using this program's own torch {own.torch}.")


def find_better(
    python: str | None, should_stop: Callable[[], bool] = never, folder: Path | None = None
) -> Interpreter | None:
    """Return the best interpreter that can do more than `python` (None: this program's own). Blocks for seconds.

    See `interpreters` for `folder`.
    """
    used = sys.executable if python is None else shutil.which(os.path.expanduser(python)) or python
    found = {each.path: each for each in ask((used, *_others(used, folder)), should_stop)}
    return better_than(found.pop(used, None), tuple(found.values()))


def _others(used: str, folder: Path | None) -> tuple[str, ...]:
    return interpreters(os.environ, Path(os.path.expanduser("~")), used, folder)


def better_than(own: Interpreter | None, found: Sequence[Interpreter]) -> Interpreter | None:
    """Return the best of those found; None if it can do no more than `own`, the interpreter used so far."""
    best = max(found, key=lambda each: each.rank, default=None)
    return best if best is not None and (own is None or (best.has_cuda and not own.has_cuda)) else None


def ask(pythons: Sequence[str], should_stop: Callable[[], bool] = never) -> tuple[Interpreter, ...]:
    """Return those of the interpreters that have torch, in the same order; none of them runs afterwards."""
    ends_s = time.monotonic() + LIMIT_S
    waiting, found = deque(pythons), list[Interpreter]()
    with selectors.DefaultSelector() as selector:
        asked: dict[int, _Asked] = {}
        try:
            while (waiting or asked) and time.monotonic() < ends_s and not should_stop():
                while waiting and len(asked) < AT_ONCE:
                    with suppress(OSError):  # it is no program, whatever its mode says
                        each = _Asked(waiting.popleft())
                        asked[each.descriptor] = each
                        selector.register(each.descriptor, selectors.EVENT_READ)
                for key, _ in selector.select(POLL_S):
                    if asked[key.fd].read():
                        continue
                    selector.unregister(key.fd)
                    each = asked.pop(key.fd)
                    each.close()
                    found += filter(None, [each.answer()])
        finally:
            for each in asked.values():
                each.signal(signal.SIGKILL)
            for each in asked.values():
                each.close()
    return tuple(sorted(found, key=lambda each: pythons.index(each.path)))


class _Asked:
    """An interpreter that is being asked, in a process group of its own."""

    def __init__(self, python: str) -> None:
        """Start it.

        Raises:
            OSError: it cannot be executed.
        """
        self._python = python
        self._said = b""
        self._process = subprocess.Popen(
            [python, "-c", _QUESTION], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        to_kill.add(self)

    @property
    def _output(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    @property
    def descriptor(self) -> int:
        """Where its answer comes from."""
        return self._output.fileno()

    def read(self) -> bool:
        """Take what it has written; return whether more is to be expected."""
        part = os.read(self.descriptor, LONGEST_ANSWER)
        self._said += part
        return bool(part) and len(self._said) < LONGEST_ANSWER and not self._said.endswith(b"}\n")

    def signal(self, number: int) -> None:
        """Send a signal to it and to what it started."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def close(self) -> None:
        """Kill it; one that the kernel cannot end now is left to the kernel."""
        self.signal(signal.SIGKILL)
        self._output.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(POLL_S)

    def answer(self) -> Interpreter | None:
        """Return what it said of itself; None if that is no answer, or it cannot be an agent."""
        lines = self._said[:LONGEST_ANSWER].decode(errors="replace").splitlines()
        texts = [line.removeprefix(_MARK) for line in lines if line.startswith(_MARK)]
        with suppress(ValueError, TypeError, KeyError, RecursionError):
            said = json.loads(texts[-1]) if texts else {}
            if tuple(said["python"]) >= OLDEST and said["torch"]:
                return Interpreter(self._python, printable(str(said["torch"]), 40), said["has_cuda"] is True)
        return None


# ------------------------------------------------------------------ where interpreters are


AUTO = "auto"
"""What `--python` is called where the interpreter is to be found."""

MOST = 32
"""Interpreters that are asked at most; a person who has more names one with --python."""

_ON_PATH = re.compile(r"python3(\.\d+)?")
_CONDA_ROOTS = ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", "/opt/conda")
"""Where conda's installers put it: below the home folder, and in most images for containers."""
_LONGEST_LIST = 1 << 16
"""Bytes of conda's list of environments that are read."""


def interpreters(environ: Mapping[str, str], home: Path, used: str, folder: Path | None = None) -> tuple[str, ...]:
    """Return paths of interpreters other than `used`, most likely first, each environment once.

    `folder` is searched for `.venv` and `venv`. Leave it out where nobody asked for a search: whoever wrote the folder
    would choose a program that is run.
    """
    seen = {_identity(Path(used))}
    return tuple(islice(_new_ones(_places(environ, home, folder), seen), MOST))


def _new_ones(places: Iterable[Path], seen: set[str]) -> Iterator[str]:
    for path in places:
        # A path that cannot be printed could be neither named nor recorded.
        if not path.is_absolute() or not str(path).isprintable():
            continue
        if not os.path.isfile(path) or not os.access(path, os.X_OK):
            continue
        if (identity := _identity(path)) not in seen:
            seen.add(identity)
            yield str(path)


def _identity(python: Path) -> str:
    """Return what two paths of one environment share.

    A virtual environment's interpreter is a link to the one that made it, so that its folder counts.
    """
    environment = python.parent.parent
    is_environment = any(os.path.exists(environment / name) for name in ("pyvenv.cfg", "conda-meta"))
    return os.path.realpath(environment if is_environment else python)


def _places(environ: Mapping[str, str], home: Path, folder: Path | None) -> Iterator[Path]:
    """Yield interpreters that there may be, most likely first."""
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if active := environ.get(name):
            yield _python_of(Path(active))
    if folder is not None:
        yield from (_python_of(folder / name) for name in (".venv", "venv") if _is_trusted(folder / name))
    yield from map(_python_of, _conda_environments(environ, home))
    yield from map(_python_of, _below(Path(environ.get("PYENV_ROOT") or home / ".pyenv") / "versions"))
    yield from map(_python_of, _below(home / ".virtualenvs"))
    yield from map(_python_of, _below(home / ".local/share/uv/python"))
    # pyenv's shims are its versions, one after the other, by way of a shell script.
    folders = [Path(part) for part in environ.get("PATH", "").split(os.pathsep) if part and not part.endswith("/shims")]
    yield from (path for each in folders for path in _below(each) if _ON_PATH.fullmatch(path.name))
    yield Path(sys.executable)


def _python_of(environment: Path) -> Path:
    return environment / "bin" / "python"


def _is_trusted(environment: Path) -> bool:
    """Whether it belongs to this user or to root: in a shared folder such as /tmp anybody can make one."""
    try:
        return (environment / "bin").stat().st_uid in (os.getuid(), 0)
    except OSError:
        return False


def _conda_environments(environ: Mapping[str, str], home: Path) -> Iterator[Path]:
    """Yield conda's environments: each root, what lies in its `envs`, and those that conda has listed."""
    roots = [home / name for name in _CONDA_ROOTS]  # an absolute one stays as it is
    if command := environ.get("CONDA_EXE"):
        roots.insert(0, Path(command).parent.parent)
    if root := environ.get("MAMBA_ROOT_PREFIX"):
        roots.insert(0, Path(root))
    for each in roots:
        yield from (each, *_below(each / "envs"))
    try:
        with (home / ".conda" / "environments.txt").open("rb") as file:
            listed = os.fsdecode(file.read(_LONGEST_LIST)).splitlines()
    except OSError:
        return
    yield from map(Path, filter(None, map(str.strip, listed)))


def _below(folder: Path) -> list[Path]:
    """Return what a folder holds, by name; empty where it cannot be read."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
