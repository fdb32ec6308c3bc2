"""`export`, and what a run writes beside its history: `run --export FILE`, `run --tensorboard DIR`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cpugpu_tui.compare.series import open_history
from cpugpu_tui.errors import EXIT_OK, CpuGpuError, UsageError, print_notice
from cpugpu_tui.export import formats, target
from cpugpu_tui.export.anonymize import anonymized
from cpugpu_tui.export.stream import KEPT, ExportedRun, exported
from cpugpu_tui.export.tensorboard import LiveTensorboard, write_tensorboard
from cpugpu_tui.model import Event, RunFinished, RunStarted
from cpugpu_tui.state.state import RunState

STDOUT = Path("-")
"""What `--out` calls standard output."""


@dataclass(frozen=True)
class Wanted:
    """What `export` was asked for."""

    names: tuple[str, ...]
    format_name: str | None
    out: Path | None
    samples: bool = False
    anonymize: bool = False
    with_messages: bool = False
    """Keep the messages of failures in an anonymous export."""


def print_schema() -> None:
    """Print the JSON Schema of the JSON export."""
    from cpugpu_tui.export.schema import schema_text

    sys.stdout.write(schema_text())


def export_runs(wanted: Wanted, database: Path | None) -> None:
    """Write runs of the history.

    Raises:
        UsageError: there is no such run, format or place.
        UnfitError: a package is missing, or the place cannot be written; what was there before is still there.
        StoreError: the history cannot be read.
    """
    if wanted.with_messages and not wanted.anonymize:
        raise UsageError("--with-messages is for --anonymize alone.", "Other exports have every message as it is.")
    name = _format(wanted)
    formats.need(name)
    out = wanted.out or STDOUT
    _check(name, out)
    runs = load_runs(wanted.names, database)
    if wanted.anonymize:
        runs = veiled(runs, messages=wanted.with_messages)
    if out == STDOUT:
        for chunk in formats.rendered(name, runs, samples=wanted.samples):
            sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
        return
    for path in _written(name, runs, out, samples=wanted.samples):
        print_notice(f"Wrote {path}")


def _format(wanted: Wanted) -> str:
    told = wanted.format_name
    name = formats.checked(told) if told is not None else _format_by_name(wanted.out)
    if wanted.samples and name != "csv":
        raise UsageError("--samples is for csv alone.", "json and ndjson have every sample as it is.")
    return name


def _format_by_name(out: Path | None) -> str:
    """Return the format that the name of the output asks for; without an ending it is json.

    Raises:
        UsageError: the ending is that of something else: `x.cvs` is a typo, and json in `x.xlsx` helps nobody.
    """
    if out is None or not out.suffix or target.is_folder(out):
        return "json"
    return formats.required_format_of(out)


def _check(name: str, out: Path) -> None:
    """Look at the place before the work."""
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


def load_runs(names: Iterable[str], database: Path | None) -> list[ExportedRun]:
    """Return the runs that a person names, each once.

    Raises:
        UsageError: there is no such run, or several.
        StoreError: the history cannot be read.
    """
    with open_history(database) as store:
        run_ids = dict.fromkeys(store.find(name) for name in names)
        return [exported(store.load(run_id)) for run_id in run_ids]


def veiled(runs: Sequence[ExportedRun], *, messages: bool = False) -> list[ExportedRun]:
    """Return the runs without names of machines and people, those of this machine and this person included."""
    import getpass
    import platform

    try:
        people = [getpass.getuser()]
    except (OSError, KeyError):  # a container whose user has no name
        people = []
    return anonymized(runs, [platform.node()], people, messages=messages)


def tensorboard_line(folder: Path) -> str:
    """Return the command that opens a folder of TensorBoard files."""
    return f"tensorboard --logdir {shlex.quote(str(folder))}"


class Outputs:
    """What the runs of one command write beside the history: files at the end of each run, TensorBoard as it goes."""

    def __init__(self, files: Sequence[Path] = (), tensorboard: Path | None = None) -> None:
        self._files = dict.fromkeys(files, "")
        self._tensorboard = tensorboard
        self._live: LiveOutput | None = None
        self._runs: list[ExportedRun] = []
        self._events: list[Event] = []
        self.exit_code = EXIT_OK
        """What the command exits with when nothing worse happened."""

    def check(self) -> None:
        """Look at every place before anything is timed, and load what writes there.

        Raises:
            UsageError: a name says no format, is a folder, or in a folder that does not exist.
            UnfitError: a place cannot be written, or a package is missing.
        """
        for path in self._files:
            name = self._files[path] = formats.required_format_of(path)
            formats.need(name)
            target.check_file(path)
        if self._tensorboard is not None:
            formats.need(formats.TENSORBOARD)
            target.check_folder(self._tensorboard)
            self._live = LiveOutput(self._tensorboard)

    def see(self, state: RunState, event: Event) -> None:
        """Take note of an event; `state` knows it already."""
        if self._live is not None and self._live.error is None:
            self._live.see(state, event)
        if not self._files:
            return
        if isinstance(event, RunStarted):
            self._events = []
        if isinstance(event, KEPT):
            self._events.append(event)
        if isinstance(event, RunFinished) and isinstance(self._events[0], RunStarted):
            self._runs.append(exported(self._events))
            self._events = []

    @property
    def wants_files(self) -> bool:
        """Whether runs are to be written to files."""
        return bool(self._files)

    def add(self, run: ExportedRun) -> None:
        """Take a run that is over, for the files: of a fleet several go on at the same time."""
        self._runs.append(run)

    def write(self) -> list[str]:
        """Write the runs that are over, and return what to say: which file could not be written, what opens them.

        The files are written anew after each run of a series: whoever stops the third has the first two.
        """
        said = []
        for path, name in self._files.items() if self._runs else ():
            try:
                target.write(path, formats.rendered(name, self._runs))
            except CpuGpuError as error:
                said.append(self._failed(error))
        if self._live is not None:
            failure = self._live.end()
            if failure is not None:
                said.append(self._failed(failure))
            if self._live.wrote:
                said.append(f"Open it: {tensorboard_line(self._live.folder)}")
        return said

    def _failed(self, error: CpuGpuError) -> str:
        self.exit_code = max(self.exit_code, error.exit_code)
        return f"Not exported: {error}"


class LiveOutput:
    """TensorBoard files of runs as they go; a failure ends them, not the run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.error: CpuGpuError | None = None
        """Why nothing more is written, None as long as something is."""
        self.wrote = False
        self._board = LiveTensorboard(folder)

    def see(self, state: RunState, event: Event) -> None:
        """Write what an event adds."""
        try:
            self._board.see(state, event)
            self.wrote = self.wrote or state.settled > 0
        except CpuGpuError as error:
            self.error = error

    def end(self) -> CpuGpuError | None:
        """Close the files of a run and return why they are not whole, if they are not."""
        try:
            self._board.close()
        except CpuGpuError as error:
            self.error = self.error or error
        return self.error
