"""The way in: the app at once when nothing was asked for, else the command line.

typer costs 95 ms to import and 50 more at its first command (pydantic), a third of the time to the first
frame: so `cpugpu-tui` alone goes past it.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # what `signal` is made of, without its enums

_at_interrupt = _signal.getsignal(_signal.SIGINT)
_INTERRUPTIBLE = _at_interrupt is _signal.default_int_handler
if _INTERRUPTIBLE:  # ctrl+c ends these imports without a word; afterwards `main` catches it
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

import errno  # noqa: E402 - after the line above, as all that follow
import io  # noqa: E402
import os  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402

from cpugpu_tui import TYPE_CHECKING  # noqa: E402
from cpugpu_tui.errors import (  # noqa: E402
    EXIT_INTERRUPTED,
    LONGEST_NOTICE,
    CpuGpuError,
    UnfitError,
    UsageError,
    print_notice,
    shown,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TextIO

if _INTERRUPTIBLE:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_REMEDIES = {
    errno.ENOSPC: "Free some space.",
    errno.EDQUOT: "Free some of your quota.",
    errno.EFBIG: "Raise the limit of file sizes (ulimit -f).",
}
"""For whoever sends stdout into a file that can take no more."""


def main() -> None:
    """Run the program; every failure is one line on stderr and its exit code."""
    try:
        _main()
    except SystemExit as end:
        # At its own end Python gives signals their first meaning back: ctrl+c pressed once more would be the exit code.
        signal_watch = sys.modules.get("cpugpu_tui.transport.signal_watch")
        if signal_watch is not None and isinstance(end.code, int):
            signal_watch.leave(end.code)
        raise


def _main() -> None:
    _open_streams()
    try:
        _check_surroundings()
        if len(sys.argv) == 1:
            from cpugpu_tui.cli.open_app import open_as_configured

            sys.exit(open_as_configured())
        from cpugpu_tui.cli.commands import run_command

        code = run_command()
        sys.stdout.flush()
        sys.exit(code)
    except CpuGpuError as error:
        print_notice(f"cpugpu-tui: {shown(error.message, LONGEST_NOTICE)} {error.remedy}".strip())
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        leave_quietly(128 + signal.SIGPIPE)
    except OSError as error:
        remedy = _REMEDIES.get(error.errno or 0)
        if remedy is None:
            raise
        print_notice(f"cpugpu-tui: The results cannot be printed: {error.strerror}. {remedy}")
        leave_quietly(UnfitError.exit_code)


def _check_surroundings() -> None:
    """Refuse what no command can work with.

    Raises:
        UsageError: the current folder is gone, or an argument or a variable of ours is not UTF-8.
    """
    try:
        os.getcwd()
    except OSError as error:
        raise UsageError(
            f"The current folder cannot be used: {error.strerror}.", "Change to one that exists."
        ) from None
    named = {"argument": sys.argv[1:], "variable": [f"{k}={v}" for k, v in os.environ.items() if k[:7] == "CPUGPU_"]}
    for kind, texts in named.items():
        for text in texts:
            try:
                text.encode()
            except UnicodeEncodeError:
                raise UsageError(
                    f"The {kind} {ascii(os.fsencode(text))[1:]} is not UTF-8.",
                    "Write it in UTF-8, or rename the file that it names.",
                ) from None


def leave_quietly(code: int) -> None:
    """Exit without the interpreter's own attempt to flush what nobody can take."""
    sys.stderr.flush()
    os._exit(code)


# ------------------------------------------------------------------ the standard streams


def _open_streams() -> None:
    """Replace closed streams (`<&-`, `>&-`) by nothing, and keep a lost terminal or a full disk from ending a run."""
    # In this order: the lowest free descriptor is given, so that no other file becomes 0, 1 or 2.
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115 - open for the life of the process
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - as above
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - as above
    sys.stderr = _lasting(sys.stderr, lambda _: True)
    if sys.stdout.isatty():
        # Whoever closed the terminal still wants the run saved and exported. A pipe or a file still fails.
        sys.stdout = _lasting(sys.stdout, lambda error: error.errno == errno.EIO)
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a file's name may hold bytes that are no text


class _Dropping(io.FileIO):
    """A file that drops what it cannot take, for the errors that `is_dropped` accepts."""

    def __init__(self, descriptor: int, is_dropped: Callable[[OSError], bool]) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._is_dropped = is_dropped

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if not self._is_dropped(error):
                raise
            return memoryview(data).nbytes


def _lasting(stream: TextIO, is_dropped: Callable[[OSError], bool]) -> TextIO:
    """Return the same stream, with failures to write dropped."""
    if not isinstance(stream, io.TextIOWrapper):  # somebody has put another one in its place
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(_Dropping(stream.fileno(), is_dropped)), stream.encoding, "backslashreplace",
        line_buffering=True, write_through=stream.write_through,
    )  # fmt: skip


if __name__ == "__main__":
    main()
