"""The noise floor in the app: N shows the newest one, r measures it there, and every size has its main column."""

import re

from tests.helpers.app.fake_run import opened, settled
from tests.helpers.app.looking import text_of

from cpugpu_tui.compare.series import REPEATS
from cpugpu_tui.model import Simulation
from cpugpu_tui.session.planning import PlanRequest
from cpugpu_tui.ui.app import CpuGpuApp
from cpugpu_tui.ui.app_state import AppOptions
from cpugpu_tui.ui.screens.compare import NoiseScreen
from cpugpu_tui.ui.screens.main import MainScreen


def new_app(path):
    simulation = Simulation(noise=0.005, drift=0.005)
    return CpuGpuApp(AppOptions(request=PlanRequest(simulation=simulation), worker="thread", database=path))


async def test_r_on_its_page_measures_it_and_the_next_app_shows_it_at_every_size(tmp_path, words):
    path = tmp_path / "history.db"
    app = new_app(path)
    async with opened(app, (80, 24)) as pilot:
        await settled(pilot, lambda: app.state.agent_ready)
        await pilot.press("N")
        await settled(pilot, lambda: "(about a minute)" in text_of(pilot, "#page-text"))
        words(text_of(pilot, "#page-text"))
        await pilot.press("r")
        await settled(pilot, lambda: app.state.situation.live)
        await settled(pilot, lambda: app.state.repeat_number == REPEATS)
        await settled(pilot, lambda: "Run 5 of 5 is in progress" in text_of(pilot, "#page-text"))
        await settled(pilot, lambda: "spread:" in text_of(pilot, "#page-text"))
        measured = text_of(pilot, "#page-text")
    app.bridge.backend.close()
    app.bridge.backend.outbox.close()
    for size in ((80, 24), (40, 12), (120, 40)):
        shown = await shown_by_the_next_app(path, size)
        assert size[0] != 80 or shown == measured
        head, *rows = [line for line in shown.splitlines() if line]
        assert "5 runs" in head
        assert ("spread" in head) == (size[0] >= 80)
        floors = [line for line in rows if re.match(r"matmul [\d,]+ +(CPU|GPU|GPU kernels) .* %", line)]
        assert len(floors) == 9
        assert max(map(len, floors)) <= size[0] - 4


async def shown_by_the_next_app(path, size):
    again = new_app(path)
    async with opened(again, size) as pilot:
        await settled(pilot, lambda: again.state.agent_ready)
        await pilot.press("N")
        await settled(pilot, lambda: "spread:" in text_of(pilot, "#page-text"))
        assert size[0] < 80 or "runs 1-5" in text_of(pilot, "#page-title")
        shown = text_of(pilot, "#page-text")
        await pilot.press("N")
        assert isinstance(pilot.app.screen, MainScreen)
    again.bridge.backend.close()
    again.bridge.backend.outbox.close()
    return shown


async def test_it_says_why_it_reads_no_history_and_that_it_waits_for_a_run():
    app = CpuGpuApp(AppOptions(request=PlanRequest(simulation=Simulation(pace=1)), worker="thread", save=False))
    async with opened(app) as pilot:
        await settled(pilot, lambda: app.state.agent_ready)
        await pilot.press("r", "N")
        await settled(pilot, lambda: "Another run is in progress. Wait" in text_of(pilot, "#page-text"))
        await pilot.press("x", "x")
        await settled(pilot, lambda: "--no-save" in text_of(pilot, "#page-text"))
        assert isinstance(pilot.app.screen, NoiseScreen)
    app.bridge.backend.close()
