"""The box for exporting a run: one field for the file; its suffix sets the format."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input

from cpugpu_tui.errors import CpuGpuError
from cpugpu_tui.export import formats, target
from cpugpu_tui.ui.panes.fields import LineField
from cpugpu_tui.ui.panes.lines import Lines, Spans, wrapped
from cpugpu_tui.ui.screens.page import Box

BOX_WIDTH = 76
"""Cells of the box, as in `app.tcss`."""


class ExportForm(Box[Path | None]):
    """Returns a writable file, or None if cancelled."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "cancel"),
        Binding("ctrl+c", "cancel", show=False, priority=True),  # otherwise the field copies its selection
    ]

    def __init__(self, name: str) -> None:
        """Propose a file of this name in the current folder."""
        super().__init__()
        self._proposed = name
        self._asked: Path | None = None

    def compose(self) -> ComposeResult:
        """Yield the field, its hint or error, and the keys."""
        with Vertical(id="box"):
            yield LineField(self._proposed, id="file", select_on_focus=False)
            yield Lines(id="hint", classes="keys")
            yield Lines(id="outcome")

    def on_mount(self) -> None:
        """Show the suffixes and focus the field."""
        self.query_one("#box").border_title = "Export"
        keys: Spans = (("enter", "key"), (" write  ", "text"), ("esc", "key"), (" back", "text"))
        self.query_one("#outcome", Lines).show([keys])
        self.query_one(Input).focus()

    def _hint(self, text: str, role: str = "muted") -> None:
        self.query_one("#hint", Lines).show(wrapped(text, min(BOX_WIDTH, self.app.size.width) - 4, role))

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        """Show an unknown suffix at once. What needs the disk is checked when enter is pressed."""
        event.stop()
        self._asked = None
        self._show_hint(event.value.strip())

    def on_resize(self) -> None:
        """Wrap the hint for the new width."""
        self._show_hint(self.query_one(Input).value.strip())

    def _show_hint(self, name: str) -> None:
        """Show the suffixes, or that this file's is unknown."""
        try:
            if name:
                formats.required_format_of(Path(name))
        except CpuGpuError as error:
            self._hint(str(error), "bad")
        else:
            suffixes = ", ".join(formats.SUFFIXES.values())
            self._hint(f"The suffix sets the format: {suffixes}. thresholds.json: crossovers for programs.")

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        # `Path.expanduser` raises for an unknown user; this does not.
        path = Path(os.path.expanduser(event.value.strip()))
        try:
            formats.need(formats.required_format_of(path))
            target.check_file(path)
        except CpuGpuError as error:
            self._hint(str(error), "bad")
            return
        if path.exists() and self._asked != path:
            self._asked = path
            verb = "add to" if formats.format_of(path) == formats.THRESHOLDS else "replace"
            self._hint(f"{path} exists already. Press enter again to {verb} it.", "warn")
            return
        self.dismiss(path)
