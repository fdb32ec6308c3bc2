"""Where a person's Python interpreters are: the active environment, conda, the current folder, pyenv, uv and PATH.

Nothing here starts an interpreter.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

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
