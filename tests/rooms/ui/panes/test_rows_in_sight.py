"""A table of thousands of rows makes cells only for rows in sight; cells of 10,000 rows took 250 MB."""

import pytest
from textual.app import App

from cpugpu_tui.ui.panes.timing_table import MOST_WITH_CELLS, Column, TimingTable

ROWS = 2_000


class ManyRows(App[None]):
    def __init__(self):
        super().__init__()
        self.asked: list[str] = []
        self.said = "first"

    def compose(self):
        yield TimingTable(id="timings")

    def on_mount(self):
        self.table.set_columns([Column("case", "Case", 12), Column("says", "Says", 12)])
        self.table.cells_of = self.cells
        for number in range(ROWS):
            self.table.touch(f"row {number}")
        self.table.focus()

    def cells(self, row_key):
        self.asked.append(row_key)
        return {"case": row_key, "says": self.said}

    @property
    def table(self):
        return self.query_one(TimingTable)

    def lines(self):
        return [self.table.render_line(y).text.strip() for y in range(1, self.table.size.height)]


async def told(pilot, *keys):
    """Press keys; return the text of the rows in sight."""
    await pilot.press(*keys)
    await pilot.pause()
    return pilot.app.lines()


async def test_only_rows_in_sight_are_asked_for_their_cells():
    app = ManyRows()
    async with app.run_test(size=(60, 20)) as pilot:
        lines = await told(pilot)
        assert lines[0].split("  ")[0] == "row 0"
        assert set(app.asked) == {f"row {number}" for number in range(19)}
        lines = await told(pilot, "end")
        assert f"row {ROWS - 1}" in lines[-1]
        assert len(set(app.asked)) == 38


async def test_cells_of_rows_long_out_of_sight_are_let_go_and_made_again():
    app = ManyRows()
    async with app.run_test(size=(60, 20)) as pilot:
        for _ in range(MOST_WITH_CELLS // 10):
            await told(pilot, "pagedown")  # rendered each time: a busy machine paints several pages as one
        assert len(app.table._cells) <= MOST_WITH_CELLS + 20
        app.asked.clear()
        assert "row 0" in (await told(pilot, "home"))[0]
        assert "row 0" in app.asked


async def test_a_row_that_has_changed_says_so_in_sight_and_when_it_comes_into_sight():
    app = ManyRows()
    async with app.run_test(size=(60, 20)) as pilot:
        await told(pilot, "end")
        await told(pilot, "home")
        app.said = "second"
        app.table.touch("row 3")
        app.table.touch(f"row {ROWS - 1}")  # was in sight, and has been rendered
        lines = await told(pilot)
        assert "second" in lines[3]
        assert "first" in lines[4]
        lines = await told(pilot, "end")
        assert "second" in lines[-1]
        assert "first" in lines[-2]


@pytest.mark.parametrize("gone", [5, 1_500])
async def test_rows_that_are_kept_stay_with_the_cursor_on_its_row(gone):
    app = ManyRows()
    async with app.run_test(size=(60, 20)) as pilot:
        await told(pilot, "end", "up")
        app.table.keep_rows([f"row {number}" for number in range(gone, ROWS)])
        await told(pilot)
        assert (app.table.row_count, app.table.highlighted) == (ROWS - gone, f"row {ROWS - 2}")
        assert f"row {gone}" in (await told(pilot, "home"))[0]


async def test_rows_are_put_in_order_without_making_cells():
    app = ManyRows()
    async with app.run_test(size=(60, 20)) as pilot:
        await told(pilot)
        app.asked.clear()
        app.table.order([f"row {number}" for number in reversed(range(ROWS))])
        app.table.scroll_home(animate=False)
        lines = await told(pilot)
        assert f"row {ROWS - 1}" in lines[0]
        assert len(set(app.asked)) <= 38
