"""The machine card: peak rates of CPU, GPU and PCIe, and fixed overheads."""

from __future__ import annotations

import time
from collections.abc import Sequence

from cpugpu_tui.analysis.ceilings import age, card
from cpugpu_tui.ui.keys import COMMAND_BY_ID
from cpugpu_tui.ui.panes.lines import Spans, fitted, respelled, spelled, wrapped
from cpugpu_tui.ui.panes.status import calibration_step
from cpugpu_tui.ui.screens.page import Page

EMPTY = (
    "This machine has not been measured yet. The card will show the peak rates of CPU, GPU and PCIe and the time of "
    "one launch and one copy. After that, each row of the table also shows what limits it. "
    "Press {measure} to measure CPU and GPU (about 20 s)."
)


class MachineScreen(Page):
    """Shows the last card; measuring has its own key, because it takes CPU and GPU for 20 s."""

    TOPIC = "machine"

    def page_title(self) -> Spans:
        """Return the age of the card, or the step of the measurement."""
        return (("Machine card ", "title"), *self._state())

    def _state(self) -> Spans:
        state = self.state
        if state.calibrating:
            return ((" measuring: ", "strong"), calibration_step(state))
        if state.situation.demo:
            return ((" of the recorded machine", "text"),)
        if state.situation.live:
            return ((" a run is in progress: measure when it has ended", "warn"),)
        if not state.ceilings:
            return ()
        measured = age(min(found.measured_wall_ns for found in state.ceilings), time.time_ns())
        return ((f" measured {measured}", "text"),)

    def page_keys(self) -> Sequence[tuple[str, str]]:
        """Return the keys of a page, and the one that measures."""
        back, *others = super().page_keys()
        can_measure = COMMAND_BY_ID["measure"].possible(self.state.situation)
        again = " again" if self.state.ceilings else ""
        return (back, *([("{measure}", f"measure{again} (20 s)")] if can_measure else []), *others)

    def page_lines(self, width: int) -> Sequence[Spans]:
        """Return why a device is missing, and the card or its description."""
        known, remark = self.state.ceilings, self.state.calibration_remark
        lines = wrapped(spelled(remark, self.glyphs), width, "warn") if remark else []
        if not known:
            return [*lines, *wrapped(self.state.keymap.with_keys(EMPTY), width)]
        lines += respelled(list(map(tuple, card(known, width, time.time_ns()))), self.glyphs)
        return [fitted(line, width, self.glyphs) for line in lines]
