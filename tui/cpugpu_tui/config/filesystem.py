"""Where a database may lie, and which journal a file system can bear.

WAL keeps an index in memory that is shared between processes of one host; on a network file system two hosts
would each have their own, and homes on clusters are network file systems.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from cpugpu_tui.config.private import create_private_folder
from cpugpu_tui.errors import StoreError

_NETWORK = re.compile(r"nfs\d?|cifs|smb\d|smbfs|lustre|gpfs|beegfs.*|ceph|afs|9p|fuse\.(sshfs|ceph.*|glusterfs|gvfs.*)")


def journal_mode(folder: Path, mountinfo: str) -> str:
    """Return `WAL`, or `DELETE` where `folder` (absolute, without links) lies on a network file system.

    `mountinfo` is the text of /proc/self/mountinfo (man 5 proc); an empty one means unknown, hence WAL.
    """
    best, kind = -1, ""
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        if not right:
            continue
        point = Path(_unescaped(left.split()[4]))
        # A later mount on the same point hides the earlier one, hence >=.
        if len(point.parts) >= best and folder.is_relative_to(point):
            best, kind = len(point.parts), right.split()[0]
    return "DELETE" if _NETWORK.fullmatch(kind) else "WAL"


def is_on_network(path: Path) -> bool:
    """Return whether a file at `path`, which need not be there yet, lies on a network file system."""
    # os.path: what may not be looked into counts as missing, where Path raises.
    folder = next(folder for folder in path.absolute().parents if os.path.exists(folder))
    return journal_mode(folder.resolve(), mounts()) == "DELETE"


def host_in_name(path: Path, hostname: str) -> Path:
    """Return the file's name with the machine's in it: `results-node1.db`. Two machines must not write one file."""
    return path.with_name(f"{path.stem}-{re.sub(r'[^A-Za-z0-9.-]', '_', hostname) or 'host'}{path.suffix}")


def mounts() -> str:
    """Return the text of /proc/self/mountinfo, empty where there is none."""
    try:
        return Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def _unescaped(text: str) -> str:
    """Undo the kernel's octal escapes of blanks in paths."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def prepare_folder(path: Path, create_parents: bool) -> None:
    """Make sure that a database file can lie at `path`.

    Raises:
        StoreError: the folder is missing (and `create_parents` is off) or cannot be created, or `path` is a folder.
    """
    folder = path.parent
    if create_parents:
        try:
            create_private_folder(folder)
        except OSError as error:
            raise StoreError(
                f"The folder {folder} for the database cannot be created: {error.strerror}.",
                "Name a file elsewhere with --db, or save nothing with --no-save.",
            ) from error
    if not folder.is_dir():
        raise StoreError(
            f"The folder {folder} of the database does not exist.", "Create it, or name another file with --db."
        )
    if path.is_dir():
        raise StoreError(
            f"The database {path} is a folder.", "Name a file with --db, for example results.db inside it."
        )
