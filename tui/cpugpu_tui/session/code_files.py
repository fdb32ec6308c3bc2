"""The files of typed code: those that travel to another machine, and a file as it was in a revision of its repository.

None of them runs here. Imports are read from their text, so a module that is named at run time stays behind.
"""

from __future__ import annotations

import ast
import os
import shlex
import subprocess
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from cpugpu_tui.config.hosts import Host
from cpugpu_tui.errors import UsageError, home_path
from cpugpu_tui.model import OwnCode
from cpugpu_tui.model.quantities import count_of, joined
from cpugpu_tui.workloads.python_text import parsed

MOST_FILES, MOST_BYTES = 200, 10_000_000
"""Limit of what travels: it is sent to each process on each machine."""

MOST_NAMED = 8
"""Files that a notice names; more are counted."""


def announced(codes: Sequence[OwnCode], hosts: Sequence[Host], say: Callable[[str], None]) -> dict[str, bytes]:
    """Say which files these codes send to the hosts, if any, and return them as `files_of` does."""
    files = files_of(codes)
    if files:
        say(_sent_text(files, codes, [host.host for host in hosts]))
    return files


def files_of(codes: Iterable[OwnCode]) -> dict[str, bytes]:
    """Return the absolute path of each file that these codes need, with its content.

    Raises:
        UsageError: a code is a command, a file cannot be read, or they are too many.
    """
    found: dict[str, bytes] = {}
    waiting: list[Path] = []
    for code in codes:
        if code.argv:
            raise UsageError("A command is not sent to another machine.", "Time FILE.py:FUNCTION, or run this there.")
        waiting += [Path(side.target[0]) for side in code.sides or (code,) if side.sha256]
    while waiting:
        path = waiting.pop()
        if str(path) in found:
            continue
        try:
            found[str(path)] = path.read_bytes()
        except OSError as error:
            raise UsageError(f"Cannot read {path}: {error.strerror}.", "Give the path of a Python file.") from None
        if len(found) > MOST_FILES or sum(map(len, found.values())) > MOST_BYTES:
            raise UsageError(
                f"The code imports more than {MOST_FILES} files or {MOST_BYTES / 1e6:.0f} MB from its folder.",
                "Install them there as a package, or put what is timed into a folder of its own.",
            )
        waiting += _neighbours(path, found[str(path)])
    return found


def _sent_text(files: Mapping[str, bytes], codes: Sequence[OwnCode], hosts: Sequence[str]) -> str:
    """Return which files travel to which machines, in a sentence."""
    own = {side.target[0] for code in codes for side in code.sides or (code,) if side.sha256}
    root = os.path.commonpath([os.path.dirname(path) for path in files])
    names = [os.path.relpath(path, root) for path in sorted(files, key=lambda path: (path not in own, path))]
    more = [f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else []
    where = hosts[0] if len(hosts) == 1 else f"{len(hosts)} hosts"
    size = f"{count_of(len(files), 'file')}, {sum(map(len, files.values())) / 1e3:.1f} kB"
    return f"Sending {joined([*names[:MOST_NAMED], *more])} to {where} ({size})."


def _neighbours(path: Path, text: bytes) -> Iterator[Path]:
    """Yield the files beside a file, or in its package, that it imports."""
    root = path.parent
    while (root / "__init__.py").is_file():
        yield root / "__init__.py"
        root = root.parent
    try:
        tree = ast.Module(parsed(text), [])
    except UsageError:  # the Python that runs it may be newer, and says why otherwise
        return
    for each in ast.walk(tree):
        if isinstance(each, ast.Import):
            for alias in each.names:
                yield from _files(root, alias.name)
        elif isinstance(each, ast.ImportFrom):
            base = path.parents[each.level - 1] if 0 < each.level <= len(path.parents) else root
            yield from _files(base, each.module or "")
            for alias in each.names:
                yield from _files(base, f"{each.module}.{alias.name}" if each.module else alias.name)


def _files(base: Path, module: str) -> Iterator[Path]:
    """Yield the files of a module below `base`, and those of the packages that it is in."""
    for name in filter(None, module.split(".")):
        base /= name
        for found in (base / "__init__.py", base.with_suffix(".py")):
            if found.is_file():
                yield found


# ------------------------------------------------------------------ a revision of a file


MOST_REVISION_BYTES = 500_000_000
"""Size of a revision that is written to the temporary folder: what comes along is not known before the file runs."""

OTHERWISE = "Name the old file with --against FILE.py:FUNCTION."

GIT_SECONDS = 60.0
"""More than git needs to name a commit, on a slow file server too."""


def file_of_revision(file: str, revision: str, folder: Path) -> tuple[str, str]:
    """Write all files of a revision to a folder; return the path of `file` there, and the commit (12 digits).

    Nothing of the checkout is changed. Links and submodules are left out.

    Raises:
        UsageError: `file` is in no repository, git is missing, or there is no such revision, or no such file in it.
    """
    path = Path(os.path.realpath(home_path(file)))
    root, trouble = _git(path.parent, "rev-parse", "--show-toplevel")
    if not root:
        raise UsageError(f"git finds no repository of {file}: {trouble}.", OTHERWISE)
    commit, _ = _git(path.parent, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")
    if not commit:
        raise UsageError(f"No revision {revision!r} in {root}.", "Name a commit, branch or tag: git log --oneline.")
    inside = path.relative_to(os.path.realpath(root)).as_posix()
    command = ["git", "-C", root, "archive", "--format=tar", commit]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as archive:
        assert archive.stdout is not None
        try:
            _write_files(archive.stdout, folder, f"Revision {revision}")
        finally:
            archive.kill()
    found = folder / inside
    if not found.is_file():
        if not _git(path.parent, "log", "-1", "--format=%h", "--", path.name)[0]:
            raise UsageError(f"{inside} is in no revision.", OTHERWISE)
        log = shlex.join(("git", "-C", root, "log", "--follow", "--", inside))
        raise UsageError(f"{inside} is not in revision {revision}.", f"See {log}.")
    return str(found), commit[:12]


def _write_files(archive: IO[bytes], folder: Path, what: str) -> None:
    size_bytes = 0
    try:
        with tarfile.open(fileobj=archive, mode="r|") as files:
            for member in files:
                content = files.extractfile(member) if member.isfile() else None
                if content is None:
                    continue
                size_bytes += member.size
                if size_bytes > MOST_REVISION_BYTES:
                    raise UsageError(f"{what} has more than {MOST_REVISION_BYTES / 1e6:.0f} MB.", OTHERWISE)
                path = folder / member.name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content.read())
    except (OSError, tarfile.TarError) as error:
        raise UsageError(f"{what} cannot be written: {error}.", "Free space, or set TMPDIR to a folder.") from None


def _git(folder: Path, *words: str) -> tuple[str, str]:
    """Return what git prints, without the line's end, and an empty reason; or nothing, and git's reason.

    Raises:
        UsageError: git is not installed, or does not answer.
    """
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors="replace", timeout=GIT_SECONDS, check=False)  # fmt: skip
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:  # ValueError: a null character in a revision
        raise UsageError(f"git cannot be run: {error}.", f"Install git. {OTHERWISE}") from None
    if done.returncode == 0:
        return done.stdout.rstrip("\n"), ""
    reason, *_ = done.stderr.strip().splitlines() or ["it gave no reason"]
    return "", reason.removeprefix("fatal: ").rstrip(".")
