"""Every screen without UTF-8 is ASCII at every size."""

import pytest
from tests.helpers.app.fake_run import FakeBackend, done_run, opened, settled
from tests.helpers.app.looking import screen_lines

from cpugpu_tui.ui.app import CpuGpuApp
from cpugpu_tui.ui.app_state import AppOptions
from cpugpu_tui.ui.glyphs import ASCII

SIZES = [(80, 24), (120, 40), (200, 60)]
PAGES = ("T", "enter", "question_mark", "m", "K", "g", "h", "c", "e", "shift+tab enter", "tab z")
"""Keys that open a page or a dialog over the main screen with a finished run."""
IN_PLACE = ("slash", "escape", "z", "z", "w", "w", "g w w", "g")
"""Keys that change the main screen."""


def strange(pilot):
    """Return the characters on the screen outside ASCII."""
    return {char for line in screen_lines(pilot) for char in line if ord(char) > 126}


@pytest.mark.parametrize(
    "size",
    [SIZES[0], *(pytest.param(size, marks=pytest.mark.slow) for size in SIZES[1:])],
    ids=[f"{columns}x{rows}" for columns, rows in SIZES],
)
async def test_no_screen_holds_a_sign_outside_ascii(size):
    backend = FakeBackend()
    app = CpuGpuApp(AppOptions(), ASCII, backend=backend)
    app.backend = backend  # type: ignore[attr-defined]
    async with opened(app, size) as pilot:
        assert strange(pilot) == set()
        await done_run(pilot)
        assert strange(pilot) == set()
        for keys in PAGES:
            await pilot.press(*keys.split())
            await settled(pilot, lambda: len(app.screen_stack) > 1)
            assert (keys, strange(pilot)) == (keys, set())
            await pilot.press("escape")
            await settled(pilot, lambda: len(app.screen_stack) == 1)
            app.screen.query_one("#timing-table").focus()
        for keys in IN_PLACE:
            await pilot.press(*keys.split())
            await pilot.pause()
            assert (keys, strange(pilot)) == (keys, set())
