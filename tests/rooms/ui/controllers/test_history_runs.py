"""Runs of the history that go on: run again with their plan, followed while another terminal has them live."""

from dataclasses import replace

import pytest
from tests.helpers.app.fake_run import finish, opened, settled
from tests.helpers.app.looking import session_of, shown, text_of
from tests.helpers.app.saved_runs import SWEEP, app_with, begin, list_runs, listed, open_newest, status, stream
from textual.widgets import OptionList

from cpugpu_tui.model import RunFinished
from cpugpu_tui.ui.screens.main import MainScreen

# ------------------------------------------------------------------ running it again


async def again(pilot, count):
    await pilot.press("r")
    return await session_of(pilot, count)


@pytest.mark.parametrize("opened_first", [True, False], ids=["in the panes", "in the list"])
async def test_r_runs_the_same_plan_with_the_same_seed_until_something_else_is_chosen(store, opened_first):
    plan = replace(SWEEP, seed=77, rounds=5, name="mine")
    store.import_run(stream("a", plan))
    async with opened(app_with(store)) as pilot:
        await (open_newest(pilot) if opened_first else list_runs(pilot))
        session = await again(pilot, 1)
        assert session.plan == replace(plan, gaps=True)
        assert isinstance(pilot.app.screen, MainScreen)
        assert status(pilot).startswith("mine")
        assert pilot.app.state.past is None
        await finish(pilot, session)
        session = await again(pilot, 2)
        assert session.plan.seed == 77
        await finish(pilot, session)
        pilot.app.screen.query_one("#workload OptionList", OptionList).focus()
        await pilot.press("j")
        session = await again(pilot, 3)
        assert session.plan.seed != 77
        await finish(pilot, session)


# ------------------------------------------------------------------ another terminal's run


async def test_another_terminals_run_is_followed_to_its_end(store, monkeypatch):
    monkeypatch.setattr("cpugpu_tui.ui.controllers.history.FOLLOW_S", 0.02)
    monkeypatch.setattr("cpugpu_tui.ui.screens.history.LOOK_S", 0.02)
    events = stream("a", age_ns=0)
    cases = begin(store, events)
    store.commit_cases("a", [cases[0]])
    async with opened(app_with(store)) as pilot:
        await list_runs(pilot)
        assert "→ running 1" in listed(pilot)[0]
        store.commit_cases("a", [cases[1]])
        await settled(pilot, lambda: "→ running 2" in listed(pilot)[0])
        await pilot.press("enter")
        await settled(pilot, lambda: pilot.app.state.past is not None)
        assert "→ running 2/3" in status(pilot)
        assert "▲ GPU" not in shown(pilot)[2]
        store.commit_cases("a", [cases[2]])
        await settled(pilot, lambda: "▲ GPU" in shown(pilot)[2])
        assert not pilot.app.state.situation.live
        last = events[-1]
        assert isinstance(last, RunFinished)
        store.finish_run("a", last)
        await settled(pilot, lambda: "✓ done 3/3" in status(pilot))


async def test_a_run_that_is_deleted_while_it_is_followed_is_missed_in_a_sentence(store, monkeypatch):
    monkeypatch.setattr("cpugpu_tui.ui.controllers.history.FOLLOW_S", 0.02)
    begin(store, stream("a"))
    async with opened(app_with(store)) as pilot:
        await open_newest(pilot)
        store._connection.execute("DELETE FROM run")
        await settled(pilot, lambda: "Run 1" in text_of(pilot, "#answer"))
        assert shown(pilot)
