"""Every failure that a user can see: a cause, a remedy and an exit code.

Scripts rely on the exit codes (docs/commands.md, "Exit codes"). They are defined only here.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

EXIT_OK = 0
EXIT_CHECK_FAILED = 1
EXIT_USAGE = 2
EXIT_CASES_FAILED = 3
EXIT_UNFIT = 4
EXIT_INTERRUPTED = 130

STOP_REQUESTED = "Stopped by request."
RUN_AGAIN = "Run again to time it."


class CpuGpuError(Exception):
    """A failure with a message for the user.

    Subclasses choose the exit code; `title` names the failure in two or three words.
    """

    exit_code: int = EXIT_CASES_FAILED
    title: str = "Something failed"

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        """What is wrong, in one sentence with the value."""
        self.remedy = remedy
        """What to do about it, in one sentence; empty if nothing can be done."""

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".strip()


class UsageError(CpuGpuError):
    """The command line, config, theme or another file of the user is wrong."""

    exit_code = EXIT_USAGE
    title = "Cannot do that"


def code_not_typed(number: int | None = None) -> UsageError:
    """Return the refusal of a plan that brings code that nobody typed here; `number` is that of its run, if known."""
    run, name = ("This run", "NUMBER") if number is None else (f"Run {number}", number)
    return UsageError(
        f"{run} timed typed code, which is run only when it is typed again.",
        f"Copy its command from `cpugpu-tui show {name}` and read it first.",
    )


class NoSuchRunError(UsageError):
    """No run in the history has this name."""


class UnfitError(CpuGpuError):
    """The machine, interpreter or environment cannot run the request."""

    exit_code = EXIT_UNFIT
    title = "Not possible here"


class NoTorchError(UnfitError):
    """The interpreter has no torch, or a broken one."""


class ProtocolError(CpuGpuError):
    """The agent uses another version of the protocol, or sends something else."""

    exit_code = EXIT_UNFIT
    title = "Agent and app differ"


class StoreError(CpuGpuError):
    """The database cannot be opened, read or written."""

    exit_code = EXIT_UNFIT
    title = "History not available"

    def __init__(self, message: str, remedy: str = "", *, choose: str = "") -> None:
        """`choose` is a remedy for any file, without its full stop: `Choose another file`.

        For the history the remedy is `remedy`, or else `choose` with --db.
        """
        super().__init__(message, remedy or (f"{choose} with --db." if choose else ""))
        self._choose = choose

    def of_argument(self) -> CpuGpuError:
        """Return the error for a database that is an argument of the command, which --db does not change."""
        return UsageError(self.message, self._choice)

    @property
    def _choice(self) -> str:
        return f"{self._choose}." if self._choose else self.remedy


class NewerStoreError(StoreError):
    """The database was written by a newer version. It can only be read."""


class LockedError(StoreError):
    """Another program or thread has locked the database. Trying again may help."""

    def of_argument(self) -> CpuGpuError:
        """Return the same for a database that is an argument of the command."""
        return LockedError(self.message, self._choice)


class LostRunError(StoreError):
    """A run was deleted from the database while it was still needed."""


class ReplacedError(StoreError):
    """The database or its journal was deleted, moved or replaced while it was open."""


_SPACES = frozenset("\xa0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B))))
"""Spaces that terminals show although Python does not call them printable."""


LONGEST_NOTICE = 2_000
"""Maximum length of a printed message. It may quote an argument of 128 kB."""


def shown(text: str, limit: int | None = None) -> str:
    """Return a text as one printable line of at most `limit` characters.

    Names of files, hosts and options may hold control characters. They are escaped: `\\x1b`, a line break as `\\n`, a
    byte of a name that is not UTF-8 as `\\xff`.
    """
    if limit is not None and len(text) > limit:
        text = f"{text[:limit]}..."
    return text if text.isprintable() else "".join(map(_spelled, text))


def _spelled(character: str) -> str:
    if character.isprintable() or character in _SPACES:
        return character
    number = ord(character)
    # Python keeps a non-UTF-8 byte of a file name as such a surrogate (PEP 383).
    return f"\\x{number - 0xDC00:02x}" if 0xDC80 <= number <= 0xDCFF else ascii(character)[1:-1]


def print_notice(text: object) -> None:
    """Print an error or a notice as one printable line on stderr."""
    print(shown(str(text), 2 * LONGEST_NOTICE), file=sys.stderr)


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "", like: float = 0.7) -> str:
    """Return the remedy for an unknown word: the known one that it resembles, or else `otherwise` or all of them.

    `like` is the least resemblance, for difflib, whose own 0.6 takes `launch` for `latency`.
    """
    from difflib import get_close_matches  # only for an error

    names = list(known)
    near = get_close_matches(word, names, 1, like)
    return f"Did you mean {near[0]!r}?" if near else otherwise or f"Use one of: {', '.join(names)}."


def home_path(path: str | os.PathLike[str]) -> str:
    """Return a path with its `~` replaced; unchanged if it contains a null byte."""
    try:
        return os.path.expanduser(os.fspath(path))
    except ValueError:
        return os.fspath(path)


def kind_of(path: str | os.PathLike[str]) -> str:
    """Return what is at a path: `a file`, `a folder`, `a device or a pipe`; empty if nothing, or if nobody may look."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return ""
    return "a file" if stat.S_ISREG(mode) else "a folder" if stat.S_ISDIR(mode) else "a device or a pipe"


def file_path(text: str) -> Path:
    """Return the path of a file. A `Path` forgets the slash at its end, by which people name a folder.

    Raises:
        UsageError: it ends with a slash, and no folder is there.
    """
    if text.endswith("/") and not os.path.isdir(text):
        raise UsageError(f"The folder '{text}' does not exist.", "Create it, or leave out the slash to name a file.")
    return Path(text)


def named_file(text: str) -> Path:
    """Return the path of a file where `-` does not stand for stdin or stdout (UsageError)."""
    if text == "-":
        raise UsageError("'-' does not name a file here.", "Give a path, such as /dev/stdout.")
    return file_path(text)
