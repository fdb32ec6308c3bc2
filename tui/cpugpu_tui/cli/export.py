"""`cpugpu-tui export`: past runs as files for other programs and people."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cpugpu_tui.cli.options import Database
from cpugpu_tui.errors import UsageError, print_notice

if TYPE_CHECKING:
    from cpugpu_tui.export.stream import ExportedRun

STDOUT = Path("-")
"""What `--out` calls standard output."""

RunNames = Annotated[
    list[str] | None, typer.Argument(metavar="[RUN]...", help="Number, latest, or the beginning of an id.")
]
Format = Annotated[
    str | None,
    typer.Option("--format", "-f", help="json, ndjson, csv, markdown, html or tensorboard (default: as --out ends)."),
]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="File, folder (a file per run), or - for stdout.")]
Samples = Annotated[bool, typer.Option("--samples", help="csv: one row per sample in place of one per metric.")]
Anonymize = Annotated[bool, typer.Option("--anonymize", help="Leave out names of machines and people, paths, UUIDs.")]
WithMessages = Annotated[
    bool, typer.Option("--with-messages", help="With --anonymize: keep messages of failures, which may hold names.")
]
Schema = Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of the json format, and do no more.")]

commands = typer.Typer()


@commands.command()
def export(
    run_names: RunNames = None,
    format_name: Format = None,
    out: Out = None,
    samples: Samples = False,
    anonymize: Anonymize = False,
    with_messages: WithMessages = False,
    schema: Schema = False,
    database: Database = None,
) -> None:
    """Write past runs as files for other programs and people; the latest one if none is named."""
    from cpugpu_tui.export import formats
    from cpugpu_tui.export.json_schema import schema_text

    if schema:
        sys.stdout.write(schema_text())
        return
    if with_messages and not anonymize:
        raise UsageError("--with-messages is for --anonymize alone.", "Other exports have every message as it is.")
    name = formats.checked(format_name) if format_name is not None else _format_by_name(out)
    if samples and name != "csv":
        raise UsageError("--samples is for csv alone.", "json and ndjson have every sample as it is.")
    formats.need(name)
    place = out or STDOUT
    _check(name, place)
    runs = _load(run_names or ["latest"], database)
    if anonymize:
        runs = _veiled(runs, messages=with_messages)
    if place == STDOUT:
        for chunk in formats.rendered(name, runs, samples=samples):
            sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
        return
    for path in _written(name, runs, place, samples=samples):
        print_notice(f"Wrote {path}")


def _format_by_name(out: Path | None) -> str:
    """Return the format that the name of the output asks for; without an ending it is json.

    Raises:
        UsageError: the ending is that of something else: `x.cvs` is a typo, and json in `x.xlsx` helps nobody.
    """
    from cpugpu_tui.export import formats, target

    if out is None or not out.suffix or target.is_folder(out):
        return "json"
    return formats.required_format_of(out)


def _check(name: str, out: Path) -> None:
    """Look at the place before the work."""
    from cpugpu_tui.export import formats, target

    if name == formats.TENSORBOARD:
        if out == STDOUT:
            raise UsageError("TensorBoard files need a folder.", "Name one with --out.")
        target.check_folder(out)
    elif target.is_folder(out):
        target.check_folder(out)
    elif out != STDOUT:
        target.check_file(out)


def _written(name: str, runs: Sequence[ExportedRun], out: Path, *, samples: bool) -> Iterable[Path]:
    """Write the files and return what to tell of."""
    from cpugpu_tui.cli.running.outputs import tensorboard_line
    from cpugpu_tui.export import formats, target
    from cpugpu_tui.export.tensorboard import write_tensorboard

    if name == formats.TENSORBOARD:
        folders = write_tensorboard(runs, out)
        print_notice(f"Open it: {tensorboard_line(out)}")
        return folders
    if not out.is_dir():
        target.write(out, formats.rendered(name, runs, samples=samples))
        return [out]
    files = [out / f"{run.file_stem}{formats.SUFFIXES[name]}" for run in runs]
    for path, run in zip(files, runs, strict=True):
        target.write(path, formats.rendered(name, [run], samples=samples))
    return files


def _load(names: Iterable[str], database: Path | None) -> list[ExportedRun]:
    """Return the runs that a person names, each once.

    Raises:
        UsageError: there is no such run, or several.
        StoreError: the history cannot be read.
    """
    from cpugpu_tui.compare.series import open_history
    from cpugpu_tui.export.stream import exported

    with open_history(database) as store:
        run_ids = dict.fromkeys(store.find(name) for name in names)
        return [exported(store.load(run_id)) for run_id in run_ids]


def _veiled(runs: Sequence[ExportedRun], *, messages: bool) -> list[ExportedRun]:
    """Return the runs without names of machines and people, those of this machine and this person included."""
    import getpass
    import platform

    from cpugpu_tui.export.anonymize import anonymized

    try:
        people = [getpass.getuser()]
    except (OSError, KeyError):  # a container whose user has no name
        people = []
    return anonymized(runs, [platform.node()], people, messages=messages)
