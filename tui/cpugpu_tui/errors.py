"""Every failure a person can meet: one sentence of cause, one of remedy, one exit code.

Exit codes are a promise to scripts (README, "Exit codes"): they are named here and nowhere else.
"""

from __future__ import annotations

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


class LostRunError(StoreError):
    """What was saved of a run is there no more: somebody deleted the run, or the database under it."""
