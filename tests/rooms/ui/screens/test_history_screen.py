"""Looking back in the app: the list, a saved run in the panes of a live one, and the way back to the present."""

import time
from contextlib import closing
from dataclasses import replace

import pytest
from tests.helpers.app import saved_runs
from tests.helpers.app.fake_run import new_app, opened, readings, settled
from tests.helpers.app.looking import reads, shown, text_of

from cpugpu_tui.errors import StoreError
from cpugpu_tui.store import Store
from cpugpu_tui.ui.chart import ChartScreen
from cpugpu_tui.ui.live.saved_runs import SavedRuns
from cpugpu_tui.ui.panes.timing_table import TimingTable
from cpugpu_tui.ui.screens.claims import ClaimsScreen
from cpugpu_tui.ui.screens.detail import DetailScreen
from cpugpu_tui.ui.screens.history import HistoryScreen
from cpugpu_tui.ui.screens.main import MainScreen
from cpugpu_tui.ui.screens.page import ConfirmScreen


def telemetry(pilot):
    return f"{pilot.app.screen.query_one('#telemetry').border_title}\n{text_of(pilot, '#telemetry')}"


# ------------------------------------------------------------------ the list


async def test_the_key_that_leaves_stays_where_not_all_keys_fit(store):
    store.import_run(saved_runs.stream("new"))
    async with opened(saved_runs.app_with(store), (30, 12)) as pilot:
        await saved_runs.list_runs(pilot)
        assert text_of(pilot, "#page-keys").split() == ["enter", "open", "esc", "back"]


async def test_runs_are_listed_newest_first_with_all_that_tells_them_apart(store, words):
    store.import_run(saved_runs.stream("old", age_ns=50 * saved_runs.HOUR_NS, status="stopped"))
    store.import_run(saved_runs.stream("new"))
    store.tag("new", ["nightly"])
    async with opened(saved_runs.app_with(store), (80, 24)) as pilot:
        await saved_runs.list_runs(pilot)
        words(saved_runs.listed(pilot))
        assert "2 runs" in text_of(pilot, "#page-title")
        about = text_of(pilot, "#about")
        assert "run 2 · new ·" in about
        words(about.splitlines()[1])
        assert "d delete" in text_of(pilot, "#page-keys")
        await pilot.press("j")
        assert "1 · old" in text_of(pilot, "#about")
        await pilot.press("h")
        assert isinstance(pilot.app.screen, MainScreen)


async def test_typing_narrows_the_list_and_every_key_typed_counts(store, words):
    for number in range(30):
        store.import_run(saved_runs.stream(f"id{number:02}", status="failed" if number == 7 else "done"))
    store.tag("id11", ["base"])
    async with opened(saved_runs.app_with(store), (80, 24)) as pilot:
        await saved_runs.list_runs(pilot)
        await pilot.press("slash", *"failed")
        assert [line.split()[1] for line in saved_runs.listed(pilot)] == ["8"]
        assert text_of(pilot, "#page-title").split()[1:] == ["30", "runs", "1", "shown"]
        await pilot.press("enter", "slash", *["backspace"] * 6, *"#base")
        assert [line.split()[1] for line in saved_runs.listed(pilot)] == ["12"]
        await pilot.press(*"zzz")
        words(text_of(pilot, "#list").strip())
        await pilot.press("escape")
        assert "1 of 30" in text_of(pilot, "#page-title")
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, MainScreen)


async def test_filter_and_place_are_there_again_when_the_list_is(store):
    for number in range(5):
        store.import_run(saved_runs.stream(f"id{number}"))
    async with opened(saved_runs.app_with(store)) as pilot:
        await saved_runs.list_runs(pilot)
        await pilot.press("slash", *"id", "enter", "j", "j", "enter")
        await settled(pilot, lambda: pilot.app.state.past is not None)
        assert "run 3" in saved_runs.status(pilot)
        await pilot.press("h")
        screen = await saved_runs.list_runs(pilot)
        assert screen.chosen.number == 3
        await reads(pilot, "/ id")


class ManyRuns(SavedRuns):
    """Ten thousand runs, and how many have been asked for."""

    def __init__(self, line):
        super().__init__(None, now_ns=lambda: saved_runs.NOW_NS)
        self.line, self.read = line, 0

    def bury(self): ...

    def pages(self):
        for newest in range(10_000, 0, -1000):
            self.read += 1000
            yield [self.line._replace(number=number, name=f"n{number}") for number in range(newest, newest - 1000, -1)]


async def test_ten_thousand_runs_open_at_once_and_scroll(store):
    store.import_run(saved_runs.stream("a"))
    many = ManyRuns(store.runs()[0])

    class Backend(saved_runs.HistoryBackend):
        history = many  # type: ignore[assignment]

    async with opened(new_app(backend=Backend(store)), (80, 24)) as pilot:
        await saved_runs.list_runs(pilot)
        assert "10,000 runs" in text_of(pilot, "#page-title")
        assert saved_runs.listed(pilot)[0].startswith("▸ 10000")
        began_s = time.process_time()  # busy neighbours take none of it
        await pilot.press("G")
        assert saved_runs.listed(pilot)[-1].startswith("▸ 1 ")
        await pilot.press("pageup", "home", "pagedown")
        assert "19 of 10,000" in text_of(pilot, "#page-title")
        await pilot.press("slash", *"n4321")
        assert [line.split()[1] for line in saved_runs.listed(pilot)] == ["4321"]
        assert time.process_time() - began_s < 5  # drawing all lines took 40 s


# ------------------------------------------------------------------ a saved run in the panes


async def test_a_saved_run_fills_the_panes_and_never_looks_like_a_live_one(store, words):
    store.import_run(saved_runs.stream("a"))
    async with opened(saved_runs.app_with(store), (80, 24)) as pilot:
        await saved_runs.open_newest(pilot)
        assert isinstance(pilot.app.screen, MainScreen)
        words(saved_runs.status(pilot).split("   ")[0])
        assert [line.split()[0].lstrip("▸") for line in shown(pilot)] == ["64", "256", "1,024"]
        assert "▲ GPU" in shown(pilot)[2]
        assert "GPU wins" in text_of(pilot, "#answer")
        assert "of run 1" in telemetry(pilot)
        assert "7%" in telemetry(pilot)
        assert "h Present" in text_of(pilot, "#keys")
        assert "r Run again" in text_of(pilot, "#keys")
        assert isinstance(pilot.app.screen.focused, TimingTable)


@pytest.mark.parametrize("key", ["h", "escape"])
async def test_the_present_comes_back_as_it_goes_on(store, key):
    store.import_run(saved_runs.stream("a", replace(saved_runs.SWEEP, name="yesterday")))
    async with opened(saved_runs.app_with(store), ran=True) as pilot:
        before = shown(pilot)
        await saved_runs.open_newest(pilot)
        assert "yesterday" in saved_runs.status(pilot)
        # This machine goes on meanwhile, unseen.
        pilot.app.backend.read(readings(busy=55.0))
        await settled(pilot, lambda: "55%" not in telemetry(pilot))
        assert "7%" in telemetry(pilot)
        await pilot.press(key)
        assert "3 h ago" not in saved_runs.status(pilot)
        assert saved_runs.status(pilot).startswith("quick ✓ done")
        assert shown(pilot) == before
        assert telemetry(pilot).startswith("Telemetry\n")
        assert "55%" in telemetry(pilot)
        assert not pilot.app.state.situation.past


async def test_chart_what_if_detail_and_claims_work_on_it_and_say_whose_they_are(store):
    store.import_run(saved_runs.stream("a"))
    async with opened(saved_runs.app_with(store)) as pilot:
        await saved_runs.open_newest(pilot)
        await pilot.press("w")
        assert pilot.app.state.what_if != "resident"
        for key, page in (("g", ChartScreen), ("enter", DetailScreen), ("K", ClaimsScreen)):
            await pilot.press(key)
            await settled(pilot, lambda page=page: isinstance(pilot.app.screen, page))
            assert " run 1, " in text_of(pilot, "#page-title")
            await pilot.press("escape")
        assert pilot.app.state.past is not None
        await pilot.press("escape")
        assert (pilot.app.state.past, pilot.app.state.what_if) == (None, "resident")


async def test_a_run_that_was_interrupted_says_so(store):
    events = saved_runs.stream("a")
    cases = saved_runs.begin(store, events)
    store.commit_cases("a", [cases[0]])
    store._connection.execute("UPDATE run SET pid = 999999999")
    async with opened(saved_runs.app_with(store)) as pilot:
        await saved_runs.list_runs(pilot)
        assert "! interrupted" in saved_runs.listed(pilot)[0]
        await pilot.press("enter")
        await settled(pilot, lambda: pilot.app.state.past is not None)
        assert "! interrupted 1/3" in saved_runs.status(pilot)


# ------------------------------------------------------------------ tags and deletion


async def test_tags_are_typed_in_one_line(store):
    store.import_run(saved_runs.stream("a"))
    store.tag("a", ["old"])
    async with opened(saved_runs.app_with(store)) as pilot:
        await saved_runs.list_runs(pilot)
        await pilot.press("l")
        await reads(pilot, "run 1: old")
        await pilot.press(*["backspace"] * 3, *"#base, h200", "enter")
        await settled(pilot, lambda: "#base #h200" in saved_runs.listed(pilot)[0])
        assert store.runs()[0].tags == ("base", "h200")
        await pilot.press("l", *"x", "escape")
        assert store.runs()[0].tags == ("base", "h200")
        assert isinstance(pilot.app.screen, HistoryScreen)


async def test_deleting_asks_and_only_y_means_yes(store):
    store.import_run(saved_runs.stream("a"))
    store.import_run(saved_runs.stream("b"))
    async with opened(saved_runs.app_with(store)) as pilot:
        await saved_runs.list_runs(pilot)
        for key in ("n", "q", "escape"):
            await pilot.press("d")
            assert isinstance(pilot.app.screen, ConfirmScreen)
            assert "run 2" in text_of(pilot, "#question")
            await pilot.press(key)
            assert isinstance(pilot.app.screen, HistoryScreen)
        assert len(store.runs()) == 2
        await pilot.press("d", "y")
        await settled(pilot, lambda: "Deleted run 2" in text_of(pilot, "#about"))
        assert [run.number for run in store.runs()] == [1]
        assert [line.split()[1] for line in saved_runs.listed(pilot)] == ["1"]


async def test_keys_for_the_run_on_the_screen_do_nothing_to_the_one_behind_the_list(store):
    store.import_run(saved_runs.stream("a"))
    store.import_run(saved_runs.stream("b"))
    async with opened(saved_runs.app_with(store), ran=True) as pilot:
        await saved_runs.list_runs(pilot)
        await pilot.press("c", "e", "y", "f", "g", "w", "M", "z", "space", "x")
        assert isinstance(pilot.app.screen, HistoryScreen)
        assert len(pilot.app.backend.sessions) == 1
        await pilot.press("j", "b", "enter")
        await settled(pilot, lambda: "baseline main" in text_of(pilot, "#about"))
        assert store.baselines() == {"main": "of-a"}
        await settled(pilot, lambda: [("baseline main" in line) for line in rows_of(pilot)] == [False, True])
        await pilot.press("k", "b", "enter")
        await settled(pilot, lambda: [("baseline main" in line) for line in rows_of(pilot)] == [True, False])
        await pilot.press("b", "ctrl+u", *"v2", "enter")
        await settled(pilot, lambda: store.baselines() == {"main": "of-b", "v2": "of-b"})


def said_of(pilot):
    """What the list says below the facts of the run under the cursor."""
    return " ".join(" ".join(text_of(pilot, "#about").splitlines()[2:]).split())


def rows_of(pilot):
    return [line for line in text_of(pilot, "#list").splitlines() if line.strip()]


# ------------------------------------------------------------------ what can be wrong with a history


async def test_an_empty_history_says_how_to_fill_it(store, words):
    async with opened(saved_runs.app_with(store), (80, 24)) as pilot:
        await saved_runs.list_runs(pilot)
        words(text_of(pilot, "#list").strip())
        assert text_of(pilot, "#page-keys").split() == ["esc", "back"], "no other key does anything"
        await pilot.press("enter", "d", "r", "j", "G", "l")
        assert isinstance(pilot.app.screen, HistoryScreen)


async def test_a_history_that_could_not_be_opened_says_why(tmp_path):
    broken = tmp_path / "results.db"
    broken.write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreError) as caught:
        Store.open(broken)
    async with opened(new_app(backend=saved_runs.HistoryBackend(None, caught.value)), (80, 24)) as pilot:
        await saved_runs.list_runs(pilot)
        said = " ".join(text_of(pilot, "#about").split())
        assert str(broken) in said.replace(" ", "")
        assert text_of(pilot, "#list").strip() == ""


async def test_a_newer_history_is_read_and_what_it_holds_beyond_us_is_said(store):
    store.import_run(saved_runs.stream("a"))
    store.import_run(saved_runs.stream("b"))
    store._connection.execute("UPDATE run_event SET name = 'TelepathyRead' WHERE run_number = 2")
    version = store._connection.execute("PRAGMA user_version").fetchone()[0]
    store._connection.execute(f"PRAGMA user_version = {version + 1}")
    store.close()
    with closing(Store.open(store.path)) as newer:
        async with opened(saved_runs.app_with(newer), (80, 24)) as pilot:
            await saved_runs.list_runs(pilot)
            notice = said_of(pilot)
            assert notice
            await pilot.press("enter")
            await settled(pilot, lambda: "Run 2" in said_of(pilot))
            await pilot.press("d", "y")
            await settled(pilot, lambda: "Run 2" not in said_of(pilot) and bool(said_of(pilot)))
            await pilot.press("j", "enter")
            await settled(pilot, lambda: pilot.app.state.past is not None)
            assert "run 1" in saved_runs.status(pilot)
