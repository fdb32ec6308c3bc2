"""The app as a test sees it: panes as text, the table as lines."""

from __future__ import annotations

from typing import Any

from tests.helpers.app.fake_run import finish, start_run, whole_sweep
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


async def done_run(pilot: Pilot[Any]) -> None:
    session = await start_run(pilot)
    session.put(*whole_sweep(session.plan))
    await finish(pilot, session)
