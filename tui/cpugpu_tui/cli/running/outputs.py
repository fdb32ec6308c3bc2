"""What the runs of one command write beside the history: `run --export FILE`, `run --tensorboard DIR`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from cpugpu_tui.errors import EXIT_OK, CpuGpuError
from cpugpu_tui.export import formats, target
from cpugpu_tui.export.stream import KEPT, ExportedRun, exported
from cpugpu_tui.export.tensorboard import LiveTensorboard
from cpugpu_tui.model import Event, RunFinished, RunStarted
from cpugpu_tui.state.state import RunState


def tensorboard_line(folder: Path) -> str:
    """Return the command that opens a folder of TensorBoard files."""
    return f"tensorboard --logdir {shlex.quote(str(folder))}"


class Outputs:
    """What the runs of one command write beside the history: files at the end of each run, TensorBoard as it goes."""

    def __init__(self, files: Sequence[Path] = (), tensorboard: Path | None = None) -> None:
        self._files = dict.fromkeys(files, "")
        self._tensorboard = tensorboard
        self._board: LiveTensorboard | None = None
        self._board_error: CpuGpuError | None = None
        """Why TensorBoard gets nothing more, None as long as it gets something: a failure ends it, not the run."""
        self._has_board = False
        """Whether there is something to open."""
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
            self._board = LiveTensorboard(self._tensorboard)

    def see(self, state: RunState, event: Event) -> None:
        """Take note of an event; `state` knows it already."""
        if self._board is not None and self._board_error is None:
            try:
                self._board.see(state, event)
                self._has_board = self._has_board or state.settled > 0
            except CpuGpuError as error:
                self._board_error = error
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
        if self._board is not None and self._tensorboard is not None:
            try:
                self._board.close()
            except CpuGpuError as error:
                self._board_error = self._board_error or error
            if self._board_error is not None:
                said.append(self._failed(self._board_error))
            if self._has_board:
                said.append(f"Open it: {tensorboard_line(self._tensorboard)}")
        return said

    def _failed(self, error: CpuGpuError) -> str:
        self.exit_code = max(self.exit_code, error.exit_code)
        return f"Not exported: {error}"
