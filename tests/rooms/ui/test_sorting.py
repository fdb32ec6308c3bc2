"""`s` sorts the rows and `S` reverses them; the highlighted row stays highlighted, also during a run."""

import re

from tests.helpers.app.fake_run import finished, opened, reach_gap, rounds, settled, start_run
from tests.helpers.app.looking import reads, shown, table_of

from cpugpu_tui.ui.app_state import AS_RAN, Order
from cpugpu_tui.ui.panes.timing_columns import MEASURES, in_order, next_order, order_text


def sizes(pilot):
    """Return the sizes of the rows in order, with or without their shared name."""
    return [int(re.sub(r"^▸?\s*(matmul )?", "", line).split()[0].replace(",", "")) for line in shown(pilot)]


def title(pilot):
    return str(pilot.app.screen.query_one("#timings").border_title)


async def sort_by(pilot, name):
    await pilot.press(*["s"] * (list(MEASURES).index(name) + 1))


async def test_s_goes_through_the_measures_and_the_title_says_which(words):
    async with opened(size=(80, 24), ran=True) as pilot:
        ran = sizes(pilot)
        await sort_by(pilot, "speedup")
        assert sizes(pilot) == [16, 50, 100, 200, 500, 1000, 2048]
        words(title(pilot))
        await pilot.press("S")
        assert sizes(pilot) == [2048, 1000, 500, 200, 100, 50, 16]
        words(title(pilot))
        await reads(pilot, title(pilot))  # at 80x24, too
        await pilot.press("S", *["s"] * (len(MEASURES) - 1))
        assert (sizes(pilot), title(pilot)) == (ran, "Timings")


async def test_the_highlighted_row_stays_highlighted_and_in_sight():
    async with opened(ran=True) as pilot:
        await pilot.press("home", "j")
        key = table_of(pilot).highlighted
        assert key is not None
        await sort_by(pilot, "size")
        await pilot.press("S")
        assert table_of(pilot).highlighted == key
        assert sizes(pilot)[table_of(pilot).cursor_row] == 50
        await settled(pilot, lambda: pilot.app.state.cursor == key)


async def test_during_a_run_rows_move_to_their_place_and_those_without_a_value_stand_last():
    async with opened() as pilot:
        session = await start_run(pilot)
        await sort_by(pilot, "GPU")
        await pilot.press("S")
        first, second, third, *_ = session.plan.cases
        session.put(*rounds(first, 1_000, 20_000), finished(first), *rounds(second, 2_000, 90_000), finished(second))
        await reach_gap(pilot, session, third)
        assert sizes(pilot)[:3] == [second.size, first.size, third.size]
        assert table_of(pilot).highlighted == third.key, "the cursor follows the run"
        await pilot.press("home")
        session.put(*rounds(third, 3_000, 50_000), finished(third))
        await reach_gap(pilot, session, session.plan.cases[3])
        assert sizes(pilot)[:3] == [second.size, third.size, first.size]
        assert table_of(pilot).highlighted == second.key, "the person put it there"


async def test_a_filter_and_a_new_run_keep_the_order():
    async with opened(ran=True) as pilot:
        await sort_by(pilot, "size")
        await pilot.press("S", "/", *"gpu", "enter")
        assert sizes(pilot) == [2048, 1000, 500, 200, 100]
        await pilot.press("escape")
        session = await start_run(pilot)
        await reach_gap(pilot, session)
        assert sizes(pilot)[0] == 2048


async def test_every_measure_sorts_by_its_own_value_and_names_both_directions():
    async with opened(ran=True) as pilot:
        run = pilot.app.state.run
        keys = list(run.rows)
        order = AS_RAN
        for name, (measure, *_) in MEASURES.items():
            order = next_order(order)
            assert order.by == name
            known = [value for key in in_order(run, keys, order) if (value := measure(run, run.rows[key])) is not None]
            assert known == sorted(known), name
            assert order_text(order) != order_text(order.reverse())
        assert next_order(order) == AS_RAN
        assert in_order(run, keys, Order(is_reversed=True)) == keys[::-1]
