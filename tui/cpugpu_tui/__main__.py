"""The way in: the app at once when nothing was asked for, else the command line.

typer costs 95 ms to import and 50 more at its first command (pydantic), a third of the time to the first
frame: so `cpugpu-tui` alone goes past it.
"""

from __future__ import annotations

import os
import sys

from cpugpu_tui.errors import CpuGpuError, UsageError


def main() -> None:
    """Run the program; every failure is one line on stderr and its exit code."""
    try:
        if len(sys.argv) == 1:
            from cpugpu_tui.opening import open_app

            sys.exit(open_app(simulate=os.environ.get("CPUGPU_SIMULATE")))
        from cpugpu_tui.command_line import app

        app()
    except CpuGpuError as error:
        print(f"cpugpu-tui: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader of a listing went away (`| head`): nobody is left to tell.
        sys.stderr.close()
        sys.exit(UsageError.exit_code)


if __name__ == "__main__":
    main()
