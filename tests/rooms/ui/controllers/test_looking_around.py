"""Filter, zoom, panes, detail, help and themes: what a person does between runs."""

import re
from dataclasses import replace

import pytest
from tests.helpers.app import fake_run
from tests.helpers.app.looking import screen_lines, shown, table_of, text_of

from cpugpu_tui.model import LATENCY, DeviceSampled
from cpugpu_tui.session.planning import PlanRequest
from cpugpu_tui.ui.screens.detail import DetailScreen
from cpugpu_tui.ui.screens.main import MainScreen
from cpugpu_tui.ui.screens.page import Page


async def test_filter_narrows_while_typing_and_esc_shows_all():
    async with fake_run.opened(ran=True) as pilot:
        await pilot.press("/", *"gpu")
        assert len(shown(pilot)) == 5
        assert all("▲ GPU" in line for line in shown(pilot))
        assert text_of(pilot, "#keys").split() == ["enter", "Keep", "esc", "Show", "all"]
        await pilot.press("enter")
        assert pilot.app.focused is table_of(pilot)
        assert len(shown(pilot)) == 5
        await pilot.press("escape")
        sizes = [line.removeprefix("▸").removeprefix("matmul ").split()[0] for line in shown(pilot)]
        assert sizes == ["16", "50", "100", "200", "500", "1,000", "2,048"]


async def test_zoom_gives_the_focused_pane_the_screen_and_takes_it_back():
    async with fake_run.opened(ran=True) as pilot:
        screen = pilot.app.screen
        timings, answer = screen.query_one("#timings"), screen.query_one("#answer")
        before = timings.outer_size.height
        await pilot.press("z")
        await fake_run.settled(pilot, lambda: timings.outer_size.height > before)
        assert not screen.query_one("#telemetry").display
        assert not screen.query_one("#workload").display
        # Table and answer have all that status line and keys leave.
        assert timings.outer_size.height + answer.outer_size.height == screen.size.height - 2
        assert "z Zoom out" in text_of(pilot, "#keys")
        await pilot.press("escape")
        await fake_run.settled(pilot, lambda: timings.outer_size.height == before)
        assert screen.query_one("#telemetry").display
        assert screen.query_one("#workload").display
        assert "Zoom out" not in text_of(pilot, "#keys")


async def test_tab_goes_through_the_panes():
    async with fake_run.opened(ran=True) as pilot:
        await pilot.press("shift+tab")
        panes = []
        for _ in range(4):
            panes.append(pilot.app.screen.focused_pane)
            await pilot.press("tab")
        assert panes == ["workload", "timings", "telemetry", "workload"]


async def test_where_nothing_opens_the_key_that_helps_is_named():
    async with fake_run.opened() as pilot:
        await pilot.press("tab", "enter")
        assert pilot.app.screen.focused_pane == "telemetry"
        assert "press z" in text_of(pilot, "#status")


async def test_enter_on_a_row_opens_its_detail_and_esc_goes_back(words):
    async with fake_run.opened(size=(80, 24)) as pilot:
        session = await fake_run.start_run(pilot)
        case = session.plan.cases[2]
        session.put(*fake_run.whole_sweep(session.plan))
        session.put(
            DeviceSampled(
                case=case.key,
                device="cuda:0",
                round_index=9,
                calls_per_block=40,
                samples={LATENCY: (2e4,)},
                marks=("starved",),
            )
        )
        await fake_run.finish(pilot, session)
        await pilot.press("home", "j", "j", "enter")
        assert isinstance(pilot.app.screen, DetailScreen)
        assert text_of(pilot, "#page-title").startswith(f"{case.workload} {case.size} ")
        detail = text_of(pilot, "#page-text")
        assert "95 % interval" in detail
        assert "starved: " in detail
        words(line for line in detail.splitlines() if line.startswith("Results"))
        assert "torch 2.11.0+cu130" in " ".join(detail.split())
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, MainScreen)


async def test_the_detail_changes_with_the_run():
    async with fake_run.opened() as pilot:
        session = await fake_run.start_run(pilot)
        case = session.plan.cases[0]
        session.put(*fake_run.rounds(case, 1_000, 20_000, 2))
        await fake_run.reach_gap(pilot, session, case)
        await pilot.press("enter")
        await fake_run.settled(pilot, lambda: isinstance(pilot.app.screen, DetailScreen))
        assert "from 2 rounds" in text_of(pilot, "#page-text")
        session.put(*fake_run.rounds(case, 1_000, 20_000, 6))
        await fake_run.reach_gap(pilot, session, case)
        assert "from 6 rounds" in text_of(pilot, "#page-text")


async def test_t_changes_the_theme_and_the_cells_follow():
    async with fake_run.opened(ran=True) as pilot:
        before = pilot.app.theme
        colour = table_of(pilot).get_cell_at((0, 1)).spans[0].style.color
        await pilot.press("t")
        await fake_run.settled(pilot, lambda: table_of(pilot).get_cell_at((0, 1)).spans[0].style.color != colour)
        assert pilot.app.theme != before


async def test_the_line_for_workloads_says_which_of_how_many():
    async with fake_run.opened(size=(80, 24)) as pilot:
        await pilot.press("end")
        await pilot.pause()
        line = screen_lines(pilot)[1]
        assert re.match(r" Workload (\d+)/\1 ▸conv2d", line), line


async def test_the_size_stays_where_the_name_is_too_long():
    async with fake_run.opened(fake_run.new_app(PlanRequest(("mnist-width",))), (80, 24)) as pilot:
        session = await fake_run.start_run(pilot)
        names = [" ".join(line.removeprefix("▸").split()[:2]) for line in shown(pilot)]
        assert names == [f"{case.size:,} {case.variant}" for case in session.plan.cases]
        await fake_run.finish(pilot, session)


async def test_signs_are_explained_while_they_are_on_the_screen():
    async with fake_run.opened(size=(80, 24)) as pilot:
        session = await fake_run.start_run(pilot)
        legend = pilot.app.screen.query_one("#legend")
        case = session.plan.cases[0]
        events = [event for event in fake_run.whole_sweep(session.plan) if getattr(event, "case", "") == case.key]
        session.put(*(replace(event, marks=()) if isinstance(event, DeviceSampled) else event for event in events))
        await fake_run.reach_gap(pilot, session, session.plan.cases[1])
        await fake_run.settled(pilot, lambda: "▼ CPU" in shown(pilot)[0])
        assert not legend.display, "nothing to explain takes no line"
        marked = next(event for event in events if isinstance(event, DeviceSampled) and event.device == "cuda:0")
        session.put(replace(marked, round_index=9, marks=("throttled",)))
        await fake_run.reach_gap(pilot, session, session.plan.cases[1])
        await fake_run.settled(pilot, lambda: bool(legend.display))
        assert "~ less certain" in text_of(pilot, "#legend")
        assert "~" in shown(pilot)[0]
        await fake_run.finish(pilot, session)


@pytest.mark.parametrize("key", ["h", "K", "g", "question_mark", "M", "enter"])
async def test_a_page_that_is_closed_is_not_drawn_any_more(key):
    """What was to come after the next paint, or from a thread, comes late: its widgets are gone by then."""
    async with fake_run.opened(ran=True) as pilot:
        await pilot.press(key)
        await fake_run.settled(pilot, lambda: isinstance(pilot.app.screen, Page))
        page = pilot.app.screen
        await pilot.press("escape")
        await fake_run.settled(pilot, lambda: not page.query("Lines"))
        page.redraw()
