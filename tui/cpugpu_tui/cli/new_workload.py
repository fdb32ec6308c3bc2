"""`cpugpu-tui new-workload`: write a workload template. Existing files are never overwritten."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cpugpu_tui.errors import UsageError

commands = typer.Typer()


@commands.command("new-workload")
def new_workload(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the workload.")],
    out: Annotated[
        Path | None, typer.Option(metavar="PATH", help="File or folder to write to.", show_default="NAME.py here")
    ] = None,
) -> None:
    """Write a template for a workload of your own.

    The template runs without changes.
    """
    import shlex

    from cpugpu_tui.cli.output.table_style import tell
    from cpugpu_tui.cli.workload_template import source
    from cpugpu_tui.machine.text import printable
    from cpugpu_tui.workloads import PRESETS, catalogue
    from cpugpu_tui.workloads.own_files import NAME

    if not NAME.fullmatch(name):
        raise UsageError(
            f"Invalid workload name {printable(name)!r}.", "Use at most 40 letters, digits, dots and dashes."
        )
    if name in PRESETS or name in {info.name for info in catalogue()}:
        raise UsageError(f"{name!r} is the name of a built-in preset or workload.", "Choose another name.")
    path = out if out is not None else Path()
    try:
        if path.is_dir():
            path = path / f"{name}.py"
        with path.open("x", encoding="utf-8") as file:
            file.write(source(name))
    except FileExistsError:
        raise UsageError(
            f"{path} already exists.", "Choose another file with --out, or delete the existing one."
        ) from None
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise UsageError(
                f"Cannot write {path}: the folder '{path.parent}' does not exist.",
                "Create it, or choose another place with --out.",
            ) from None
        raise UsageError(f"Cannot write {path}: {error.strerror}.", "Choose another place with --out.") from error
    tell(f"Written to {path}. Check it with:")
    tell(f"  {shlex.join(['cpugpu-tui', 'run', name, '--workloads', str(path), '--scale', 'small'])}")
