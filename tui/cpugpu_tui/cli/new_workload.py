"""`cpugpu-tui new-workload`: writes a file to start from, and never over one that exists."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cpugpu_tui.errors import UsageError

commands = typer.Typer()


@commands.command("new-workload")
def new_workload(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the workload.")],
    out: Annotated[Path | None, typer.Option(help="File or folder to write to (default: NAME.py here).")] = None,
) -> None:
    """Write a workload file of your own to start from; it runs as it stands."""
    import shlex

    from cpugpu_tui.cli.output.table_style import tell
    from cpugpu_tui.cli.workload_template import source
    from cpugpu_tui.machine.text import printable
    from cpugpu_tui.workloads import PRESETS, catalogue
    from cpugpu_tui.workloads.own_files import NAME

    if not NAME.fullmatch(name):
        raise UsageError(
            f"{printable(name)!r} is no name for a workload.", "Use letters, digits, dots and dashes, at most 40."
        )
    if name in PRESETS or name in {info.name for info in catalogue()}:
        raise UsageError(f"The name {name!r} is taken by a built-in one.", "Choose another.")
    path = out if out is not None else Path()
    try:
        if path.is_dir():
            path = path / f"{name}.py"
        with path.open("x", encoding="utf-8") as file:
            file.write(source(name))
    except FileExistsError:
        raise UsageError(f"{path} exists already.", "Name another file with --out, or take it away.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.", "Name another place with --out.") from error
    tell(f"Written to {path}. Check it with:")
    tell(f"  {shlex.join(['cpugpu-tui', 'run', name, '--workloads', str(path), '--scale', 'small'])}")
