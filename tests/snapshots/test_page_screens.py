"""Pictures of the pages that a key opens."""

from typing import Any

import pytest
from tests.helpers.app.fake_run import settled
from tests.snapshots.test_screens import Act, done, idle, picture
from textual.pilot import Pilot

__all__ = ["picture"]


async def form(pilot: Pilot[Any]) -> None:
    await idle(pilot)
    await pilot.press("enter")
    await settled(pilot, lambda: len(pilot.app.screen_stack) > 1 and not pilot.app.state.surveying)
    pilot.app.screen.query_one("#devices").focus()
    await pilot.pause()


def then_press(key: str) -> Act:
    async def act(pilot: Pilot[Any]) -> None:
        await done(pilot)
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
