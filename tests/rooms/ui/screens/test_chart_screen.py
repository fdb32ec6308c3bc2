"""The chart in the app: g, w, f, and that nothing is drawn while a case is being timed."""

from itertools import pairwise
from types import SimpleNamespace

import pytest
from tests.helpers.app.chart_runs import EDGE, timed
from tests.helpers.app.fake_run import (
    finish,
    finished,
    new_app,
    opened,
    reach_gap,
    readings,
    rounds,
    settled,
    start_run,
    whole_sweep,
)
from tests.helpers.app.looking import text_of

from cpugpu_tui.report.report import sweep_in
from cpugpu_tui.session.planning import PlanRequest
from cpugpu_tui.ui.chart import ChartPane, ChartScreen
from cpugpu_tui.ui.chart import drawing as chart
from cpugpu_tui.ui.screens.main import MainScreen

WIDE = (200, 60)


async def done_run(pilot):
    session = await start_run(pilot)
    session.put(*(event for case in session.plan.cases for event in (*timed(case), finished(case))))
    await finish(pilot, session)


async def charted(pilot):
    """The chart once it is drawn."""
    await settled(pilot, lambda: "C CPU" in text_of(pilot, "#chart"))
    return text_of(pilot, "#chart")


def column_of(text, sign):
    return next(line.index(sign) for line in text.splitlines() if EDGE.search(line) and sign in line)


def columns_of(text, sign):
    return {x for line in text.splitlines() if EDGE.search(line) for x, found in enumerate(line) if found == sign}


def places(text):
    """Columns of the curve with copies."""
    return columns_of(text, "E") | columns_of(text, "*")


async def test_g_opens_the_chart_and_closes_it_and_so_does_esc(words):
    async with opened(size=(80, 24)) as pilot:
        await done_run(pilot)
        for back in ("g", "escape"):
            await pilot.press("g")
            assert isinstance(pilot.app.screen, ChartScreen)
            text = await charted(pilot)
            words(text.splitlines()[0])
            assert len(text.splitlines()) == 22
            await pilot.press(back)
            assert isinstance(pilot.app.screen, MainScreen)


async def test_before_a_run_it_says_what_will_be_here(words):
    async with opened(size=(80, 24)) as pilot:
        await pilot.press("g")
        words(" ".join(text_of(pilot, "#chart").split()))


async def test_w_moves_the_marker_and_the_answer_says_where_to(words):
    async with opened(size=(80, 24)) as pilot:
        await done_run(pilot)
        before = text_of(pilot, "#answer")
        await pilot.press("w")
        said = " ".join(text_of(pilot, "#answer").split())
        assert pilot.app.state.what_if == "end to end"
        assert "≈ 22" in said
        words(said)
        await pilot.press("g")
        moved = column_of(await charted(pilot), "X")
        for _ in range(6):
            await pilot.press("w")
            if pilot.app.state.what_if == "resident":
                break
        assert column_of(text_of(pilot, "#chart"), "X") < moved
        await pilot.press("g")
        assert text_of(pilot, "#answer") == before


async def test_capital_x_and_y_make_the_axes_even_and_logarithmic_again():
    async with opened(size=(80, 24)) as pilot:
        await done_run(pilot)
        await pilot.press("g")
        first = await charted(pilot)
        assert "X linear sizes" in text_of(pilot, "#page-keys")
        await pilot.press("X")
        assert "linear sizes" in text_of(pilot, "#chart")
        assert "X log sizes" in text_of(pilot, "#page-keys")
        await pilot.press("Y")
        assert "linear times" in text_of(pilot, "#chart")
        await pilot.press("X", "Y")
        assert text_of(pilot, "#chart") == first


async def test_j_and_k_move_the_line_of_the_highlighted_row():
    async with opened(size=(80, 24)) as pilot:
        await done_run(pilot)
        await pilot.press("home", "g")
        first, second = (case.size for case in pilot.app.state.run.run.plan.cases[:2])
        await settled(pilot, lambda: f"n = {first:,}, CPU" in text_of(pilot, "#chart"))
        await pilot.press("j")
        await settled(pilot, lambda: f"n = {second:,}, CPU" in text_of(pilot, "#chart"))
        await pilot.press("k")
        await settled(pilot, lambda: f"n = {first:,}, CPU" in text_of(pilot, "#chart"))


@pytest.mark.parametrize(
    ("size", "visible"), [((80, 24), False), ((80, 50), False), ((120, 36), True), ((120, 40), True),
                          ((160, 20), False), ((160, 48), True), (WIDE, True)],
)  # fmt: skip
async def test_it_has_the_free_part_of_the_timings_and_stands_beside_the_table_in_wide_terminals(size, visible):
    async with opened(size=size) as pilot:
        await done_run(pilot)
        chart_pane, table = pilot.app.screen.query_one("#chart"), pilot.app.screen.query_one("#timing-table")
        await settled(pilot, lambda: bool(chart_pane.size) is visible)
        if not visible:
            return
        text = await charted(pilot)
        assert "X" in text
        assert "crossover ≈ 65" in text.splitlines()[-1], "the crossover is named on the axis"
        timings = pilot.app.screen.query_one("#timings").region
        assert timings.contains_region(chart_pane.region), "in the same box"
        if size == WIDE:
            assert chart_pane.region.x >= table.region.right
            assert chart_pane.region.height == timings.height - 2
        else:
            assert chart_pane.region.y >= table.region.bottom
            assert table.size.height >= 7
        await pilot.press("z")
        await settled(pilot, lambda: chart_pane.display and not pilot.app.screen.query_one("#telemetry").display)


@pytest.mark.parametrize("size", [(120, 40), WIDE])
async def test_it_grows_with_each_finished_case_and_marks_the_selected_row(size):
    async with opened(size=size) as pilot:
        session = await start_run(pilot)
        await settled(pilot, lambda: "first finished row" in " ".join(text_of(pilot, "#chart").split()))
        cases = session.plan.cases
        for count, case in enumerate(cases[:4], 1):
            session.put(*timed(case), finished(case))
            await reach_gap(pilot, session, case)
            await charted(pilot)
            await settled(pilot, lambda count=count: len(places(text_of(pilot, "#chart"))) == count)
        assert "largest finished" not in text_of(pilot, "#chart")
        await reach_gap(pilot, session, cases[4])
        assert "largest finished" in text_of(pilot, "#chart"), "the one under the cursor has not finished"
        session.put(*(event for case in cases[4:] for event in (*timed(case), finished(case))))
        await finish(pilot, session)
        await pilot.press("home", "j")
        await settled(pilot, lambda: columns_of(text_of(pilot, "#chart"), ":") != set())
        second = sorted(places(text_of(pilot, "#chart")))[1]
        assert columns_of(text_of(pilot, "#chart"), ":") == {second}
        assert f"n = {cases[1].size:,}" in text_of(pilot, "#chart")


async def test_nothing_is_drawn_until_a_case_has_finished_or_the_bracket_has_changed(monkeypatch):
    drawn = []

    def counted(state, sweep, width, height, glyphs, **named):
        changes = sweep_in(state.run, sweep).under(state.what_if).changes
        brackets, status = tuple((change.low, change.high) for change in changes), state.run.rows[state.cursor].status
        drawn.append((state.run.settled, (brackets, status)))
        return chart.chart_lines(state, sweep, width, height, glyphs, **named)

    monkeypatch.setattr("cpugpu_tui.ui.chart.chart_lines", counted)
    async with opened(size=WIDE) as pilot:
        session = await start_run(pilot)
        for done, case in enumerate(session.plan.cases[:4]):
            for count in range(1, 4):
                times, lines = len(drawn), pilot.app.screen.query_one(ChartPane).lines
                session.put(*rounds(case, 1_000 + case.size**3, 20_000, count))
                session.add_telemetry(readings(busy=50.0 + count))
                await reach_gap(pilot, session, case)
                assert (pilot.app.screen.query_one(ChartPane).lines == lines) == (len(drawn) == times)
                assert {settled for settled, _ in drawn} == set(range(1, done + 1))
            session.put(finished(case))
            await reach_gap(pilot, session, case)
            assert {settled for settled, _ in drawn} == set(range(1, done + 2))
        assert len(drawn) == len(set(drawn))
        times = len(drawn)
        await pilot.press("w")
        assert len(drawn) == times + 1, "what a person asks for is drawn at once"


async def test_from_four_points_on_further_ones_wait_for_each_other(monkeypatch):
    """Each new point moves all the others, and the curves take 400 bytes."""
    drawn, now_s = [], [100.0]
    lines_of = chart.chart_lines
    monkeypatch.setattr("cpugpu_tui.ui.chart.time", SimpleNamespace(monotonic=lambda: now_s[0]))
    monkeypatch.setattr(
        "cpugpu_tui.ui.chart.chart_lines",
        lambda state, *room, **named: (drawn.append(state.run.settled), lines_of(state, *room, **named))[1],
    )
    async with opened(new_app(PlanRequest(names=("matmul",), sizes="64:127:7")), size=WIDE) as pilot:
        session = await start_run(pilot)
        cases = session.plan.cases
        for case, after in pairwise(cases[:8]):
            session.put(*rounds(case, 1_000, 20_000), finished(case))
            await reach_gap(pilot, session, after)
        assert drawn == [1, 2, 3, 4]
        now_s[0] += 5.0
        session.put(*rounds(cases[7], 1_000, 20_000), finished(cases[7]))
        await reach_gap(pilot, session, cases[8])
        assert drawn == [1, 2, 3, 4, 8]
        await pilot.press("home")
        assert "n = 64" in text_of(pilot, "#chart"), "what a person asks for is drawn at once"
        await finish(pilot, session)


async def test_f_finds_the_crossover_with_sizes_of_its_own_and_not_during_a_run():
    async with opened(new_app(PlanRequest(names=("matmul",), sizes="16,64,256"))) as pilot:
        await settled(pilot, lambda: pilot.app.state.agent_ready)
        await pilot.press("f")
        await settled(pilot, lambda: len(pilot.app.backend.sessions) == 1)
        session = pilot.app.backend.sessions[0]
        assert session.plan.search is not None
        assert not pilot.app.state.request.find_crossover, "r asks for what is highlighted, as before"
        await settled(pilot, lambda: pilot.app.gate.held)
        await pilot.press("f")
        assert len(pilot.app.backend.sessions) == 1
        session.put(*whole_sweep(session.plan))
        await finish(pilot, session)
