"""A person's file as it was in a revision of its git repository, in a folder of its own."""

from __future__ import annotations

import os
import subprocess
import tarfile
from pathlib import Path
from typing import IO

from cpugpu_tui.errors import UsageError, home_path

MOST_BYTES = 500_000_000
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
        raise UsageError(f"{inside} is not in revision {revision}.", f"See git log --follow -- {inside}.")
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
                if size_bytes > MOST_BYTES:
                    raise UsageError(f"{what} has more than {MOST_BYTES / 1e6:.0f} MB.", OTHERWISE)
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
