"""`cpugpu-tui export` and `import`: write saved runs to files or stdout, and read them into the history.

Of an import, all files are read before the first run is saved.
"""

from __future__ import annotations

import platform
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cpugpu_tui.cli import options as opt
from cpugpu_tui.cli.output.printing import print_json, tell
from cpugpu_tui.errors import NoSuchRunError, UsageError, file_path, print_notice

if TYPE_CHECKING:
    from cpugpu_tui.export.stream import ExportedRun

STDOUT = STDIN = Path("-")
"""The `--out` value that means standard output, and the FILE that means standard input."""

MOST_BYTES = 2_000_000_000
"""Maximum size of one file. A hundred runs of 2,000 cases are smaller, and /dev/zero must not fill the memory."""

commands = typer.Typer()


class ExportGiven(opt.Given):
    """The options of `export` and `import`."""

    run_names: Annotated[list[str] | None, opt.argument("RUN", opt.RUN_NAMES, "latest")] = None
    format_name: Annotated[str | None, opt.option(
        "FORMAT", "json, ndjson, csv, markdown, html, svg, png or tensorboard.", "--format", "-f",
        usual="by the ending of --out, else json",
    )] = None  # fmt: skip
    out: Annotated[list[str] | None, opt.option(
        "PATH", "File, folder (one file per run), or - for stdout. Repeatable.", "--out", "-o", usual="-"
    )] = None  # fmt: skip
    samples: Annotated[bool, opt.flag(
        "--samples", "With csv: write one row for each single timing instead of one for each summary value."
    )] = False  # fmt: skip
    anonymize: Annotated[bool, opt.flag(
        "--anonymize", "Remove paths, UUIDs, and the names of machines and people."
    )] = False  # fmt: skip
    with_messages: Annotated[bool, opt.flag(
        "--with-messages", "With --anonymize: keep error messages, which may contain names."
    )] = False  # fmt: skip
    schema: Annotated[bool, opt.flag("--schema", "Print the JSON Schema of the json format and exit.")] = False
    files: Annotated[list[Path], opt.argument("FILE", "Exports in json or ndjson format; - for stdin.")]


@opt.takes(commands.command(), ExportGiven, "run_names format_name out samples anonymize with_messages schema database")
def export(given: ExportGiven) -> None:
    """Export runs as JSON, CSV, Markdown, HTML or pictures."""
    from cpugpu_tui.export import formats
    from cpugpu_tui.export.json_document import schema_text

    samples = given.samples
    if given.schema:
        opt.refuse_beside(given.context, "--schema", lambda name: name != "schema")
        sys.stdout.write(schema_text())
        return
    if given.with_messages and not given.anonymize:
        raise UsageError("--with-messages needs --anonymize.", "Add it, or leave --with-messages out.")
    fmt = None if given.format_name is None else formats.checked(given.format_name)
    # A folder of TensorBoard is created.
    path_of = Path if fmt == formats.TENSORBOARD else file_path
    names = {place: fmt or _format_by_name(place) for place in map(path_of, given.out or [str(STDOUT)])}
    for place, name in names.items():
        if samples and name != "csv":
            remedy = "Use --format csv. json and ndjson have all samples."
            raise UsageError(f"--samples does not work with {name}.", remedy)
        formats.need(name)
        _check(name, place)
    runs = _load(given.run_names or ["latest"], given.database)
    if given.anonymize:
        runs = _veiled(runs, messages=given.with_messages)
    for place, name in names.items():
        if place == STDOUT:
            for chunk in formats.rendered(name, runs, samples=samples):
                sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
            continue
        for path in _written(name, runs, place, samples=samples):
            print_notice(f"Wrote {path}")


def _format_by_name(out: Path) -> str:
    """Return the format that belongs to the ending of the output, or json without an ending.

    Raises:
        UsageError: the ending belongs to no format (`x.cvs` is a typo, and `x.xlsx` must not hold json).
    """
    from cpugpu_tui.export import formats, target

    if not out.suffix or target.is_folder(out):
        return "json"
    return formats.required_format_of(out)


def _check(name: str, out: Path) -> None:
    """Check that the output can be written, before the runs are loaded."""
    from cpugpu_tui.export import formats, target

    if name == formats.TENSORBOARD:
        if out == STDOUT:
            raise UsageError("TensorBoard files need a folder.", "Give one with --out.")
        target.check_folder(out)
    elif name == "png" and out == STDOUT and sys.stdout.isatty():
        raise UsageError("A PNG picture cannot be shown in a terminal.", "Give a file with --out.")
    elif target.is_folder(out):
        target.check_folder(out)
    elif out != STDOUT:
        target.check_file(out)


def _written(name: str, runs: Sequence[ExportedRun], out: Path, *, samples: bool) -> Iterable[Path]:
    """Write the files and return their paths."""
    from cpugpu_tui.cli.running.saving import tensorboard_line
    from cpugpu_tui.export import formats, target
    from cpugpu_tui.export.tensorboard import write_tensorboard

    if name == formats.TENSORBOARD:
        folders = write_tensorboard(runs, out)
        print_notice(f"Open it: {tensorboard_line(out)}")
        return folders
    if not out.is_dir():
        with target.locked(out):  # the app adds to a file of thresholds
            target.write(out, formats.rendered(name, runs, samples=samples))
        return [out]
    files = [out / f"{run.file_stem}{formats.SUFFIXES[name]}" for run in runs]
    for path, run in zip(files, runs, strict=True):
        target.write(path, formats.rendered(name, [run], samples=samples))
    return files


def _load(names: Sequence[str], database: Path | None) -> list[ExportedRun]:
    """Return the named runs, each once.

    Raises:
        UsageError: a name matches no run, or several.
        StoreError: the history cannot be read.
    """
    from cpugpu_tui.cli.past_runs import reading
    from cpugpu_tui.export.stream import exported_from

    with reading(database, must_exist=True) as store:
        try:
            run_ids = dict.fromkeys(store.find(name) for name in names)
        except NoSuchRunError as error:
            if file := next((name for name in names if Path(name).suffix), None):
                error.remedy = f"To write a file, use --out {shlex.quote(file)}."
            raise
        return [exported_from(store, run_id) for run_id in run_ids]


def _veiled(runs: Sequence[ExportedRun], *, messages: bool) -> list[ExportedRun]:
    """Return the runs without names of machines and people, including this machine and this user."""
    import getpass

    from cpugpu_tui.export.anonymize import anonymized

    try:
        people = [getpass.getuser()]
    except (OSError, KeyError):  # the user has no name, as in some containers
        people = []
    return anonymized(runs, [platform.node()], people, messages=messages)


@opt.takes(commands.command("import"), ExportGiven, "files database json")
def import_runs(given: ExportGiven) -> None:
    """Import runs from json or ndjson exports.

    Runs that are already in the history are not changed.
    """
    from cpugpu_tui.cli.past_runs import writing
    from cpugpu_tui.config.paths import with_database
    from cpugpu_tui.export.json_document import read_runs

    runs = {run.started.run_id: run for path in given.files for run in read_runs(_content(path), _name(path))}
    with writing(given.database, keep_aside=True) as store:
        for run_id, run in runs.items():
            try:
                known = store.find(run_id) == run_id  # `find` also accepts the start of an id
            except UsageError:
                known = False
            number = store.import_run(run.events)
            show = with_database(f"cpugpu-tui show {number}")
            if given.json:
                print_json({"run_id": run_id, "number": number, "new": not known})
            elif known:
                tell(f"Already in the history as run {number}: {show}")
            else:
                tell(f"Imported as run {number}: {show}")


def _name(path: Path) -> str:
    return "stdin" if path == STDIN else str(path)


def _content(path: Path) -> bytes:
    from cpugpu_tui.config.paths import MOST_OF_A_DEVICE, read_at_most

    try:
        if path == STDIN:
            data = sys.stdin.buffer.read(MOST_OF_A_DEVICE)
            data += b"" if b"\0" in data else sys.stdin.buffer.read(MOST_BYTES + 1 - len(data))
        else:
            data = read_at_most(path, MOST_BYTES)
    except OSError as error:
        raise UsageError(
            f"Cannot read {path}: {error.strerror}.", "Give the path of a file written by `cpugpu-tui export`."
        ) from error
    if len(data) > MOST_BYTES:
        raise UsageError(f"{_name(path)} is larger than {MOST_BYTES / 1e9:g} GB.", "Export fewer runs into one file.")
    return data
