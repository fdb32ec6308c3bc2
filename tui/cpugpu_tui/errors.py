"""Every failure a person can meet: one sentence of cause, one of remedy, one exit code.

Exit codes are a promise to scripts (docs/command-line.md, "Exit codes"): they are named here and nowhere else.
"""

from __future__ import annotations

import sys

EXIT_OK = 0
EXIT_CHECK_SAID_NO = 1
EXIT_USAGE = 2
EXIT_CASES_FAILED = 3
EXIT_UNFIT = 4
EXIT_INTERRUPTED = 130


class CpuGpuError(Exception):
    """A failure with a sentence for the person who meets it.

    Subclasses choose the exit code; `title` names the failure in two or three words.
    """

    exit_code: int = EXIT_CASES_FAILED
    title: str = "Something failed"

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        """What happened, one sentence."""
        self.remedy = remedy
        """What to do about it, one sentence; empty where nothing can be done."""

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".strip()


class UsageError(CpuGpuError):
    """The command line, a config, a theme or a file given by the person is wrong."""

    exit_code = EXIT_USAGE
    title = "Cannot do that"


class NoSuchRunError(UsageError):
    """No run of the history has the name that was given."""


class UnfitError(CpuGpuError):
    """The machine, interpreter or environment cannot do what was asked."""

    exit_code = EXIT_UNFIT
    title = "Not possible here"


class NoTorchError(UnfitError):
    """An interpreter has no torch, or a broken one."""


class ProtocolError(CpuGpuError):
    """The agent speaks another version of the protocol, or none at all."""

    exit_code = EXIT_UNFIT
    title = "Agent and app differ"


class StoreError(CpuGpuError):
    """The database cannot be opened, read or written."""

    exit_code = EXIT_UNFIT
    title = "History not available"


class NewerStoreError(StoreError):
    """The database is a newer version's: it can be read, and nothing can be written."""


class LockedError(StoreError):
    """Another program, or another thread, has locked the database; that passes."""


class LostRunError(StoreError):
    """A run that should be in the database is not: somebody deleted it."""


class ReplacedError(StoreError):
    """The database, or a journal of it, was deleted, moved or replaced while it was open."""


_SPACES = frozenset("\xa0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B))))
"""What Python does not call printable and a terminal shows all the same."""


LONGEST_NOTICE = 2_000
"""Characters of a sentence that are printed: it may quote an argument of 128 kB."""


def shown(text: str, limit: int | None = None) -> str:
    """Return a text as one line that a terminal shows and does not obey, at most `limit` characters of it.

    Names of files, hosts and options come from strangers. A character that is no visible sign is spelled out: an escape
    as `\\x1b`, a line break as `\\n`, a byte of a name that is not UTF-8 as `\\xff`.
    """
    if limit is not None and len(text) > limit:
        text = f"{text[:limit]}..."
    return text if text.isprintable() else "".join(map(_spelled, text))


def _spelled(character: str) -> str:
    if character.isprintable() or character in _SPACES:
        return character
    number = ord(character)
    # Python holds a byte of a file's name that is not UTF-8 as one of these (PEP 383).
    return f"\\x{number - 0xDC00:02x}" if 0xDC80 <= number <= 0xDCFF else ascii(character)[1:-1]


def print_notice(text: object) -> None:
    """Print an error or a notice as a line on stderr, as `shown` shows it."""
    print(shown(str(text), 2 * LONGEST_NOTICE), file=sys.stderr)
