"""The app as a test sees it: panes as text, the table and the screen as lines.

Panes have the text of the app's state at once. The screen may follow later, because a run lets it repaint only in gaps:
what must be on it is waited for with `reads`.
"""

import time
from typing import Any

from tests.helpers.app.fake_run import PATIENCE_S, FakeSession, settled
from tests.helpers.app.states import joined
from textual.pilot import Pilot

from cpugpu_tui.ui.panes.lines import Lines, plain
from cpugpu_tui.ui.panes.timing_table import TimingTable


def text_of(pilot: Pilot[Any], selector: str) -> str:
    """Return the text of a pane of lines."""
    return "\n".join(plain(line) for line in pilot.app.screen.query_one(selector, Lines).lines)


def table_of(pilot: Pilot[Any]) -> TimingTable:
    return pilot.app.screen_stack[0].query_one(TimingTable)


def shown(pilot: Pilot[Any]) -> list[str]:
    """Lines of the table under its header."""
    table = table_of(pilot)
    return [" ".join(table.render_line(y + 1).text.split()) for y in range(table.row_count)]


def screen_lines(pilot: Pilot[Any]) -> list[str]:
    """Return the lines of the screen as text."""
    return [strip.text for strip in pilot.app.screen._compositor.render_strips()]


def said(pilot: Pilot[Any]) -> str:
    """Return what the screen says, lines joined and frames left out."""
    return " ".join(" ".join(line.replace("│", " ") for line in screen_lines(pilot)).split())


async def session_of(pilot: Pilot[Any], count: int = 1) -> FakeSession:
    """Wait until so many runs were begun; return the last one's session."""
    await settled(pilot, lambda: len(pilot.app.backend.sessions) >= count and pilot.app.gate.held)
    return pilot.app.backend.sessions[-1]


async def reads(pilot: Pilot[Any], *sentences: str) -> list[str]:
    """Wait until the screen shows all of these texts, or fail with its content; return its lines."""
    ends_s = time.monotonic() + PATIENCE_S
    while missing := [sentence for sentence in sentences if sentence not in joined(screen_lines(pilot))]:
        assert time.monotonic() < ends_s, "\n".join([f"not said: {missing}", *screen_lines(pilot)])
        await pilot.pause(0.02)
    return screen_lines(pilot)
