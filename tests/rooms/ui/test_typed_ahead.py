"""Keys typed for a screen or an app that has closed meanwhile; each case was found by random keys."""

import asyncio
from math import inf

import pytest
from tests.helpers.app.fake_run import new_app, opened, settled
from tests.helpers.app.fuzz import send_at_once
from tests.helpers.app.looking import shown
from tests.helpers.app.saved_runs import app_with, list_runs, stream

from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.ui.panes.status import StatusPane
from cpugpu_tui.ui.panes.timing_table import TimingTable
from cpugpu_tui.ui.panes.workload import WorkloadPane
from cpugpu_tui.ui.screens.detail import DetailScreen
from cpugpu_tui.ui.screens.help import HelpScreen
from cpugpu_tui.ui.screens.page import ConfirmScreen


def typing_early(app, monkeypatch, *keys):
    """Type keys before the first frame."""
    show = app.get_default_screen

    def type_and_show():
        send_at_once(app, *keys)
        return show()

    monkeypatch.setattr(app, "get_default_screen", type_and_show)
    return app


async def test_what_is_typed_before_the_first_frame_waits_for_what_it_is_meant_for(monkeypatch):
    """The list of workloads and whatever runs them come after the first frame."""
    app = typing_early(new_app(), monkeypatch, "j", "r")
    async with opened(app) as pilot:
        await settled(pilot, lambda: app.backend.sessions)
        pane = app.main_screen.query_one(WorkloadPane)
        assert pane.options.highlighted == 1
        assert app.backend.sessions[0].plan.name == pane.entry.name, "`r` runs what is highlighted"
        assert app.main_screen.focused_pane == "timings", "the rows of the run get the keys"


async def test_keys_move_in_the_list_before_the_rest_is_loaded(monkeypatch):
    app = typing_early(new_app(), monkeypatch, "j", "j")
    style_pages, moved_to = app.style_pages, []

    def load_on():
        moved_to.append(app.main_screen.workload.options.highlighted)
        assert "live" not in vars(app), "a controller that no key of the list needs"
        style_pages()

    monkeypatch.setattr(app, "style_pages", load_on)
    async with opened(app):
        assert moved_to == [2]


async def test_what_was_to_be_painted_before_the_first_frame_is_not_painted_again(monkeypatch):
    """Widgets ask for a paint when they get a title or a child: the whole first frame was painted twice."""
    app = new_app()
    async with opened(app) as pilot:
        main, painted = app.main_screen, []
        status = main.query_one(StatusPane)
        draw = status.render_lines
        monkeypatch.setattr(status, "render_lines", lambda crop: painted.append(crop) or draw(crop))
        monkeypatch.setattr(main, "_framed_s", inf)
        status.refresh()
        await pilot.pause(0.1)
        assert not painted
        main.frame_painted()
        status.refresh()
        await settled(pilot, lambda: painted)


async def test_the_rules_of_pages_are_read_before_the_first_page_is_opened(monkeypatch):
    app = typing_early(new_app(), monkeypatch, "?")
    style_pages, screens = app.style_pages, []

    def note():
        screens.append(len(app.screen_stack))
        style_pages()

    monkeypatch.setattr(app, "style_pages", note)
    async with opened(app) as pilot:
        await settled(pilot, lambda: isinstance(app.screen, HelpScreen))
        assert screens[0] == 1
        await pilot.press("escape")
        assert app.main_screen.workload.options.has_focus


async def test_what_is_typed_after_quitting_begins_no_run():
    app = new_app()
    async with opened(app) as pilot:
        await settled(pilot, lambda: app.state.agent_ready)
        send_at_once(app, "q", "r", "?")
        await settled(pilot, lambda: app.return_value is not None)
    assert app.backend.sessions == []


async def test_what_comes_while_the_app_ends_finds_pages_without_widgets_and_does_no_harm():
    async with opened() as pilot:
        await pilot.press("?")
        await pilot.app.screen.query("*").remove()  # as the end of the app does, a screen at a time
        pilot.app.leaving.leave()
        pilot.app.change(notice="said too late")


async def test_a_box_below_another_one_answers_only_once_it_is_on_top_again():
    """It closed the box above, and a second enter ended the app with an InvalidStateError."""
    app, answers = new_app(), []
    async with opened(app):
        boxes = [ConfirmScreen(f"{number}?", "yes", "no") for number in range(2)]
        for box in boxes:
            await app.push_screen(box, answers.append)
        await boxes[0].dismiss(True)
        assert (app.screen, answers) == (boxes[1], [])
        await boxes[1].dismiss(False)
        await boxes[0].dismiss(True)
        assert answers == [False, True]


@pytest.mark.parametrize("opens", ["T", "e", ":", "enter", "/", "/x", "?", "m", "K"])
async def test_ctrl_c_leaves_from_wherever_one_is(opens):
    app = new_app()
    async with opened(app, ran=True) as pilot:
        if opens == "enter":
            await pilot.press("shift+tab")  # to the workloads
        await pilot.press(*(opens if opens != "enter" else [opens]))
        for _ in range(2):  # a box takes the first
            await pilot.press("ctrl+c")
        assert app.return_value is not None


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_enter_opens_a_row_of_a_saved_run_before_its_table_is_laid_out(store, size, monkeypatch):
    store.import_run(stream("a"))
    app = app_with(store)
    show = app.history._put

    def show_and_open(*opened_run):
        show(*opened_run)
        app.screen.query_one(TimingTable).action_select_cursor()

    monkeypatch.setattr(app.history, "_put", show_and_open)
    async with opened(app, size) as pilot:
        await list_runs(pilot)
        await pilot.press("enter")
        await settled(pilot, lambda: isinstance(app.screen, DetailScreen))
        await pilot.press("escape")
        assert len(shown(pilot)) == 3


async def test_a_run_that_is_ended_before_it_has_a_session_ends_at_once():
    """It was asked to stop after its block only, and a test that had ended waited for it for ten minutes."""
    app = new_app()
    async with opened(app) as pilot:
        await settled(pilot, lambda: app.state.agent_ready)
        app.bridge.expect_series()
        app.bridge.kill()
        await asyncio.to_thread(app.bridge.run_series, build_plan(PlanRequest()), 1, None)
    assert [session.asked for session in app.backend.sessions] == [["kill"]]
