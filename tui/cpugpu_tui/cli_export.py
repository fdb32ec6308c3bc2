"""Commands of `export` and `import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cpugpu_tui.command_options import Database, Json

commands = typer.Typer()

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
Exports = Annotated[
    list[Path] | None,
    typer.Option("--export", help="Write the run to a file: .json, .ndjson, .csv, .md or .html; repeatable."),
]
Tensorboard = Annotated[Path | None, typer.Option(help="Folder for TensorBoard files, written while the run goes on.")]
Files = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Exports as json or ndjson; - for stdin.")]


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
    from cpugpu_tui.cli.export import Wanted, export_runs, print_schema

    if schema:
        print_schema()
        return
    names = tuple(run_names or ["latest"])
    wanted = Wanted(names, format_name, out, samples=samples, anonymize=anonymize, with_messages=with_messages)
    export_runs(wanted, database)


@commands.command("import")
def import_runs(files: Files, database: Database = None, json: Json = False) -> None:
    """Add runs from json or ndjson exports to the history; a run that is there already is left as it is."""
    from cpugpu_tui.cli.import_ import import_files

    import_files(files, database, as_json=json)
