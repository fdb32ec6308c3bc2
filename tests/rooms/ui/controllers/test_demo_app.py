"""The demo in the app: it plays by itself, every screen says REPLAY, looking around works, nothing is measured."""

import sys
from contextlib import asynccontextmanager

import pytest
from tests.demo.record import packed
from tests.helpers.app.fake_run import settled
from tests.helpers.app.looking import reads, text_of
from tests.helpers.app.pty_app import PtyApp
from tests.helpers.app.states import joined

from cpugpu_tui.demo.recording import SHIPPED, Recording, shipped
from cpugpu_tui.model import TelemetryRead
from cpugpu_tui.state.state import TelemetryState
from cpugpu_tui.ui.app import CpuGpuApp
from cpugpu_tui.ui.app_state import AppOptions
from cpugpu_tui.ui.chart import ChartScreen
from cpugpu_tui.ui.keys import DEFAULT_KEYMAP, DEMO, PLAYING, Keymap
from cpugpu_tui.ui.screens.main import MainScreen

AT_ONCE, NEVER = 1000.0, 0.001
"""Paces: all of it in a second, and none of it while a test looks."""

SIZES = [(80, 24), (120, 40), (200, 60)]


@pytest.fixture(scope="module")
def whole():
    return shipped()


@pytest.fixture(scope="module")
def short(whole):
    """The search and one of the publications' runs."""
    return Recording((whole.runs[0], whole.runs[6]))


@asynccontextmanager
async def demo(recording, pace=AT_ONCE, size=(120, 40)):
    """The app, and its end."""
    app = CpuGpuApp(AppOptions(demo=recording, demo_pace=pace))
    async with app.run_test(size=size) as pilot:
        try:
            await settled(pilot, lambda: app.state.run.run is not None)
            yield pilot
        finally:
            app.bridge.kill()
            await settled(pilot, lambda: not app.state.situation.live)
            app.bridge.backend.close()


async def ended(pilot):
    """Wait for the end, and close the chart that it ends on."""
    await settled(pilot, lambda: pilot.app.state.situation.ran and not pilot.app.state.situation.live)
    if isinstance(pilot.app.screen, ChartScreen):
        await pilot.press("escape")


# ------------------------------------------------------------------ what is shown


async def test_at_80_columns_no_time_is_cut_and_runs_of_other_work_are_no_series(whole):
    """The second run has a CPU time of a million microseconds, whose column the first did without."""
    async with demo(Recording((whole.runs[7], whole.runs[1])), size=(80, 24)) as pilot:
        await ended(pilot)
        lines = await reads(pilot, " 9,951 ")
        (row,) = [line for line in lines if line.startswith(" 9,951 ")]
        assert row.split()[1:3] == ["1.03", "s"]
        assert "min-max" not in joined(lines)
        assert "95 % interval" in joined(lines)


async def test_at_80_columns_the_answer_is_whole_and_the_rows_stay(whole, words):
    async with demo(Recording(whole.runs[1:2]), size=(80, 24)) as pilot:
        await ended(pilot)
        words(" ".join(text_of(pilot, "#answer").split()))
        assert pilot.app.screen.query_one("#timing-table").size.height >= 8, "a head and its rows"
        await pilot.press("q")


async def test_its_end_names_the_keys_in_force(whole):
    keymap = Keymap({**DEFAULT_KEYMAP.keys, "run": ("f5",), "history": ("L",)})
    app = CpuGpuApp(AppOptions(demo=Recording(whole.runs[:1]), demo_pace=AT_ONCE, keymap=keymap))
    async with app.run_test(size=(120, 40)) as pilot:
        await ended(pilot)
        await reads(pilot, "press f5", "L to list")
        app.bridge.backend.close()


async def test_it_begins_by_itself_and_ends_in_the_recorded_state(whole):
    async with demo(whole) as pilot:
        await ended(pilot)
        state = pilot.app.state
        assert state.run == whole.runs[0].state, "the search, whose crossover is what it is all about"
        telemetry = TelemetryState()
        for run in whole.runs:
            for event in run.events:
                if isinstance(event, TelemetryRead):
                    telemetry = telemetry.apply(event)
        assert (state.telemetry, state.ceilings) == (telemetry, whole.ceilings)
        assert "demo has ended" in text_of(pilot, "#status")


@pytest.mark.parametrize("size", SIZES)
async def test_while_it_plays_the_status_line_says_what_and_whose(short, size):
    async with demo(short, NEVER, size) as pilot:
        await settled(pilot, lambda: "left" in text_of(pilot, "#status"))
        status = text_of(pilot, "#status")
        assert status.split()[:4] == ["REPLAY", "quick", "░" * 10, "0"]
        assert size[0] == 80 or "1 of 2" in status  # the time that is left has its place
        await pilot.press("space")  # the line is shorter without the clock
        await settled(pilot, lambda: "paused" in text_of(pilot, "#status"))
        assert size[0] == 80 or "NVIDIA H200" in text_of(pilot, "#status")
        await reads(pilot, "NVIDIA H200")


@pytest.mark.parametrize("key", ["g", "m", "K", "h", "c", "question_mark", "enter", "e", "T", "z"])
async def test_every_screen_says_that_it_is_a_replay(short, key):
    async with demo(short, size=(80, 24)) as pilot:
        await ended(pilot)
        if key == "z":
            await pilot.press("tab")
        await pilot.press(key)
        await settled(pilot, lambda: not isinstance(pilot.app.screen, MainScreen))
        assert "REPLAY" in (await reads(pilot, "REPLAY"))[0]


# ------------------------------------------------------------------ what keys do


async def test_skip_goes_to_the_end_of_the_run_and_then_to_the_next(short):
    async with demo(short, NEVER) as pilot:
        await pilot.press("x")
        await settled(pilot, lambda: pilot.app.state.run.finished is not None)
        assert pilot.app.state.run == short.runs[0].state
        assert "quick" in text_of(pilot, "#status")
        assert "14 cases ·" in text_of(pilot, "#status")
        assert "1 of 2" in text_of(pilot, "#status")
        await pilot.press("x")
        await settled(pilot, lambda: pilot.app.state.run.run.plan.name == "mnist-mlp")
        await pilot.press("x")
        await ended(pilot)
        assert pilot.app.state.run == short.runs[0].state


async def test_an_opened_row_stays_when_the_next_run_begins(short):
    async with demo(short, NEVER) as pilot:
        await pilot.press("x")
        await settled(pilot, lambda: pilot.app.state.run.finished is not None)
        await pilot.press("enter")
        await settled(pilot, lambda: "float32" in text_of(pilot, "#page-title"))
        await settled(pilot, lambda: pilot.app.state.run.run.plan.name == "mnist-mlp" or pilot.app.bridge.stop())
        await settled(pilot, lambda: "of the run before" in text_of(pilot, "#page-title"))
        assert "95 % interval" in text_of(pilot, "#page-text")


async def test_r_plays_it_again_from_the_beginning(short):
    async with demo(short) as pilot:
        await ended(pilot)
        before = pilot.app.state
        await pilot.press("r")
        await settled(pilot, lambda: pilot.app.state.situation.live or pilot.app.state is not before)
        await ended(pilot)
        assert pilot.app.state.run == short.runs[0].state
        assert pilot.app.state.telemetry == before.telemetry, "not twice as long"
        await pilot.press("h")
        await settled(pilot, lambda: "2 runs" in text_of(pilot, "#page-title"))


@pytest.mark.parametrize("key", ["f", "M"])
async def test_what_would_measure_is_dimmed_and_says_why(short, key):
    async with demo(short) as pilot:
        await ended(pilot)
        await pilot.press(key)
        await settled(pilot, lambda: pilot.app.state.key_result)
        await reads(pilot, DEMO[:60])
        assert not pilot.app.state.situation.live


async def test_while_it_plays_run_says_how_to_get_there(short):
    async with demo(short, NEVER) as pilot:
        await pilot.press("r")
        await reads(pilot, DEFAULT_KEYMAP.with_keys(PLAYING))
        assert isinstance(pilot.app.screen, MainScreen)


async def test_while_it_plays_any_of_its_runs_can_be_opened(short):
    async with demo(short, NEVER) as pilot:
        await pilot.press("h")
        await settled(pilot, lambda: "2 runs" in text_of(pilot, "#page-title"))
        await pilot.press("enter")
        await settled(pilot, lambda: pilot.app.state.past is not None)
        assert pilot.app.state.run.rows == short.runs[1].state.rows
        await pilot.press("h")
        assert pilot.app.state.past is None
        await pilot.press("r")
        await settled(pilot, lambda: pilot.app.state.situation.live)


@pytest.mark.parametrize("size", SIZES)
async def test_it_ends_on_the_picture_of_the_crossover(short, size):
    async with demo(short, size=size) as pilot:
        await reads(pilot, "demo has ended", "GPU against 16 CPU threads", "crossover: from n ≈ ")
        app, played = pilot.app, []
        expect = app.bridge.expect_series
        app.bridge.expect_series = lambda: (played.append(isinstance(app.screen, MainScreen)), expect())
        await pilot.press("r")
        assert played == [True]


# ------------------------------------------------------------------ the command


SPY = """
import sys
from cpugpu_tui.__main__ import main
sys.argv = ["cpugpu-tui", "demo", *sys.argv[1:]]
try:
    main()
finally:
    print("loaded:", sorted({"torch", "pynvml"} & set(sys.modules)))
"""


def test_on_a_terminal_it_plays_and_leaves_the_table_and_nothing_else(short, tmp_path, environment):
    path = tmp_path / "short.gz"
    path.write_bytes(packed(short.runs))
    with PtyApp([sys.executable, "-c", SPY, path, "--pace", "1000"], env=environment, columns=150) as app:
        app.until_text("the demo has ended")
        app.until_text("REPLAY")
        app.quit()
        left = app.output[app.output.rfind(b"\x1b[?1049l") :].decode()
    assert "NVIDIA H200" in left
    assert "quick" in left, left
    assert "loaded: []" in left
    assert not list(tmp_path.rglob("*.db"))


def test_quitting_in_the_middle_asks_nothing(tmp_path, environment):
    with PtyApp([sys.executable, "-m", "cpugpu_tui", "demo"], env=environment) as app:
        app.until_text("run 1 of 10")
        app.quit()
    assert not list(tmp_path.rglob("*.db"))


def test_a_damaged_recording_is_said_before_the_screen_changes(tmp_path, environment):
    path = tmp_path / SHIPPED
    path.write_bytes(packed(shipped().runs[6:])[:-99])
    with PtyApp([sys.executable, "-m", "cpugpu_tui", "demo", path], columns=200, env=environment) as app:
        assert app.exit_code() == 2
        assert b"\x1b[?1049h" not in app.output
        assert "is damaged" in app.output.decode()
