"""What the app shows while the history takes nothing, and that it goes away once everything is saved."""

import sqlite3
from contextlib import closing

from tests.helpers.app.fake_run import settled
from tests.helpers.app.looking import reads, screen_lines
from tests.helpers.app.states import joined
from tests.rooms.ui.test_states import ShownApp, run_to_its_end

from cpugpu_tui.model import Simulation
from cpugpu_tui.session.planning import PlanRequest
from cpugpu_tui.store import Store
from cpugpu_tui.ui.app import CpuGpuApp
from cpugpu_tui.ui.app_state import AppOptions


async def test_rows_that_are_not_saved_yet_are_marked_until_they_are(tmp_path):
    path = tmp_path / "results.db"
    asked = PlanRequest(("matmul",), sizes="64", rounds=5, simulation=Simulation())
    app = CpuGpuApp(AppOptions(request=asked, database=path))
    async with ShownApp(app) as pilot:
        await settled(pilot, lambda: app.state.agent_ready)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            await run_to_its_end(pilot)
            await reads(pilot, "*64", "Not saved yet: The database", "Close that program")
            (row,) = app.state.run.rows.values()
            assert not row.saved
            assert app.state.run.run.number is None
            await pilot.press("enter")
            await reads(pilot, "* not saved:")
            await pilot.press("escape")
            other.execute("ROLLBACK")
            await settled(pilot, lambda: not app.state.unsaved)
        assert app.state.run.run.number == 1
        assert all(row.saved for row in app.state.run.rows.values())
        await reads(pilot, "done, 1 case")
        assert "*64" not in joined(screen_lines(pilot))
        assert "Not saved" not in joined(screen_lines(pilot))
    with closing(Store.open(path)) as store:
        (run,) = store.runs()
        assert (run.status, run.cases_ok) == ("done", 1)
    app.bridge.backend.outbox.close()


async def test_a_history_that_could_not_be_opened_is_used_once_it_can(tmp_path):
    path = tmp_path / "later" / "results.db"
    asked = PlanRequest(("matmul",), sizes="64", rounds=5, simulation=Simulation())
    app = CpuGpuApp(AppOptions(request=asked, database=path))
    async with ShownApp(app) as pilot:
        await run_to_its_end(pilot)
        await reads(pilot, "Not saved")
        path.parent.mkdir()
        await settled(pilot, lambda: not app.state.unsaved and not app.state.notice)
        assert "Not saved" not in joined(screen_lines(pilot)[:1])
    with closing(Store.open(path)) as store:
        assert [run.status for run in store.runs()] == ["done"]
    app.bridge.backend.outbox.close()


async def test_a_run_that_is_not_saved_uses_saved_peak_rates(tmp_path):
    asked = PlanRequest(("matmul",), sizes="64", rounds=5, simulation=Simulation())
    for save in (True, False):
        app = CpuGpuApp(AppOptions(request=asked, database=tmp_path / "results.db", save=save))
        async with ShownApp(app) as pilot:
            if not save:  # pages show them before any run
                await settled(pilot, lambda app=app: bool(app.state.ceilings))
            await run_to_its_end(pilot)
            assert app.state.run.plan.ceilings, "measured after the first run, read for the second"
    assert app.bridge.backend.outbox is None
