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
import os  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402

from cpugpu_tui.errors import (  # noqa: E402
    EXIT_INTERRUPTED,
    LONGEST_NOTICE,
    CpuGpuError,
    UnfitError,
    UsageError,
    print_notice,
    shown,
)
from cpugpu_tui.streams import open_streams  # noqa: E402

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
    open_streams()
    try:
        _check_surroundings()
        if len(sys.argv) == 1:
            from cpugpu_tui.opening import open_as_configured

            sys.exit(open_as_configured())
        from cpugpu_tui.command_line import run_command

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


if __name__ == "__main__":
    main()
