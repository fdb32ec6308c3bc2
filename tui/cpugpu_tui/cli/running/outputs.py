"""Files that the runs of a command write: `run --export FILE`, `run --tensorboard DIR`."""

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
    """The files of a command: exports are written after each run, TensorBoard during it."""

    def __init__(self, files: Sequence[Path] = (), tensorboard: Path | None = None) -> None:
        self._files = dict.fromkeys(files, "")
        self._tensorboard = tensorboard
        self._board: LiveTensorboard | None = None
        self._board_error: CpuGpuError | None = None
        """Why TensorBoard is no longer written, or None. A failure ends only TensorBoard, not the run."""
        self._has_board = False
        """Whether TensorBoard files hold any result."""
        self._runs: list[ExportedRun] = []
        self._events: list[Event] = []
        self.exit_code = EXIT_OK
        """Exit code of the command, unless something worse happened."""

    def check(self) -> None:
        """Check every output before anything is timed, and load the packages that it needs.

        Raises:
            UsageError: a file has no known ending, is a folder, or its folder does not exist.
            UnfitError: an output cannot be written, or a package is missing.
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
        """Record an event. `state` is the state after it."""
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
        """Whether runs are exported to files."""
        return bool(self._files)

    def add(self, run: ExportedRun) -> None:
        """Add a finished run to the exports. In a fleet, several runs go on at the same time."""
        self._runs.append(run)

    def write(self) -> list[str]:
        """Write the finished runs, and return notices: files that failed, and the command that opens TensorBoard.

        The files are written again after each run of a series, so that stopping the third keeps the first two.
        """
        notices = []
        for path, name in self._files.items() if self._runs else ():
            try:
                target.write(path, formats.rendered(name, self._runs))
            except CpuGpuError as error:
                notices.append(self._failed(error))
        if self._board is not None and self._tensorboard is not None:
            try:
                self._board.close()
            except CpuGpuError as error:
                self._board_error = self._board_error or error
            if self._board_error is not None:
                notices.append(self._failed(self._board_error))
            if self._has_board:
                notices.append(f"Open it: {tensorboard_line(self._tensorboard)}")
        return notices

    def _failed(self, error: CpuGpuError) -> str:
        self.exit_code = max(self.exit_code, error.exit_code)
        return f"Not exported: {error}"
