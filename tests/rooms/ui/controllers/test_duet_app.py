"""What `o` takes beside a code: another one, which `c` compares while both are timed, and another machine."""

import re

import pytest
from tests.helpers.app.fake_run import opened, settled
from tests.helpers.app.looking import screen_lines, table_of, text_of
from textual.widgets import Input

from cpugpu_tui.model import Simulation
from cpugpu_tui.session.planning import PlanRequest
from cpugpu_tui.ui.app import CpuGpuApp
from cpugpu_tui.ui.app_state import AppOptions
from cpugpu_tui.ui.screens.code import CodeForm
from cpugpu_tui.ui.screens.compare import CompareScreen

SLOWER = Simulation(drift=0, first_call_ns=0, cpu_overhead_ns=200_000, launch_ns=200_000, noise=0.002, duet_factor=1.1)
CODES = {"code": "x @ x", "against": "torch.mm(x, x)", "setup": "x = torch.rand(n, n)", "sizes": "64,2048"}


async def type_code(pilot, **texts):
    await settled(pilot, lambda: pilot.app.state.agent_ready)
    await pilot.press("o")
    await settled(pilot, lambda: isinstance(pilot.app.screen, CodeForm))
    for name, text in texts.items():
        pilot.app.screen.query_one(f"#{name}", Input).value = text
    await pilot.pause()
    assert any("of fresh processes" in line for line in screen_lines(pilot)) == ("against" in texts)
    await pilot.press("enter")


@pytest.mark.usefixtures("agents_here")
async def test_two_codes_are_compared_while_they_are_timed(tmp_path):
    app = CpuGpuApp(AppOptions(request=PlanRequest(simulation=SLOWER), database=tmp_path / "results.db"))
    async with opened(app, (100, 40)) as pilot:
        await type_code(pilot, **CODES)
        await settled(pilot, lambda: app.bridge.duet is not None and app.bridge.duet.found is not None)
        assert app.state.situation.live
        await pilot.press("c")
        await settled(pilot, lambda: isinstance(app.screen, CompareScreen))
        await settled(pilot, lambda: any("+10.0 %  " in line and "GPU kernels" in line for line in screen_lines(pilot)))
        # Either side of a pair may be numbered first. A third pair may be done before the page is looked at.
        await settled(pilot, lambda: app.state.repeat_number >= 2)
        await settled(pilot, lambda: any(re.search(r"\(runs 2(, 4|-3)\b", line) for line in screen_lines(pilot)))
        await pilot.press("x")
        await settled(pilot, lambda: not app.state.situation.live)
        await pilot.press("escape")
        assert "x @ x · stopped, 2 cases" in text_of(pilot, "#status")
        assert table_of(pilot).row_count == len(CODES["sizes"].split(","))
        assert app.state.run.starts >= 2, "a pair is a start"
        await pilot.press("c")
        await settled(pilot, lambda: any("vs OLD torch.mm" in line for line in screen_lines(pilot)))
        await pilot.press("escape", "r")
        await settled(pilot, lambda: app.state.situation.live)
        assert app.state.situation.duet
        await pilot.press("x")
        await settled(pilot, lambda: not app.state.situation.live)
    app.bridge.backend.close()


async def test_code_runs_on_another_machine_and_r_runs_it_there_again(tmp_path):
    (tmp_path / "mine.py").write_text("from beside import *\ndef f(n):\n    return n\n")
    (tmp_path / "beside.py").touch()
    app = CpuGpuApp(AppOptions(request=PlanRequest(simulation=SLOWER), database=tmp_path / "results.db"))
    async with opened(app, (100, 40)) as pilot:
        await type_code(pilot, code=f"{tmp_path}/mine.py:f", host="there local", sizes="64")
        for number in (1, 2):
            await settled(
                pilot, lambda number=number: app.state.run.run is not None and app.state.run.run.number == number
            )
            await settled(pilot, lambda: app.state.run.finished is not None and not app.state.situation.live)
            assert (app.state.run.status, app.state.run.facts["fleet_host"]) == ("done", "there")
            assert app.state.notice == "Sending mine.py and beside.py to there (2 files, 0.0 kB)."
            assert not app.bridge.backend._others, "no agent stays there"
            await pilot.press("r")
    app.bridge.backend.close()
