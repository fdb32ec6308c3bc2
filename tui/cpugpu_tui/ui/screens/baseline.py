"""The box that asks for the name of a baseline."""

from __future__ import annotations

from cpugpu_tui.compare.series import checked_baseline
from cpugpu_tui.errors import UsageError
from cpugpu_tui.ui.panes.lines import Lines, wrapped
from cpugpu_tui.ui.screens.form import LineBox

WIDTH = 54
"""Most cells of the text in a box."""


class BaselineBox(LineBox[str]):
    """Returns the name, or None if cancelled."""

    TITLE, DOES = "Name this series as a baseline", "set"

    def check(self, text: str, *, is_final: bool) -> str | None:
        """Show the error of the name, or what it is for; return a valid name."""
        del is_final
        name, told, role = (
            None,
            "Later runs are compared with it. The commands compare and gate accept its name.",
            "muted",
        )
        try:
            name = checked_baseline(text)
        except UsageError as error:
            told, role = str(error), "bad"
        self.query_one("#hint", Lines).show(wrapped(told, min(WIDTH, self.size.width - 4), role))
        return name
