"""The mouse: clicks, double clicks, the wheel, and invalid mouse input."""

import sys
from contextlib import closing
from random import Random

import psutil
import pytest
from tests.helpers.app.fake_run import new_app, opened, settled
from tests.helpers.app.looking import screen_lines
from tests.helpers.app.pty_app import REAL_APP, PtyApp
from tests.helpers.app.saved_runs import app_with, list_runs, stream
from textual import events

from cpugpu_tui.render.columns import Key
from cpugpu_tui.store import Store
from cpugpu_tui.ui.panes.lines import key_at
from cpugpu_tui.ui.panes.paged_list import PagedList
from cpugpu_tui.ui.panes.status import KeysPane
from cpugpu_tui.ui.panes.timing_table import TimingTable
from cpugpu_tui.ui.screens.detail import DetailScreen
from cpugpu_tui.ui.screens.help import HelpScreen
from cpugpu_tui.ui.screens.workload_form import WorkloadForm
from cpugpu_tui.ui.terminal.bounded_input import Paste, TerminalInput, keys_of
from cpugpu_tui.ui.terminal.textual_internals import ClickDriver


def column_x(table, wanted):
    """Return a cell inside this column."""
    start = 0
    for key, column in table.columns.items():
        if str(key.value) == wanted:
            return start + 2
        start += column.get_render_width(table)
    raise AssertionError(wanted)


async def on_footer(pilot, label):
    """Click a label in the last line."""
    await settled(pilot, lambda: label in screen_lines(pilot)[-1])
    await pilot.click(KeysPane, offset=(screen_lines(pilot)[-1].index(label) + 1, 0))


async def test_a_click_selects_a_row_and_a_double_click_opens_it():
    async with opened(size=(80, 24), ran=True) as pilot:
        table = pilot.app.screen.query_one(TimingTable)
        await settled(pilot, lambda: table.row_count == 7)
        await pilot.click(table, offset=(4, 3))
        await settled(pilot, lambda: pilot.app.state.cursor == table.row_keys[2])
        assert not isinstance(pilot.app.screen, DetailScreen)
        await pilot.click(table, offset=(4, 5), times=2)
        await settled(pilot, lambda: isinstance(pilot.app.screen, DetailScreen))
        assert pilot.app.state.cursor == table.row_keys[4]


async def test_a_click_on_a_heading_sorts_and_another_one_reverses():
    async with opened(size=(80, 24), ran=True) as pilot:
        table = pilot.app.screen.query_one(TimingTable)
        await settled(pilot, lambda: table.row_count == 7)
        in_run_order = table.row_keys
        await pilot.click(table, offset=(column_x(table, Key.GPU), 0))
        await settled(pilot, lambda: pilot.app.state.order.by == "GPU")
        first = table.row_keys
        await pilot.click(table, offset=(column_x(table, Key.GPU), 0))
        await settled(pilot, lambda: pilot.app.state.order.is_reversed)
        assert table.row_keys != first
        await pilot.click(table, offset=(column_x(table, Key.ROUNDS), 0))
        await settled(pilot, lambda: "cannot be sorted" in pilot.app.state.key_result)
        assert sorted(table.row_keys) == sorted(in_run_order)


async def test_a_click_on_a_key_of_the_footer_presses_it():
    async with opened(size=(80, 24), ran=True) as pilot:
        await on_footer(pilot, "Help")
        await settled(pilot, lambda: isinstance(pilot.app.screen, HelpScreen))
        x = screen_lines(pilot)[-1].index("back")
        await pilot.click("#page-keys", offset=(x, 0))
        await settled(pilot, lambda: not isinstance(pilot.app.screen, HelpScreen))


async def test_a_click_highlights_a_workload_and_a_double_click_opens_its_form():
    async with opened(size=(120, 40)) as pilot:
        await settled(pilot, lambda: pilot.app.state.agent_ready)
        options = pilot.app.screen.query_one(PagedList)
        await pilot.click(options, offset=(3, 1))
        await settled(pilot, lambda: options.highlighted == 1)
        assert not isinstance(pilot.app.screen, WorkloadForm)
        await pilot.click(options, offset=(3, 2), times=2)
        await settled(pilot, lambda: isinstance(pilot.app.screen, WorkloadForm))


async def turn(pilot, kind, widget):
    """Turn the wheel over a widget by one line."""
    x, y = widget.region.offset
    pilot.app.post_message(
        kind(widget, x, y, 0, 1, button=0, shift=False, meta=False, ctrl=False, screen_x=x, screen_y=y)
    )
    await pilot.pause()


async def test_the_wheel_moves_the_cursor_of_the_palette_and_of_pages(tmp_path):
    with closing(Store.open(tmp_path / "results.db")) as store:
        for name in ("old", "new"):
            store.import_run(stream(name))
        async with opened(app_with(store), size=(80, 24)) as pilot:
            await pilot.press(":")
            await wheel_goes_there_and_back(pilot, "#found", "_index")
            await pilot.press("escape")
            await list_runs(pilot)
            await wheel_goes_there_and_back(pilot, "#list", "index")


async def wheel_goes_there_and_back(pilot, list_id, cursor):
    for kind, place in ((events.MouseScrollDown, 1), (events.MouseScrollUp, 0)):
        await turn(pilot, kind, pilot.app.screen.query_one(list_id))
        assert getattr(pilot.app.screen, cursor) == place


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        (b"\x1b[M !!r", ["r"]),  # an old click, then a key
        (b"\x1b[M \xff\xfe\x1b[M#!!q", ["q"]),
        (b"\x1b[<0;-3;5Mr", ["\x1b[<0;-3;5M", "r"]),  # one sequence, not keys
        (b"\x1b[<0;5;5M\x1b[<0;5;5m", ["\x1b[<0;5;5M", "\x1b[<0;5;5m"]),
        (b"\x1b[<0;5\x1b[<0;5;5Mr", ["\x1b[<0;5", "\x1b[<0;5;5M", "r"]),  # half a click, then a whole one
        (b"\x1b[<0;5;r", ["\x1b[<0;5;", "r"]),
    ],
)
@pytest.mark.parametrize("step", [1, 100])
def test_invalid_clicks_press_no_keys_however_they_are_cut(sent, keys, step):
    pending, found = TerminalInput(), []
    for place in range(0, len(sent), step):
        for piece in pending.feed(sent[place : place + step]):
            assert not isinstance(piece, Paste)
            found += keys_of(piece)
    assert found == keys


def flood(count, columns, rows):
    """Return so many movements, presses, releases and turns of the wheel; some are nowhere, some are cut."""
    random = Random(7)
    found = []
    for _ in range(count):
        button, x, y = random.choice((0, 1, 2, 35, 64, 65, 999)), random.randint(1, columns), random.randint(1, rows)
        if random.random() < 0.1:
            x, y = random.randint(-(10**9), 10**9), random.randint(-(10**9), 10**9)
        end = random.choice("MMm") if random.random() < 0.9 else ""
        found.append(f"\x1b[<{button};{x};{y}{end}")
    return "".join(found).encode()


def test_a_flood_of_mouse_events_during_a_run_presses_no_key_and_the_next_key_acts(tmp_path):
    with PtyApp([sys.executable, REAL_APP, tmp_path, "1", "endless"], columns=100, rows=30) as app:
        app.until_text("Press r")
        app.send("r")
        app.until_text(" of 499 cases")
        app.send("?")
        app.until_text("Keys of the timings")
        process = psutil.Process(app.pid)
        before = process.memory_info().rss
        data = flood(10_000, 100, 28)  # without the last lines, whose keys a click presses
        assert app.send(data) == len(data)
        app.bytes_until_quiet()
        app.send("?")
        app.until_text("All keys")  # help is still open: no half of a click pressed escape
        assert process.memory_info().rss - before < 50_000_000
        app.send("\x1b")
        app.until_text(" of 499 cases")
        app.send("x")
        app.until_text("stopped")


def test_a_label_belongs_to_the_key_before_it_and_a_dimmed_key_to_none():
    line = ((" ", "text"), ("r", "key"), (" Run", "text"), ("  ", "text"), ("x", "muted"), (" Stop", "muted"))
    assert [key_at(line, x) for x in (0, 1, 3, 6, 7, 9, 50)] == ["", "r", "r", "", "", "", ""]
    several = ((" j k", "key"), (" move ", "text"))
    assert [key_at(several, x) for x in (1, 3, 6)] == ["j", "k", "j"]


async def test_inside_gnu_screen_esc_arrives_because_the_mouse_is_off(monkeypatch):
    taken = []
    monkeypatch.delenv("STY", raising=False)
    for session in ("", "1234.pts-0"):
        if session:
            monkeypatch.setenv("STY", session)
        taken.append(ClickDriver(new_app(), size=(80, 24)).takes_mouse)
    assert taken == [True, False]
