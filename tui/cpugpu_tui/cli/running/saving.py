"""Saves the runs of a command in the history and in files, and reports at the end what could not be saved."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from shutil import rmtree

from cpugpu_tui.cli.options import Given
from cpugpu_tui.cli.running.options import RunOptions
from cpugpu_tui.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_UNFIT, CpuGpuError, LockedError, StoreError, print_notice
from cpugpu_tui.export import formats, target
from cpugpu_tui.export.stream import KEPT, ExportedRun, exported
from cpugpu_tui.export.tensorboard import LiveTensorboard
from cpugpu_tui.model import Event, RunFinished, RunStarted
from cpugpu_tui.state.state import RunState
from cpugpu_tui.store import Store, open_store
from cpugpu_tui.store.outbox import SILENT_TRY_S, Outbox, Unsaved

LAST_TRY_S = 10.0
"""How long a command waits at its end for a locked database."""

STOPPED_TRY_S = 2.0
"""The same after ctrl+c. After SIGTERM or SIGHUP, which end the process within 2 s, saving is tried once."""


@contextmanager
def saving(options: RunOptions) -> Iterator[Outbox | None]:
    """Yield the outbox of the history, or None with --no-save. A history that cannot be opened is tried again later."""
    if not options.save:
        yield None
        return
    store = None
    with suppress(StoreError):  # the outbox tries again, and reports the reason at the end
        store = open_store(options.database)
    with outbox_of(options.database, store) as outbox:
        yield outbox


def outbox_of(database: Path | None, store: Store | None, *, keep_aside: bool = True) -> AbstractContextManager[Outbox]:
    """Return the outbox of a history as a context manager."""
    return closing_outbox(Outbox(lambda wait_s: open_store(database, keep_aside=keep_aside, wait_s=wait_s), store))


@contextmanager
def closing_outbox(outbox: Outbox) -> Iterator[Outbox]:
    """Close an outbox at the end. After an exception, try once more to save what waits."""
    try:
        yield outbox
    except BaseException:
        outbox.flush(0)
        raise
    finally:
        with suppress(StoreError):
            outbox.close()


def as_saved(state: RunState, unsaved: Unsaved | None, remark: str | None) -> tuple[RunState, str | None, bool]:
    """Return the state with its saved number, the notice about saving, and whether the run is saved completely."""
    if unsaved is None or state.run is None:
        return state, remark, state.run is not None and state.run.number is not None
    run_id = state.run.run_id
    marked = state.with_saving(unsaved.numbers.get(run_id), unsaved.cases.get(run_id, ()))
    return marked, unsaved.text or remark, not unsaved


def remark_of(outbox: Outbox | None) -> str | None:
    """Return the notice about opening the history, if any."""
    return outbox.store.remark if outbox is not None and outbox.store is not None else None


def say_remark(outbox: Outbox | None) -> None:
    """Print this notice on stderr."""
    if remark := remark_of(outbox):
        print_notice(remark)


def save_rest(outbox: Outbox | None, code: int) -> int:
    """Save what waits, print on stderr what cannot be saved, and return the exit code of the command.

    If something is not saved, 0 becomes 4. Other exit codes say more and stay.
    """
    if outbox is None or not outbox.unsaved:
        return code
    if isinstance(outbox.unsaved.cause, LockedError) and code <= 128:
        with suppress(KeyboardInterrupt):
            outbox.flush(SILENT_TRY_S)
    if not (before := outbox.unsaved):
        return code
    limit_s = 0.0
    if isinstance(before.cause, LockedError) and (code <= 128 or code == EXIT_INTERRUPTED):
        limit_s = STOPPED_TRY_S if code == EXIT_INTERRUPTED else LAST_TRY_S
        _say(f"Not saved yet: {before.cause} Trying again for up to {limit_s:g} s.")
    try:
        outbox.flush(limit_s)
    except KeyboardInterrupt:
        code = code or EXIT_INTERRUPTED
    left = outbox.unsaved
    _say(_missing(left) + _kept_aside(outbox) if left else _saved(before, left))
    return code or (EXIT_UNFIT if left else 0)


def _kept_aside(outbox: Outbox) -> str:
    """Save what waits in a database of its own, and return where it is; nothing if that fails, too."""
    folder = None
    with suppress(CpuGpuError, OSError):
        folder = Path(tempfile.mkdtemp(prefix="cpugpu-tui-"))
        outbox.keep_aside(partial(open_store, folder / "history.db"))
        if not outbox.unsaved.waiting:
            return f" Kept in another database: `cpugpu-tui history --db {shlex.quote(str(folder / 'history.db'))}`."
    if folder is not None:
        rmtree(folder, ignore_errors=True)
    return ""


def _say(text: str) -> None:
    with suppress(OSError):  # after a hang-up there is no terminal
        print(text, file=sys.stderr, flush=True)


def _saved(before: Unsaved, now: Unsaved) -> str:
    numbers = sorted(now.numbers[run_id] for run_id in before.waiting if run_id in now.numbers)
    if not numbers:
        return "Everything is saved now."
    return f"Saved now: run{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}."


def _missing(left: Unsaved) -> str:
    """Return what is not saved, and the reason."""
    cases = sum(map(len, left.cases.values()))
    if not cases:
        return left.final_text
    runs = dict.fromkeys(left.cases)
    numbers = [str(left.numbers[run_id]) for run_id in runs if run_id in left.numbers]
    which = (f" of run {numbers[0]}" if numbers else "") if len(runs) == 1 else f" of {len(runs)} runs"
    lack = "1 case" if cases == 1 else f"{cases:,} cases"
    return f"{left.final_text} {lack}{which} {'was' if cases == 1 else 'were'} not saved."


# ------------------------------------------------------------------ outputs


def tensorboard_line(folder: Path) -> str:
    """Return the command that opens a folder of TensorBoard files."""
    return f"tensorboard --logdir {shlex.quote(str(folder))}"


class Outputs:
    """The files of a command: exports are written after each run, TensorBoard during it."""

    def __init__(self, files: Sequence[Path] = (), tensorboard: Path | None = None, *, in_full: bool = False) -> None:
        self.in_full = in_full
        """Whether reasons and receipts stand below a printed table."""
        self._files = dict.fromkeys(files, "")
        self._tensorboard = tensorboard
        self._board: LiveTensorboard | None = None
        self._board_error: CpuGpuError | None = None
        """Why TensorBoard is no longer written, or None. A failure ends only TensorBoard, not the run."""
        self._has_board = False
        """Whether TensorBoard files hold any result."""
        self._runs: list[ExportedRun] = []
        self._events: dict[str, list[Event]] = {}
        """Host → events of its run until it ends. In a fleet, several runs go on at the same time."""
        self.exit_code = EXIT_OK
        """Exit code of the command, unless something worse happened."""

    @classmethod
    def of(cls, given: Given) -> Outputs:
        """Return the outputs that a command was given."""
        return cls(given.export or (), given.tensorboard, in_full=given.explain)

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

    def see(self, state: RunState, event: Event, host: str = "") -> None:
        """Record an event. `state` is the state of its run after it."""
        if self._board is not None and self._board_error is None:
            try:
                self._board.see(state, event)
                self._has_board = self._has_board or state.settled > 0
            except CpuGpuError as error:
                self._board_error = error
        if not self._files:
            return
        if isinstance(event, RunStarted):
            self._events[host] = []
        if isinstance(event, KEPT) and host in self._events:
            self._events[host].append(event)
        if isinstance(event, RunFinished) and host in self._events:
            self._runs.append(exported(self._events.pop(host)))

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
