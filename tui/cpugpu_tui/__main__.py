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

from cpugpu_tui.errors import EXIT_INTERRUPTED, CpuGpuError, UnfitError  # noqa: E402

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
    if sys.stdout is None:  # `>&-`: whoever closed it wants to see nothing
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - open for the life of the process
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - as above
    try:
        if len(sys.argv) == 1:
            from cpugpu_tui.opening import open_as_configured

            sys.exit(open_as_configured())
        from cpugpu_tui.command_line import run_command

        code = run_command()
        sys.stdout.flush()
        sys.exit(code)
    except CpuGpuError as error:
        print(f"cpugpu-tui: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        leave_quietly(128 + signal.SIGPIPE)
    except OSError as error:
        remedy = _REMEDIES.get(error.errno or 0)
        if remedy is None:
            raise
        print(f"cpugpu-tui: The results cannot be printed: {error.strerror}. {remedy}", file=sys.stderr)
        leave_quietly(UnfitError.exit_code)


def leave_quietly(code: int) -> None:
    """Exit without the interpreter's own attempt to flush what nobody can take."""
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
