"""Pictures of the pages that a key opens."""

import pytest
from tests.helpers.app.fake_run import done_run, settled
from tests.snapshots.test_screens import idle, picture

__all__ = ["picture"]


async def form(pilot):
    await idle(pilot)
    await pilot.press("enter")
    await settled(pilot, lambda: len(pilot.app.screen_stack) > 1 and not pilot.app.state.surveying)
    pilot.app.screen.query_one("#devices").focus()
    await pilot.pause()


def then_press(key):
    async def act(pilot):
        await done_run(pilot)
        await pilot.press(key)
        await settled(pilot, lambda: len(pilot.app.screen_stack) > 1)
        await pilot.app.workers.wait_for_complete()  # a thread loads what the chart is drawn with

    return act


@pytest.mark.parametrize(
    "key", ["enter", "?", "T", ":", "g", "K", "m"],
    ids=["detail", "help", "themes", "palette", "chart", "claims", "machine"],
)  # fmt: skip
def test_page(picture, key):
    assert picture(then_press(key))


def test_form(picture):
    assert picture(form, (80, 24))
