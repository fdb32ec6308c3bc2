"""With a keymap of the person's own: the keys work, and everything that names a key names theirs."""

from tests.helpers.app.fake_run import finish, new_app, opened, settled, whole_sweep
from tests.helpers.app.looking import text_of
from tests.helpers.app.saved_runs import SWEEP, app_with, list_runs, stream

from cpugpu_tui.config.settings import KeyLine
from cpugpu_tui.ui.keys import keymap_of
from cpugpu_tui.ui.screens.help import HelpScreen
from cpugpu_tui.ui.screens.main import MainScreen


def remapped(**keys):
    """An app whose config gives these commands these keys; `_` stands for `-`."""
    lines = [
        KeyLine(name.replace("_", "-"), (key,) if isinstance(key, str) else key, "config.toml, line 1", 1)
        for name, key in keys.items()
    ]
    return new_app(keymap=keymap_of(lines))


async def run_by(pilot, key):
    await settled(pilot, lambda: pilot.app.state.agent_ready)
    await pilot.press(key)
    await settled(pilot, lambda: bool(pilot.app.backend.sessions) and pilot.app.gate.held)
    session = pilot.app.backend.sessions[-1]
    session.put(*whole_sweep(session.plan))
    await finish(pilot, session)


async def test_the_new_key_does_it_and_the_old_one_nothing():
    async with opened(remapped(run="f5")) as pilot:
        await pilot.press("r")
        assert pilot.app.backend.sessions == []
        await run_by(pilot, "f5")
        assert len(pilot.app.backend.sessions) == 1


async def test_keys_that_change_places_do_so():
    async with opened(remapped(run="x", stop="r")) as pilot:
        await settled(pilot, lambda: pilot.app.state.agent_ready)
        await pilot.press("x")
        await settled(pilot, lambda: bool(pilot.app.backend.sessions) and pilot.app.gate.held)
        await pilot.press("r")
        assert pilot.app.backend.sessions[-1].asked == ["stop"]


async def test_each_key_of_a_list_works_and_a_comma_is_a_key():
    async with opened(remapped(help=("f1", ","), back="backspace")) as pilot:
        for key in ("f1", ","):
            await pilot.press(key)
            assert isinstance(pilot.app.screen, HelpScreen)
            await pilot.press("backspace")
            assert isinstance(pilot.app.screen, MainScreen)
        await pilot.press("f1", "escape")
        assert isinstance(pilot.app.screen, MainScreen), "esc always goes back"


async def test_what_names_a_key_names_the_new_one():
    async with opened(remapped(run="f5", open="alt+o", help="f1", machine="f6", measure="f7")) as pilot:
        assert "f5" in text_of(pilot, "#welcome")
        for key in ("alt+o", "f1"):
            assert key in text_of(pilot, "#answer")
        assert "f5 Run" in text_of(pilot, "#keys")
        await pilot.press("f1")
        help_text = text_of(pilot, "#page-text")
        assert any(line.split()[:2] == ["f5", "Run"] for line in help_text.splitlines())
        assert "{" not in help_text, "every id in braces is one of a command"
        await pilot.press("escape", "f6")
        assert "f7 measure" in text_of(pilot, "#page-keys")


async def test_in_the_history_the_key_of_run_runs_the_saved_one_again(store):
    store.import_run(stream("saved"))
    async with opened(app_with(store, keymap=keymap_of([KeyLine("run", ("f5",), "config.toml, line 1", 1)]))) as pilot:
        await list_runs(pilot)
        assert "f5 again" in text_of(pilot, "#page-keys")
        await pilot.press("f5")
        await settled(pilot, lambda: bool(pilot.app.backend.sessions))
        assert pilot.app.backend.sessions[-1].plan.cases == SWEEP.cases


# ------------------------------------------------------------------ keys that are impossible now
