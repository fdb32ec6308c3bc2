"""The box for exporting a run: one field for the file; its suffix sets the format."""

from __future__ import annotations

import os
from pathlib import Path

from textual.app import ComposeResult
from textual.containers import Vertical

from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.export import formats, target
from cpugpu_tui.ui.panes.lines import Lines, Spans, wrapped
from cpugpu_tui.ui.screens.form import LineBox

BOX_WIDTH = 76
"""Cells of the box, as in `pages.tcss`."""


class ExportForm(LineBox[Path]):
    """Returns a writable file, or None if cancelled."""

    _asked: Path | None = None
    """An existing file that a second enter replaces."""

    def compose(self) -> ComposeResult:
        """Yield the field, its hint or error, and the keys."""
        with Vertical(id="box"):
            yield self.make_field()
            yield Lines(id="hint", classes="keys")
            yield Lines(id="outcome")

    def on_mount(self) -> None:
        """Set the title and show the keys."""
        self.query_one("#box").border_title = "Export"
        keys: Spans = (("enter", "key"), (" write  ", "text"), ("esc", "key"), (" back", "text"))
        self.query_one("#outcome", Lines).show([keys])

    def check(self, text: str, *, is_final: bool) -> Path | None:
        """Show an unknown suffix at once. What needs the disk is checked when enter is pressed."""
        # `Path.expanduser` raises for an unknown user; this does not.
        path, asked, self._asked = Path(os.path.expanduser(text)), self._asked, None
        suffixes = ", ".join(formats.SUFFIXES.values())
        told = f"The suffix sets the format: {suffixes}. A file named thresholds.json gets crossovers for programs."
        role = "muted"
        try:
            name = formats.required_format_of(path) if text or is_final else ""
            if is_final:
                formats.need(name)
                target.check_file(path)
                if not path.exists() or asked == path:
                    return path
                self._asked = path
                verb = "add to" if name == formats.THRESHOLDS else "replace"
                told, role = f"{path} exists already. Press enter again to {verb} it.", "warn"
        except CpuGpuError as error:
            told, role = str(error), "bad"
        self.query_one("#hint", Lines).show(wrapped(told, min(BOX_WIDTH, self.app.size.width) - 4, role))
        return None
