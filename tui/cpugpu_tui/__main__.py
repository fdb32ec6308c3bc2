"""Entry point: opens the app without arguments, and runs the command line with arguments.

typer takes 95 ms to import and 50 ms for its first command (pydantic), a third of the time to the first frame. So
`cpugpu-tui` without arguments does not import it.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` without its enums, which are slow to import

_at_interrupt = _signal.getsignal(_signal.SIGINT)
_INTERRUPTIBLE = _at_interrupt is _signal.default_int_handler
if _INTERRUPTIBLE:  # during these imports ctrl+c ends the process silently; later `main` catches it
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

import errno  # noqa: E402 - must follow the lines above, like the next imports
import io  # noqa: E402
import os  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402

from cpugpu_tui import TYPE_CHECKING, errors  # noqa: E402

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
"""Errors of writing stdout to a file, with their remedies."""


def main() -> None:
    """Run the program. Each failure is one line on stderr and an exit code."""
    try:
        _main(time.monotonic())
    except SystemExit as end:
        # Python resets signal handlers when it exits. Another ctrl+c would then replace the exit code.
        signal_watch = sys.modules.get("cpugpu_tui.transport.signal_watch")
        if signal_watch is not None and isinstance(end.code, int):
            signal_watch.leave(end.code)
        raise


def _main(began_s: float) -> None:
    _open_streams()
    try:
        _check_surroundings()
        if len(sys.argv) == 1 and "_CPUGPU_TUI_COMPLETE" not in os.environ:  # Tab in a shell
            from cpugpu_tui.cli.open_app import open_as_configured

            sys.exit(open_as_configured())
        from cpugpu_tui.cli.commands import run_command

        code = run_command(began_s)
        sys.stdout.flush()
        sys.exit(code)
    except errors.CpuGpuError as error:
        errors.print_notice(f"cpugpu-tui: {errors.shown(error.message, errors.LONGEST_NOTICE)} {error.remedy}".strip())
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(errors.EXIT_INTERRUPTED)
    except BrokenPipeError:
        leave_quietly(128 + signal.SIGPIPE)
    except OSError as error:
        remedy = _REMEDIES.get(error.errno or 0)
        if remedy is None:
            raise
        errors.print_notice(f"cpugpu-tui: Cannot print the results: {error.strerror}. {remedy}")
        leave_quietly(errors.UnfitError.exit_code)


def _check_surroundings() -> None:
    """Check the current folder, the arguments and the `CPUGPU_` variables.

    Raises:
        UsageError: the folder no longer exists, or a text is not UTF-8.
    """
    try:
        os.getcwd()
    except OSError as error:
        raise errors.UsageError(
            f"Cannot use the current folder: {error.strerror}.", "Change to a folder that exists."
        ) from None
    named = {"argument": sys.argv[1:], "variable": [f"{k}={v}" for k, v in os.environ.items() if k[:7] == "CPUGPU_"]}
    for kind, texts in named.items():
        for text in texts:
            try:
                text.encode()
            except UnicodeEncodeError:
                raise errors.UsageError(
                    f"The {kind} {ascii(os.fsencode(text))[1:]} is not UTF-8.", "Use UTF-8, or rename the file."
                ) from None


def leave_quietly(code: int) -> None:
    """Exit without flushing stdout, which cannot be written."""
    sys.stderr.flush()
    os._exit(code)


# ------------------------------------------------------------------ the standard streams


def _open_streams() -> None:
    """Open closed streams (`<&-`, `>&-`) on the null device, and ignore a lost terminal or a full disk."""
    # In this order: open() returns the lowest free descriptor, and no other file may become 0, 1 or 2.
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115 - open for the life of the process
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - as above
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - as above
    sys.stderr = _lasting(sys.stderr, lambda _: True)
    if sys.stdout.isatty():
        # A run must still be saved and exported after its terminal is closed. Pipes and files still fail.
        sys.stdout = _lasting(sys.stdout, lambda error: error.errno == errno.EIO)
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # file names may contain bytes that are not UTF-8


class _Dropping(io.FileIO):
    """A file that ignores failed writes whose error `is_dropped` accepts."""

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
    """Return the same stream, which then ignores failed writes that `is_dropped` accepts."""
    if not isinstance(stream, io.TextIOWrapper):  # replaced, for example by a test
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(_Dropping(stream.fileno(), is_dropped)), stream.encoding, "backslashreplace",
        line_buffering=True, write_through=stream.write_through,
    )  # fmt: skip


if __name__ == "__main__":
    main()
