"""The part of the app that hands results to other programs: a row to the clipboard, a run to a file."""

from __future__ import annotations

import os
from pathlib import Path

from textual import on
from textual.message import Message

from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.ui.controllers.history import LookingBack
from cpugpu_tui.ui.terminal.clipboard import envelope, way


class RunWritten(Message):
    """A run has been written to a file, or could not be."""

    def __init__(self, path: Path, error: CpuGpuError | None = None) -> None:
        """Carry which file, and why not."""
        super().__init__()
        self.path, self.error = path, error


class TakingAway(LookingBack):
    """Exports what is shown; only between runs, for writing costs what is being timed."""

    def action_copy_row(self) -> None:
        """Put the highlighted row as a Markdown table into the clipboard of the person's own terminal (OSC 52)."""
        from cpugpu_tui.export.markdown import table

        run = self.state.run
        row = run.rows.get(self.state.cursor or "")
        if row is None:
            self.say("No row is highlighted.")
            return
        self.copy_to_clipboard("\n".join([*table(run, [row]), ""]))
        self.say(f"Row sent to the clipboard, if {way(os.environ)}.")

    def action_copy_command(self) -> None:
        """Put the command that repeats the run on the screen into the clipboard of the person's own terminal."""
        from cpugpu_tui.session.again import again

        started = self.state.run.run
        if started is not None:
            command = again(started)
            self.copy_to_clipboard(command)
            self.say(f"Copied, if {way(os.environ)}: {command}")

    def copy_to_clipboard(self, text: str) -> None:
        """Ask the terminal to take a text, also from inside tmux and screen."""
        super().copy_to_clipboard(text)
        self.write_to_terminal(envelope(text, os.environ))

    def action_export(self) -> None:
        """Ask for a file and write the run that is shown."""
        from cpugpu_tui.ui.screens.export_form import ExportForm

        started = self.state.run.run
        if started is None:
            return

        def write(path: Path | None) -> None:
            if path is not None:
                self._write_run(started.run_id, path)

        self.push_screen(ExportForm(f"{started.plan.name}-{started.run_id}.md".replace(os.sep, "_")), write)

    def _write_run(self, run_id: str, path: Path) -> None:
        def body() -> None:
            from cpugpu_tui.export import formats, target
            from cpugpu_tui.export.stream import exported

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
            self.say(f"Wrote {message.path}")
