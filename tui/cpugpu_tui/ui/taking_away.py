"""The part of the app that hands results to other programs: a row to the clipboard, a run to a file."""

from __future__ import annotations

import os
from pathlib import Path

from textual import on
from textual.message import Message

from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.ui.looking_back import LookingBack

SAID_S = 5.0
"""How long the status line says what was done."""


class RunWritten(Message):
    """A run has been written to a file, or could not be."""

    def __init__(self, path: Path, error: CpuGpuError | None = None) -> None:
        """Carry which file, and why not."""
        super().__init__()
        self.path, self.error = path, error


class TakingAway(LookingBack):
    """Exports what is shown; only between runs, for writing costs what is being timed."""

    _said: str | None = None

    def action_copy_row(self) -> None:
        """Put the highlighted row as a Markdown table into the clipboard of the person's own terminal (OSC 52)."""
        from cpugpu_tui.runs.export.markdown import table

        run = self.picture.run
        row = run.rows.get(self.picture.cursor or "")
        if row is None:
            self._say("No row is highlighted.")
            return
        self.copy_to_clipboard("\n".join([*table(run, [row]), ""]))
        self._say("The row was sent to the clipboard; not every terminal takes it.")

    def action_export(self) -> None:
        """Ask for a file and write the run that is shown."""
        from cpugpu_tui.ui.screens.export_form import ExportForm

        started = self.picture.run.run
        if started is None:
            return

        def write(path: Path | None) -> None:
            if path is not None:
                self._write_run(started.run_id, path)

        self.push_screen(ExportForm(f"{started.plan.name}-{started.run_id}.md".replace(os.sep, "_")), write)

    def _write_run(self, run_id: str, path: Path) -> None:
        def body() -> None:
            from cpugpu_tui.runs.export import formats, target
            from cpugpu_tui.runs.export.stream import exported

            try:
                run = exported(self.bridge.history().store.load(run_id))
                target.write(path, formats.rendered(formats.required_format_of(path), [run]))
                self.post_message(RunWritten(path))
            except CpuGpuError as error:
                self.post_message(RunWritten(path, error))

        self.run_worker(body, thread=True, exit_on_error=False, group="export")

    @on(RunWritten)
    def _tell_written(self, message: RunWritten) -> None:
        if message.error is not None:
            self.change(problem=message.error)
        else:
            self._say(f"Wrote {message.path}")

    def _say(self, text: str) -> None:
        """Say something in the status line for a while, in place of what stands there."""
        if self._said is None:
            self._before = self.picture.notice
        self._said = text
        self.change(notice=text)
        self.set_timer(SAID_S, lambda: self._unsay(text))

    _before: str | None = None

    def _unsay(self, text: str) -> None:
        if self._said == text:
            self._said = None
            if self.picture.notice == text:
                self.change(notice=self._before)
