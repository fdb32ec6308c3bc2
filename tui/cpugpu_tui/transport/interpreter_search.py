"""Finds the interpreter whose torch can use the GPU, for `--python auto`, `doctor` and the app.

Each interpreter is asked in a process of its own. All processes are killed at the time limit.
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

from cpugpu_tui.machine.text import printable
from cpugpu_tui.transport.signal_watch import to_kill

LIMIT_S = 10.0
"""Time limit for all interpreters together. Importing torch takes 1 s from a warm cache and 5 s from a cold disk."""

AT_ONCE = 8
"""Most processes at the same time: each needs 0.4 GB while it imports torch."""

LONGEST_ANSWER = 1 << 16
"""Most bytes of an answer; an interpreter that writes more is killed."""

POLL_S = 0.05
"""How often `should_stop` is polled."""

OLDEST = (3, 10)
"""Oldest Python version that can run the agent."""

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
"""Imports nothing from this program or the current folder. The alarm ends it if this program is gone."""


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
        """Sort key, larger is better: a usable GPU first, then the newer torch."""
        numbers = self.torch.partition("+")[0].split(".")
        return self.has_cuda, tuple(int(part) for part in numbers if part.isascii() and part.isdecimal())

    @property
    def able(self) -> str:
        """What it can do, as the end of a sentence."""
        return f"has torch {self.torch}, {'which can use the GPU' if self.has_cuda else 'for the CPU only'}"


@dataclass(frozen=True)
class Choice:
    """The interpreter that `--python auto` chose."""

    python: str | None
    """Its path; None for this program's own interpreter."""
    sentence: str
    """What to tell a person about the choice; empty if this program's own interpreter can use the GPU."""


def choose(should_stop: Callable[[], bool] = lambda: False) -> Choice:
    """Return this program's own interpreter if its torch can use the GPU, else the best other one. Blocks for seconds.

    `should_stop` is polled; once it is True the search ends with the answers so far.
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
    python: str | None, should_stop: Callable[[], bool] = lambda: False, folder: Path | None = None
) -> Interpreter | None:
    """Return the best interpreter that is better than `python` (None: this program's own). Blocks for seconds.

    See `interpreters` for `folder`.
    """
    used = sys.executable if python is None else shutil.which(os.path.expanduser(python)) or python
    found = {each.path: each for each in ask((used, *_others(used, folder)), should_stop)}
    return better_than(found.pop(used, None), tuple(found.values()))


def _others(used: str, folder: Path | None) -> tuple[str, ...]:
    return interpreters(os.environ, Path(os.path.expanduser("~")), used, folder)


def better_than(own: Interpreter | None, found: Sequence[Interpreter]) -> Interpreter | None:
    """Return the best of those found; None if it is not better than `own`, the interpreter used so far."""
    best = max(found, key=lambda each: each.rank, default=None)
    return best if best is not None and (own is None or (best.has_cuda and not own.has_cuda)) else None


def ask(pythons: Sequence[str], should_stop: Callable[[], bool] = lambda: False) -> tuple[Interpreter, ...]:
    """Return the interpreters that have torch, in the same order. None of their processes is left afterwards."""
    ends_s = time.monotonic() + LIMIT_S
    waiting, found = deque(pythons), list[Interpreter]()
    with selectors.DefaultSelector() as selector:
        asked = selector.get_map()
        try:
            while (waiting or asked) and time.monotonic() < ends_s and not should_stop():
                while waiting and len(asked) < AT_ONCE:
                    with suppress(OSError):  # not a program, although its mode says so
                        each = _Asked(waiting.popleft())
                        selector.register(each.output, selectors.EVENT_READ, each)
                for key, _ in selector.select(POLL_S):
                    each = key.data
                    if not each.read():
                        selector.unregister(each.output)
                        each.close()
                        found += filter(None, [each.answer()])
        finally:
            left: list[_Asked] = [key.data for key in asked.values()]
            for each in left:
                each.signal(signal.SIGKILL)
            for each in left:
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
        self._received = b""
        self._process = subprocess.Popen(
            [python, "-c", _QUESTION], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        self.output = self._process.stdout
        to_kill.add(self)

    def read(self) -> bool:
        """Read output that is there; return whether more is expected."""
        part = os.read(self.output.fileno(), LONGEST_ANSWER)
        self._received += part
        return bool(part) and len(self._received) < LONGEST_ANSWER and not self._received.endswith(b"}\n")

    def signal(self, number: int) -> None:
        """Send a signal to its process group."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def close(self) -> None:
        """Kill it. Do not wait for a process that the kernel cannot end now."""
        self.signal(signal.SIGKILL)
        self.output.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(POLL_S)

    def answer(self) -> Interpreter | None:
        """Return its answer; None if there is none, or if it cannot run the agent."""
        lines = self._received[:LONGEST_ANSWER].decode(errors="replace").splitlines()
        texts = [line.removeprefix(_MARK) for line in lines if line.startswith(_MARK)]
        with suppress(ValueError, TypeError, KeyError, RecursionError):
            answer = json.loads(texts[-1]) if texts else {}
            if tuple(answer["python"]) >= OLDEST and answer["torch"]:
                return Interpreter(self._python, printable(str(answer["torch"]), 40), answer["has_cuda"] is True)
        return None


# ------------------------------------------------------------------ where interpreters are


AUTO = "auto"
"""Value of `--python` that starts this search."""

MOST = 32
"""Most interpreters that are asked; a person with more chooses one with --python."""

_ON_PATH = re.compile(r"python3(\.\d+)?")
_CONDA_ROOTS = ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", "/opt/conda")
"""Where conda's installers put it: below the home folder, or at this path in most container images."""
_LONGEST_LIST = 1 << 16
"""Most bytes read of conda's list of environments."""


def interpreters(environ: Mapping[str, str], home: Path, used: str, folder: Path | None = None) -> tuple[str, ...]:
    """Return paths of interpreters other than `used`, most likely first, each environment once.

    `folder` is searched for `.venv` and `venv`. Leave it out unless a person asked for a search: otherwise the owner
    of the folder could choose a program that is run.
    """
    seen = {_identity(Path(used))}
    return tuple(islice(_new_ones(_places(environ, home, folder), seen), MOST))


def _new_ones(places: Iterable[Path], seen: set[str]) -> Iterator[str]:
    for path in places:
        # A path that cannot be printed can be neither shown nor recorded.
        if not path.is_absolute() or not str(path).isprintable():
            continue
        if not os.path.isfile(path) or not os.access(path, os.X_OK):
            continue
        if (identity := _identity(path)) not in seen:
            seen.add(identity)
            yield str(path)


def _identity(python: Path) -> str:
    """Return a key that all paths of one environment share.

    A virtual environment's interpreter is a link to the one that made it, so its folder is the key.
    """
    environment = python.parent.parent
    is_environment = any(os.path.exists(environment / name) for name in ("pyvenv.cfg", "conda-meta"))
    return os.path.realpath(environment if is_environment else python)


def _places(environ: Mapping[str, str], home: Path, folder: Path | None) -> Iterator[Path]:
    """Yield paths where an interpreter may be, most likely first."""
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if active := environ.get(name):
            yield _python_of(Path(active))
    if folder is not None:
        yield from (_python_of(folder / name) for name in (".venv", "venv") if _is_trusted(folder / name))
    yield from map(_python_of, _conda_environments(environ, home))
    yield from map(_python_of, _below(Path(environ.get("PYENV_ROOT") or home / ".pyenv") / "versions"))
    yield from map(_python_of, _below(home / ".virtualenvs"))
    yield from map(_python_of, _below(home / ".local/share/uv/python"))
    # pyenv's shims are shell scripts that start its versions, which are listed above.
    folders = [Path(part) for part in environ.get("PATH", "").split(os.pathsep) if part and not part.endswith("/shims")]
    yield from (path for each in folders for path in _below(each) if _ON_PATH.fullmatch(path.name))
    yield Path(sys.executable)


def _python_of(environment: Path) -> Path:
    return environment / "bin" / "python"


def _is_trusted(environment: Path) -> bool:
    """Whether it belongs to this user or to root: anybody can make one in a shared folder such as /tmp."""
    try:
        return (environment / "bin").stat().st_uid in (os.getuid(), 0)
    except OSError:
        return False


def _conda_environments(environ: Mapping[str, str], home: Path) -> Iterator[Path]:
    """Yield conda's environments: each root, the folders in its `envs`, and those that conda has listed."""
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
    """Return the entries of a folder, by name; empty if it cannot be read."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
