"""Write export files. The target is checked before the work; a file appears under its name only once complete."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cpugpu_tui.config import paths
from cpugpu_tui.errors import CpuGpuError, UnfitError, UsageError

LOCK_WAIT_S = 5.0
"""Longest wait for another writer, which needs milliseconds. A caller's own `flock FOLDER cpugpu-tui …` never ends."""

_ELSEWHERE = "Choose another file or folder."

_UNFIT = {
    errno.ENOSPC: ("The disk that holds {path} is full.", "Free some space, or use another disk."),
    errno.EDQUOT: ("The disk quota for {path} is used up.", "Free some space, or use another disk."),
    errno.EROFS: ("Cannot write {path}: the disk is read-only.", _ELSEWHERE),
    errno.EACCES: ("Cannot write {path}: permission denied.", _ELSEWHERE),
    errno.ENXIO: ("Cannot write {path}: no program reads this pipe.", "Start its reader first, or choose a file."),
    errno.EPERM: ("Cannot write {path}: permission denied.", _ELSEWHERE),
}

_MARKS = re.compile(
    rb'\{"format": ?"cpugpu-tui|\{"event":"|run_id,series_id,|(?:/\*|#) Made by cpugpu-tui'
    rb"|(?:<|\x89PNG).*cpugpu|## [^\n]+\n.*(?:, run `[0-9a-z-]+`\n|\n\| case \| time \|)"
    rb"|\x1f\x8b.{8}cpugpu-tui|# (?:HELP|TYPE|UNIT) cpugpu", re.DOTALL
)  # fmt: skip
"""What each file that this program writes begins with or has. Notes and scripts of a person may name the program."""

_DATABASE = b"SQLite format 3\0"

MARKED_BYTES = 1_000_000
"""How much of a file is searched for it."""

_NO_PLACE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.EINVAL, errno.ELOOP)
"""Errors of a wrong path. Other errors are about permissions or the disk."""


def sentence_for(error: OSError, path: Path) -> CpuGpuError:
    """Return the error that `path` cannot be written."""
    known = _UNFIT.get(error.errno or 0)
    if known is not None:
        return UnfitError(known[0].format(path=path), known[1])
    kind = UsageError if error.errno in _NO_PLACE else UnfitError
    return kind(f"Cannot write {path}: {error.strerror or error}.", _ELSEWHERE)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn an OSError into an error about `path`."""
    try:
        yield
    except OSError as error:
        raise sentence_for(error, path) from error


def is_folder(path: Path) -> bool:
    """Whether `path` is a folder.

    Raises:
        UsageError, UnfitError: the path is invalid, or may not be accessed.
    """
    with explained(path):
        return path.is_dir()


def check_file(path: Path) -> None:
    """Check that a file can be written at `path`, by creating and deleting an empty file beside it.

    Raises:
        UsageError: the path is a folder, its folder does not exist, or it is a file that this program did not write.
        UnfitError: the file, its folder or its disk is read-only, or the disk is full.
    """
    with explained(path):
        if path.is_dir():
            raise UsageError(f"{path} is a folder.", "Give the path of a file inside it.")
        if not path.parent.is_dir():
            raise UsageError(
                f"Cannot write {path}: the folder '{path.parent}' does not exist.",
                "Create it, or choose another folder.",
            )
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, "Permission denied")
        if not _is_special(path):
            _require_ours(path)
            _try(_behind_links(path))


def _require_ours(path: Path) -> None:
    """Check that a file which exists was written by this program, or is empty.

    Raises:
        UsageError: it is somebody's, who would lose it.
    """
    try:
        head = paths.read_at_most(path, MARKED_BYTES)
    except FileNotFoundError:
        return
    if head.startswith(_DATABASE):
        raise UsageError(f"{path} is a database.", "Choose another file.")
    if head and not _MARKS.match(head):
        raise UsageError(f"{path} exists, and cpugpu-tui did not write it.", "Remove it first, or choose another file.")


def check_folder(path: Path) -> None:
    """Check that files can be written into the folder `path`. Create it if it is missing.

    Raises:
        UsageError: the path is a file, or leads through a file.
        UnfitError: the folder or its disk is read-only, or the disk is full.
    """
    if not is_folder(path) and path.exists():
        raise UsageError(f"{path} is a file, not a folder.", "Give the path of a folder.")
    make_folder(path)
    with explained(path):
        _try(path / "check")


def make_folder(path: Path) -> None:
    """Create a folder and its parents.

    Raises:
        UsageError, UnfitError: see `check_folder`.
    """
    with explained(path):
        path.mkdir(parents=True, exist_ok=True)


def write(path: Path, chunks: Iterable[bytes]) -> None:
    """Write a file completely or not at all. An existing file stays until the new content is on the disk.

    Links are followed. Devices and pipes cannot be replaced, so they are written to.

    Raises:
        UsageError, UnfitError: see `check_file`. No partial file is left.
    """
    with explained(path):
        if _is_special(path):
            # An ordinary open of a pipe waits for a reader, possibly for ever.
            descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "wb") as stream:
                os.set_blocking(descriptor, True)
                stream.writelines(chunks)
            return
        place = _behind_links(path)
        draft, descriptor = _draft(place)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.writelines(chunks)
                stream.flush()
                os.fsync(stream.fileno())
            with suppress(OSError):  # no such file yet, or a file system without modes
                os.chmod(draft, stat.S_IMODE(place.stat().st_mode))
            os.replace(draft, place)
        except BaseException:
            with suppress(OSError):
                draft.unlink()
            raise


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let no other program of ours replace `path` meanwhile: lock its folder, which leaves no file behind.

    After `LOCK_WAIT_S`, and where folders cannot be locked, go on without the lock.
    """
    try:
        descriptor = os.open(_behind_links(path).parent, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # it may be writable without being readable; otherwise `write` says why not
        yield
        return
    try:
        deadline = time.monotonic() + LOCK_WAIT_S
        while _is_locked_elsewhere(descriptor) and time.monotonic() < deadline:
            time.sleep(0.01)
        yield
    finally:
        os.close(descriptor)


def _is_locked_elsewhere(descriptor: int) -> bool:
    """Take the lock of a file or folder, if nobody else has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return isinstance(error, BlockingIOError)
    return False


def _try(place: Path) -> None:
    """Create a temporary file beside `place`, and delete it."""
    draft, descriptor = _draft(place)
    os.close(descriptor)
    draft.unlink()


def _draft(place: Path) -> tuple[Path, int]:
    """Create the temporary file that will be renamed to `place`. It is hidden, and no viewer opens its suffix."""
    path = place.with_name(f".export-{secrets.token_hex(6)}.tmp")
    # 0666 minus the umask, as `open` does; with `tempfile` the group could not read the results.
    # The app's own data folder is private.
    mode = 0o600 if paths.data_dir().resolve() in path.resolve().parents else 0o666
    return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)


def _behind_links(path: Path) -> Path:
    if not path.is_symlink():
        return path
    place = Path(os.path.realpath(path))
    if place.is_symlink():  # a loop: `Path.resolve` raises RuntimeError, or nothing since Python 3.13
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return place


def _is_special(path: Path) -> bool:
    """Whether `path` is a device or pipe: renaming a file over /dev/null would break the machine."""
    return path.exists() and not path.is_file()
