"""`:` finds a command, a preset or a theme by some of its letters, and enter does it."""

from contextlib import closing

import pytest
from tests.helpers.app.fake_run import new_app, opened, settled
from tests.helpers.app.looking import text_of
from tests.helpers.app.saved_runs import SWEEP, HistoryBackend, list_runs, stream

from cpugpu_tui.store import Store
from cpugpu_tui.ui.keys import COMMANDS, DEFAULT_KEYMAP, Situation
from cpugpu_tui.ui.screens.help import HelpScreen
from cpugpu_tui.ui.screens.palette import PaletteScreen, command_entries, ranked, theme_entries, workload_entries

ALL = [
    *command_entries(Situation(ran=True), DEFAULT_KEYMAP),
    *workload_entries([("quick", "from 16 to 2048"), ("matmul-sweep", "P1"), ("vector-dot", "P2")], ""),
    *theme_entries(["paper", "slate"], "slate"),
]


def lines(pilot):
    return [line for line in text_of(pilot, "#found").splitlines() if line.strip()]


@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("chart", "Chart"), ("cha", "Chart"), ("wi", "What if"), ("mcard", ""), ("quick", "Run quick"),
        ("rq", "Run quick"),
        ("sweep", "Run matmul-sweep"), ("slate", "Theme slate"), ("thpa", "Theme paper"), ("csv", "Export"),
        ("quit", "Quit"), ("r", "Run again"), ("g", "Chart"), ("m", "Machine"), ("M", "Measure"), ("esc", "Back"),
        ("zzz", ""),
    ],
)  # fmt: skip
def test_a_few_letters_find_it(typed, first):
    found = ranked(ALL, typed)
    assert (found[0].title if found else "") == first


def test_nothing_typed_shows_every_command_with_its_keys():
    assert [entry.name for entry in ranked(ALL, "")][: len(COMMANDS) - 1] == [
        command.id for command in COMMANDS if command.id != "palette"
    ]
    assert {entry.name: entry.keys for entry in ALL}["quit"] == "q, ctrl+c"


async def test_typing_narrows_and_enter_does_it():
    async with opened() as pilot:
        await pilot.press(":")
        assert isinstance(pilot.app.screen, PaletteScreen)
        assert lines(pilot)[0].split()[:3] == ["▸", "Run", "Run"]
        await pilot.press(*"help")
        assert lines(pilot)[0].split()[:2] == ["▸", "Help"]
        assert lines(pilot)[0].rstrip().endswith("?")
        await pilot.press("enter")
        assert isinstance(pilot.app.screen, HelpScreen)


async def test_the_impossible_is_dimmed_says_why_and_stays_undone(words):
    async with opened(size=(80, 24)) as pilot:
        await pilot.press(":", *"export")
        words(lines(pilot)[0])
        styles = [role for _, role in pilot.app.screen.query_one("#found").lines[0]]
        assert "chosen" not in styles
        await pilot.press("enter")
        assert isinstance(pilot.app.screen, PaletteScreen)


async def test_a_preset_is_highlighted_and_run():
    async with opened() as pilot:
        await settled(pilot, lambda: pilot.app.state.agent_ready)
        await pilot.press(":", *"run vec", "enter")
        await settled(pilot, lambda: bool(pilot.app.backend.sessions) and pilot.app.gate.held)
        assert pilot.app.backend.sessions[-1].plan.name == "vector-dot"
        assert "+".join(pilot.app.state.request.names) == "vector-dot"


async def test_in_the_history_it_acts_on_the_run_under_the_cursor_or_says_that_it_does_not(tmp_path, words):
    with closing(Store.open(tmp_path / "x.db")) as store:
        store.import_run(stream("one"))
        async with opened(new_app(backend=HistoryBackend(store))) as pilot:
            await list_runs(pilot)
            await pilot.press(":", *"export")
            words(lines(pilot)[0])
            await pilot.press(*["backspace"] * 6, *"run", "enter")
            await settled(pilot, lambda: bool(pilot.app.backend.sessions) and pilot.app.gate.held)
            assert pilot.app.backend.sessions[-1].plan.cases == SWEEP.cases, "its plan, not what is highlighted"
