"""Where an export goes: looked at before the work, then written beside its place and renamed, so that it is whole."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cpugpu_tui.config import paths
from cpugpu_tui.errors import CpuGpuError, UnfitError, UsageError

_ELSEWHERE = "Name another place."

_UNFIT = {
    errno.ENOSPC: ("The disk that holds {path} is full.", "Free some space, or name a place on another disk."),
    errno.EDQUOT: ("The disk quota for {path} is used up.", "Free some space, or name a place on another disk."),
    errno.EROFS: ("{path} cannot be written: its disk is read-only.", _ELSEWHERE),
    errno.EACCES: ("{path} cannot be written: permission denied.", _ELSEWHERE),
    errno.ENXIO: ("{path} is a pipe that nobody reads.", "Start its reader first, or name a file."),
    errno.EPERM: ("{path} cannot be written: permission denied.", _ELSEWHERE),
}

_NO_PLACE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.EINVAL, errno.ELOOP)
"""What a wrong name gives, as opposed to a place that does not let us."""


def sentence_for(error: OSError, path: Path) -> CpuGpuError:
    """Return why `path` cannot be written, in words."""
    known = _UNFIT.get(error.errno or 0)
    if known is not None:
        return UnfitError(known[0].format(path=path), known[1])
    kind = UsageError if error.errno in _NO_PLACE else UnfitError
    return kind(f"{path} cannot be written: {error.strerror or error}.", _ELSEWHERE)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what the file system raises into a sentence about `path`."""
    try:
        yield
    except OSError as error:
        raise sentence_for(error, path) from error


def is_folder(path: Path) -> bool:
    """Whether there is a folder at `path`.

    Raises:
        UsageError, UnfitError: nobody may look there, or the name is none that the file system takes.
    """
    with explained(path):
        return path.is_dir()


def check_file(path: Path) -> None:
    """Look whether a file can be written at `path`, by creating an empty one beside it and removing it again.

    Raises:
        UsageError: it is a folder, or the folder that it would be in does not exist.
        UnfitError: it, its folder or its disk is read-only, or the disk is full.
    """
    with explained(path):
        if path.is_dir():
            raise UsageError(f"{path} is a folder.", "Name a file in it.")
        if not path.parent.is_dir():
            raise UsageError(f"There is no folder {path.parent}.", "Make it first, or name another place.")
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, "Permission denied")
        if not _is_special(path):
            draft, descriptor = _draft(_behind_links(path))
            os.close(descriptor)
            draft.unlink()


def check_folder(path: Path) -> None:
    """Look whether files can be written into the folder `path`, which is created where it is missing.

    Raises:
        UsageError: it is a file, or it would be inside one.
        UnfitError: it or its disk is read-only, or the disk is full.
    """
    if not is_folder(path) and path.exists():
        raise UsageError(f"{path} is a file, not a folder.", "Name a folder.")
    make_folder(path)
    with explained(path):
        draft, descriptor = _draft(path / "check")
        os.close(descriptor)
        draft.unlink()


def make_folder(path: Path) -> None:
    """Create a folder and those that it is in.

    Raises:
        UsageError, UnfitError: see `check_folder`.
    """
    with explained(path):
        path.mkdir(parents=True, exist_ok=True)


def write(path: Path, chunks: Iterable[bytes]) -> None:
    """Write a file whole or not at all; what is there already stays until the new content is on the disk.

    A link is followed; a device or a pipe, which cannot be replaced, is written to.

    Raises:
        UsageError, UnfitError: see `check_file`; nothing is left behind.
    """
    with explained(path):
        if _is_special(path):
            # Opening a pipe in the usual way waits for a reader, possibly for ever.
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
            _keep_mode(place, draft)
            os.replace(draft, place)
        except BaseException:
            with suppress(OSError):
                draft.unlink()
            raise


def _draft(place: Path) -> tuple[Path, int]:
    """Create the file that becomes `place`; hidden, and of a name that no viewer of results looks for."""
    path = place.with_name(f".export-{secrets.token_hex(6)}.tmp")
    # 0666 as `open` has it, less the person's umask; `tempfile` would make results that the group cannot read.
    # In our own folder, though, nothing is for others.
    mode = 0o600 if paths.data_dir().resolve() in path.resolve().parents else 0o666
    return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)


def _keep_mode(place: Path, draft: Path) -> None:
    with suppress(OSError):  # nothing there yet, or a file system without modes
        os.chmod(draft, stat.S_IMODE(place.stat().st_mode))


def _behind_links(path: Path) -> Path:
    if not path.is_symlink():
        return path
    place = Path(os.path.realpath(path))
    if place.is_symlink():  # `Path.resolve` raises RuntimeError for a loop, and nothing at all from Python 3.13 on
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return place


def _is_special(path: Path) -> bool:
    """Whether there is something that is no file: renaming over /dev/null would break the machine."""
    return path.exists() and not path.is_file()
