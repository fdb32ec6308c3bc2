from contextlib import contextmanager

from rich.text import Text
from textual.app import App
from textual.geometry import Region
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import DataTable

from cpugpu_tui.ui.panes.timing_table import Column, TimingTable

COLUMNS = [Column("case", "Case", 12), Column("cpu", "CPU µs", 8, "right"), Column("gpu", "GPU µs", 8, "right")]


class TableApp(App[None]):
    def __init__(self):
        super().__init__()
        self.chosen: list[str] = []

    def compose(self):
        yield TimingTable(id="timings")

    def on_mount(self):
        self.table.set_columns(COLUMNS)
        for n in range(30):
            self.table.upsert(f"row{n}", {"case": f"case {n}", "cpu": f"{n}.0", "gpu": "–"})
        self.table.focus()

    @property
    def table(self):
        return self.query_one(TimingTable)

    def on_row_chosen(self, message):
        self.chosen.append(message.row_key)

    def line(self, y):
        return self.table.render_line(y).text.rstrip()


@contextmanager
def repaints(monkeypatch):
    """Collect the regions of each repaint; () for a whole widget."""
    calls: list[tuple[Region, ...]] = []
    original = Widget._set_dirty

    def noted(self, *regions):
        calls.append(regions)
        original(self, *regions)

    with monkeypatch.context() as patch:
        patch.setattr(Widget, "_set_dirty", noted)
        yield calls


# ------------------------------------------------------------------ painting


async def test_only_cells_that_change_in_sight_are_repainted_neighbours_as_one_region(monkeypatch):
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.table.upsert("row4", {"gpu": Text("9.9", style="red")})
        await pilot.pause()
        # Cells of 12 + 2 and 8 + 2 stand left of the third one, the header above.
        for row, cells, regions in (
            ("row3", {"gpu": "7.5"}, [(Region(24, 4, 10, 1),)]),
            ("row3", {"case": "case 3", "cpu": "3.1", "gpu": "8.5"}, [(Region(14, 4, 20, 1),)]),
            ("row29", {"gpu": "7.5"}, []),
        ):
            with repaints(monkeypatch) as calls:
                app.table.upsert(row, cells)
                await pilot.pause()
            assert calls == regions
        assert app.line(4) == " case 3             3.1       8.5"
        with repaints(monkeypatch) as calls:  # all of this is shown already
            app.table.upsert("row3", {"case": "case 3", "cpu": Text("3.1")})
            app.table.upsert("row4", {"gpu": Text("9.9", style="red"), "unseen": "no column has it"})
            app.table.upsert("row3", {})
            app.table.set_columns(COLUMNS)
            app.table.order(app.table.row_keys)
            await pilot.pause()
        assert calls == []
        app.table.upsert("row4", {"gpu": Text("9.9", style="green")})
        await pilot.pause()
        styles = [segment.style for segment in app.table.render_line(5) if "9.9" in segment.text]
        assert [style.color.name for style in styles if style and style.color] == ["green"], "a change of colour alone"
        await pilot.press("G")
        assert app.line(23) == " case 29           29.0       7.5"


async def test_a_line_of_one_style_is_one_segment_and_still_answers_the_mouse():
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert len(list(app.table.render_line(4))) == 1
        await pilot.click(TimingTable, offset=(60, 6))
        assert (app.table.highlighted, app.chosen) == ("row5", [])
        await pilot.click(TimingTable, offset=(20, 6), times=2)
        assert app.chosen == ["row5"]


# ------------------------------------------------------------------ content


async def test_text_from_strangers_is_text_too_long_text_says_so_and_later_changes_are_noticed():
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        mine = Text("7")
        app.table.upsert("row0", {"case": "[bold]x[/]", "cpu": "123456789.0", "gpu": mine})
        await pilot.pause()
        assert app.line(1) == " [bold]x[/]    1234567…         7"
        mine.append("8")
        app.table.upsert("row0", {"gpu": mine})
        await pilot.pause()
        assert app.line(1).endswith("78")


async def test_columns_change_and_rows_cells_and_cursor_stay():
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.table.upsert("row2", {"limit": "launch"})
        await pilot.press("j", "j")
        app.table.set_columns([COLUMNS[0], Column("limit", "Limit", 8), COLUMNS[1]])
        await pilot.pause()
        assert app.line(0) == " Case          Limit       CPU µs"
        assert (app.line(3), app.table.highlighted) == (" case 2        launch         2.0", "row2")
        assert app.table.row_count == 30


async def test_rows_can_be_removed_and_ordered_under_a_cursor_that_stays():
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("j", "j", "j")
        app.table.remove_row("row0")
        app.table.remove_row("never there")
        assert app.table.highlighted == "row3"
        app.table.order(app.table.row_keys[::-1])
        await pilot.pause()
        assert (app.table.row_keys[:2], app.table.highlighted) == (["row29", "row28"], "row3")
        app.table.remove_row("row3")
        assert app.table.highlighted is not None
        app.table.clear()
        assert app.table.highlighted is None
        app.table.upsert("row0", {"case": "again"})
        await pilot.pause()
        assert app.line(1).strip() == "again"


# ------------------------------------------------------------------ cursor


async def test_cursor_follows_the_run_also_to_a_row_that_is_still_to_come_or_goes():
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.table.follow("late")
        assert app.table.highlighted == "row0"
        app.table.upsert("late", {"case": "late"})
        assert app.table.highlighted == "late"
        app.table.remove_row("late")
        assert app.table.highlighted == "row29", "which is not the person's move"
        app.table.follow("row27")
        await pilot.pause()
        assert app.table.highlighted == "row27"
        assert "case 27" in "\n".join(app.line(y) for y in range(24))


async def test_cursor_stays_where_the_person_put_it_until_they_put_it_back():
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.table.follow("row5")
        await pilot.press("j", "j")
        app.table.follow("row6")
        app.table.remove_row("row1")
        app.table.order(app.table.row_keys[::-1])
        app.table.set_columns(COLUMNS[:2])
        app.table.follow("row8")
        assert app.table.highlighted == "row7"
        await pilot.press("k")
        assert app.table.highlighted == "row8"
        app.table.follow("row9")
        assert app.table.highlighted == "row9"


@contextmanager
def counted(monkeypatch, cls, name):
    """Count the calls of a method."""
    calls = []
    original = getattr(cls, name)

    def noted(self, *arguments, **options):
        calls.append(self)
        return original(self, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(cls, name, noted)
        yield calls


async def test_only_cells_with_another_text_are_drawn_again(monkeypatch):
    """DataTable draws every cell in sight again when one has changed, and when a row is added anywhere."""
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.table.upsert("row4", {"gpu": "9.9"})
        await pilot.pause()
        with counted(monkeypatch, DataTable, "_render_cell") as drawn:
            app.table.upsert("row4", {"gpu": "8.8"})
            app.table.upsert("new", {"case": "new", "cpu": "1.0", "gpu": "–"})
            app.table.order(["new", *(f"row{n}" for n in range(30))])
            await pilot.pause()
            lines = [app.line(y) for y in range(1, 7)]
        assert lines[0].split() == ["new", "1.0", "–"]
        assert lines[5].split() == ["case", "4", "4.0", "8.8"]
        assert len(drawn) <= 12, "three headings, the new texts, and the cells under the cursor, of 66 in sight"


async def test_a_row_more_lays_nothing_out_again_and_can_be_scrolled_to(monkeypatch):
    """A search adds a row in every second gap. A layout paints every pane."""
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        with counted(monkeypatch, Screen, "_refresh_layout") as layouts:
            app.table.upsert("last", {"case": "last"})
            await pilot.pause()
            assert not layouts
        await pilot.press("end")
        assert app.line(app.table.size.height - 1).strip().startswith("last")
        for n in range(29):
            app.table.remove_row(f"row{n}")
        await pilot.pause()
        assert not app.table.show_vertical_scrollbar


async def test_a_run_of_short_cases_scrolls_by_several_rows_and_shows_those_to_come():
    """Scrolling by one row for each case wrote all rows in sight again."""
    app = TableApp()
    async with app.run_test(size=(80, 12)) as pilot:
        await pilot.pause()
        places = []
        for n in range(30):
            app.table.follow(f"row{n}")
            await pilot.pause()
            shown = [app.line(y).split()[1] for y in range(1, app.table.size.height)]
            assert str(n) in shown
            places.append(int(app.table.scroll_y))
            if places[-1] != (places[-2] if n else 0):
                assert shown[-1] == str(min(n + 3, 29)), "three of eleven rows are to come"
        assert len(set(places)) <= 6
        assert places[-1] == app.table.max_scroll_y
