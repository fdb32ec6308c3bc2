"""`cpugpu-tui thresholds show`: a file of thresholds as a table, as a C header or as variables."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from cpugpu_tui.cli.thresholds.make import FORMAT_HELP

File = Annotated[Path, typer.Argument(metavar="THRESHOLDS", help="File that `thresholds make` wrote as JSON.")]

commands = typer.Typer()


@commands.command()
def show(
    file: File = Path("thresholds.json"),
    format_name: Annotated[
        str | None, typer.Option("--format", "-f", metavar="FORMAT", help=FORMAT_HELP, show_default="a table")
    ] = None,
) -> None:
    """Print a file of thresholds as a table or in another format."""
    from cpugpu_tui.cli.thresholds.measuring import print_machine, print_table
    from cpugpu_tui.errors import print_notice
    from cpugpu_tui.export.thresholds import checked_format, read, rendered
    from cpugpu_tui.thresholds import differences, this_machine

    if format_name is not None:
        name = checked_format(format_name)
        sys.stdout.write(rendered(name, read(file)))
        return
    found = read(file)
    print_machine(found)
    print_table(found)
    for difference in differences(found.machine, this_machine())[:1]:
        print_notice(f"Programs do not use this file here. {difference}")
