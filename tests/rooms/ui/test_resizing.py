"""Resizing during a run: every layout on the way, no lost rows, no blank pane."""

import re

from tests.helpers.app.fake_run import finish, opened, reach_gap, settled, start_run, whole_sweep
from tests.helpers.app.looking import screen_lines

from cpugpu_tui.model import CaseFinished
from cpugpu_tui.ui.panes.timing_table import TimingTable

WAY = [(80, 24), (200, 60), (60, 16), (120, 40), (59, 15), (200, 60), (80, 24), (160, 20), (100, 30), (300, 100),
       (20, 5)]  # fmt: skip
PANES = ("status", "workload", "timings", "chart", "answer", "telemetry", "keys")


def blank_panes(pilot):
    """Return the visible panes that are blank."""
    lines, found = screen_lines(pilot), []
    for name in PANES:
        widget = pilot.app.screen_stack[0].query_one(f"#{name}")
        region = widget.content_region
        text = "".join(line[region.x : region.right] for line in lines[region.y : region.bottom])
        if widget.display and region.area and not text.strip():
            found.append(name)
    return found


async def at(pilot, size):
    """Resize the terminal and wait for the new layout."""
    await pilot.resize_terminal(*size)
    await settled(pilot, lambda: tuple(pilot.app.screen.size) == size)


async def test_resized_at_every_case_of_a_run_nothing_is_lost_and_nothing_is_blank():
    async with opened(size=(80, 24)) as pilot:
        session = await start_run(pilot)
        done, events = 0, whole_sweep(session.plan)
        for size in WAY:
            while events:
                session.put(event := events.pop(0))
                if isinstance(event, CaseFinished):
                    done += 1
                    break
            await reach_gap(pilot, session)
            await at(pilot, size)
            if size[0] < 40 or size[1] < 12:
                await settled(pilot, lambda: any("Needs 40x12" in line for line in screen_lines(pilot)))
                continue
            told = re.compile(rf" {done} (of at most \d+ )?cases| {done}/(7|14) ")
            await settled(pilot, lambda told=told: any(told.search(line) for line in screen_lines(pilot)))
            await settled(pilot, lambda: not blank_panes(pilot))
            table = pilot.app.screen.query_one(TimingTable)
            assert table.row_count == 7
            assert table.size.height >= 3
        await finish(pilot, session)
        await at(pilot, (80, 24))
        await settled(pilot, lambda: any("done, 7 cases" in line for line in screen_lines(pilot)))
