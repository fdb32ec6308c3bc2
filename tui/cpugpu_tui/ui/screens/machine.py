"""The machine card: what CPU, GPU and cable reach here, and why small work loses on the GPU."""

from __future__ import annotations

import time
from collections.abc import Sequence

from cpugpu_tui.analysis.card import card
from cpugpu_tui.ui.glyphs import Glyphs
from cpugpu_tui.ui.panes.lines import spelled, wrapped
from cpugpu_tui.ui.picture import Picture
from cpugpu_tui.ui.roles import Spans
from cpugpu_tui.ui.screens.page import Page


class MachineScreen(Page):
    """Shows what is kept; measuring is asked for by a key of its own, because it takes CPU and GPU for 20 seconds."""

    def __init__(self, picture: Picture, glyphs: Glyphs) -> None:
        """Draw with these glyphs."""
        super().__init__(picture)
        self._glyphs = glyphs

    def page_title(self) -> Spans:
        """Return what this is, and what the key for measuring would do."""
        return (("Machine card  ", "title"), *self._state())

    def _state(self) -> Spans:
        picture = self.picture
        if picture.calibrating:
            return ((f"measuring: {picture.calibrating}", "strong"),)
        if picture.situation.live:
            return (("a run is going on: measuring has to wait for it", "muted"),)
        again = "again" if picture.ceilings else "this machine, CPU and GPU, about 20 seconds"
        return (("M", "key"), (f" measures {again}", "text"))

    def page_lines(self, width: int) -> Sequence[Spans]:
        """Return the card, or what to press for one."""
        known = self.picture.ceilings
        if not known:
            text = (
                "Nothing has been measured on this machine yet. A card shows what its CPU and GPU reach at most, what "
            )
            text += "one launch and one copy cost, and lets every row say what limits it."
            return wrapped(text, width, "text")
        unicode = self._glyphs.times == "×"
        lines: list[Spans] = []
        for parts in card(known, width, time.time_ns(), unicode=unicode):
            line = tuple((spelled(text, self._glyphs), role) for text, role in parts)
            whole = "".join(text for text, _ in line)
            lines += wrapped(whole, width, line[0][1]) if len(line) == 1 and len(whole) > width else [line]
        return lines
