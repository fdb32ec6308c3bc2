"""`cpugpu-tui thresholds show`: a file of thresholds as a table, as a C header or as variables."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from cpugpu_tui.cli import options as opt
from cpugpu_tui.cli.thresholds.make import FORMAT_HELP

commands = typer.Typer()


class FileGiven(opt.Given):
    """A file of thresholds, and in which format it is shown."""

    file: Annotated[Path, opt.argument("THRESHOLDS", "File that `thresholds make` wrote as JSON.")] = Path(
        "thresholds.json"
    )
    format_name: Annotated[str | None, opt.option("FORMAT", FORMAT_HELP, "--format", "-f", usual="a table")] = None


@opt.takes(commands.command(), FileGiven, "file format_name")
def show(given: FileGiven) -> None:
    """Print a file of thresholds as a table or in another format."""
    from cpugpu_tui.cli.thresholds.measuring import print_machine, print_table
    from cpugpu_tui.errors import print_notice
    from cpugpu_tui.export.thresholds import checked_format, read, rendered
    from cpugpu_tui.thresholds import differences, this_machine

    if given.format_name is not None:
        name = checked_format(given.format_name)
        sys.stdout.write(rendered(name, read(given.file)))
        return
    found = read(given.file)
    print_machine(found)
    print_table(found)
    for difference in differences(found.machine, this_machine())[:1]:
        print_notice(f"Programs do not use this file here. {difference}")
