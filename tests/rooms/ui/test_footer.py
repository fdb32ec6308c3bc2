"""On every screen and in every state, each key in the footer does what its label says."""

from contextlib import asynccontextmanager
from itertools import pairwise

from tests.helpers.app.fake_run import done_run, finish, new_app, opened, reach_gap, settled, start_run, whole_sweep
from tests.helpers.app.looking import reads
from tests.helpers.app.saved_runs import HistoryBackend, stream
from textual.keys import _character_to_key
from textual.widgets import Input

from cpugpu_tui.demo.recording import Recording, shipped
from cpugpu_tui.model import Simulation
from cpugpu_tui.session.planning import PlanRequest
from cpugpu_tui.store import Store
from cpugpu_tui.ui.app import CpuGpuApp
from cpugpu_tui.ui.app_state import AppOptions
from cpugpu_tui.ui.keys import COMMAND_BY_ID, COMMANDS, label
from cpugpu_tui.ui.panes.lines import Lines
from cpugpu_tui.ui.panes.status import SELECTS
from cpugpu_tui.ui.screens.main import MainScreen

ASKED_IN_ON_KEY = {"l", "/"}
"""Keys that the history answers before any binding."""


def footer(pilot):
    """Return each key that is shown as working, with its label."""
    screen = pilot.app.screen_stack[0] if not pilot.app.screen.query("#page-keys") else pilot.app.screen
    (line,) = screen.query_one("#keys, #page-keys", Lines).lines
    return [(key.strip(), says.strip()) for (key, role), (says, _) in pairwise(line) if role == "key"]


def action_of(pilot, key):
    """Return the action of a key now; empty for none."""
    name = {"esc": "escape"}.get(key, key)
    if len(name) == 1 and isinstance(pilot.app.focused, Input):
        return ""  # it types a letter
    active = pilot.app.screen.active_bindings.get(_character_to_key(name) if len(name) == 1 else name)
    if active is None or not active.enabled:
        return ""
    return active.binding.action.removeprefix("app.")


def check(pilot):
    """Compare the last line with the actions of its keys."""
    shown = footer(pilot)
    state = pilot.app.state
    if pilot.app.screen.query("#page-keys"):
        assert shown or state.key_result
        for keys, says in shown:
            for key in keys.split():
                works = action_of(pilot, key) not in ("", "nothing")
                assert works or key in ASKED_IN_ON_KEY, f"{key} {says}: {pilot.app.screen}"
    elif not isinstance(pilot.app.screen, MainScreen):
        assert shown == [], f"{pilot.app.screen} takes the keys that the footer below it still names"
    else:
        situation = state.situation._replace(zoomed=pilot.app.screen.has_class("-zoomed"))
        actions = {label(command, situation): command.action for command in COMMANDS}
        actions |= {"Keep": "submit", "Show all": COMMAND_BY_ID["back"].action}  # of the filter
        for key, says in shown:
            does = action_of(pilot, key)
            assert does == actions[says] or (says == "Open" and does in SELECTS), f"{key} {says}: it does {does!r}"


@asynccontextmanager
async def app_with_history():
    store = Store.in_memory()
    store.import_run(stream("a"))
    async with opened(new_app(backend=HistoryBackend(store)), size=(200, 60)) as pilot:
        yield pilot


async def check_all_panes(pilot):
    for _ in range(3):
        check(pilot)
        await pilot.press("tab")
    check(pilot)


async def test_before_and_during_a_run():
    async with opened(size=(200, 60)) as pilot:
        await settled(pilot, lambda: pilot.app.state.agent_ready)
        await check_all_panes(pilot)
        await pilot.press("slash")
        await settled(pilot, lambda: pilot.app.state.key_result)
        check(pilot)
        session = await start_run(pilot)
        await reach_gap(pilot, session)
        await check_all_panes(pilot)
        await pilot.press("space")
        check(pilot)
        await pilot.press("space", "x")
        check(pilot)
        await finish(pilot, session, "stopped")
        check(pilot)


async def test_after_a_run_on_each_screen():
    screens = set()
    async with app_with_history() as pilot:
        await done_run(pilot)
        for keys in (
            "", "z", "slash", "slash 1", "m", "g", "K", "question_mark", "enter", "e", "T", "colon", "h", "c",
            "shift+tab enter", "h slash", "h enter", "tab z", "R", "slash 1 enter",
        ):  # fmt: skip
            for key in keys.split():
                await pilot.press(key)
            await pilot.pause(0.2)
            screens.add(type(pilot.app.screen))
            await check_all_panes(pilot)
            for _ in range(3):
                await pilot.press("escape")
            await pilot.pause(0.05)
            assert isinstance(pilot.app.screen, MainScreen), keys
    assert len(screens) >= 11


async def test_in_a_demo_while_it_plays_and_after():
    app = CpuGpuApp(AppOptions(demo=Recording(shipped().runs[:1]), demo_pace=0.001))
    async with app.run_test(size=(200, 60)) as pilot:
        await settled(pilot, lambda: app.state.run.run is not None)
        await check_all_panes(pilot)
        for key in ("h", "K", "g"):
            await pilot.press(key)
            await pilot.pause(0.1)
            check(pilot)
            assert "measure" not in str(footer(pilot))
            await pilot.press("escape")
        await pilot.press("x")
        await settled(pilot, lambda: not app.state.situation.live)
        await check_all_panes(pilot)
        app.bridge.backend.close()


# ------------------------------------------------------------------ what it says


async def test_a_notice_ends_with_its_screen_or_the_next_key():
    async with app_with_history() as pilot:
        pilot.app.change(request=PlanRequest(simulation=Simulation()))
        await pilot.resize_terminal(80, 24)
        await pilot.press("p")
        await reads(pilot, "SIMULATED Python: not in a simulation; start cpugpu-tui without --simulate.")
        await pilot.press("t")
        assert pilot.app.state.key_result == ""
        session = await start_run(pilot)
        await pilot.press("c")
        await settled(pilot, lambda: "Compare" in pilot.app.state.key_result)
        await pilot.press("m")
        assert pilot.app.state.key_result == ""
        session.put(*whole_sweep(session.plan))
        await finish(pilot, session)


async def test_a_letter_that_a_field_takes_is_not_shown():
    async with opened(ran=True) as pilot:
        await pilot.press("slash")
        await settled(pilot, lambda: isinstance(pilot.app.focused, Input))
        assert [key for key, _ in footer(pilot) if len(key) == 1] == []
        check(pilot)
