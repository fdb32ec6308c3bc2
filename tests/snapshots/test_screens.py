"""Pictures of the screens. Look at them before you renew them with `make snapshots`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from fake_run import FakeBackend, finish, new_app, readings, settled, start_run, whole_sweep
from textual.pilot import Pilot

from cpugpu_tui.ui import themes

SIZES = [(80, 24), (120, 40), (200, 60)]
Act = Callable[[Pilot[Any]], Awaitable[None]]


@pytest.fixture
def picture(snap_compare: Callable[..., bool]) -> Callable[..., bool]:
    """Compare the screen after an action with its stored picture."""

    def compare(act: Act, size: tuple[int, int] = (120, 40), **backend: Any) -> bool:
        app = new_app(backend=FakeBackend(**backend))
        return snap_compare(app, terminal_size=size, run_before=act)

    return compare


async def idle(pilot: Pilot[Any]) -> None:
    await settled(pilot, lambda: pilot.app.picture.agent_ready and pilot.app.picture.telemetry.latest is not None)


async def done(pilot: Pilot[Any]) -> None:
    session = await start_run(pilot)
    session.put(*whole_sweep(session.plan))
    await finish(pilot, session)


def then_press(key: str) -> Act:
    async def act(pilot: Pilot[Any]) -> None:
        await done(pilot)
        await pilot.press(key)
        await settled(pilot, lambda: len(pilot.app.screen_stack) > 1)

    return act


@pytest.mark.parametrize("size", SIZES, ids="{0[0]}x{0[1]}".format)
def test_idle(picture: Callable[..., bool], size: tuple[int, int]) -> None:
    assert picture(idle, size)


@pytest.mark.parametrize("size", SIZES, ids="{0[0]}x{0[1]}".format)
def test_done(picture: Callable[..., bool], size: tuple[int, int]) -> None:
    assert picture(done, size)


def test_no_gpu(picture: Callable[..., bool]) -> None:
    problem = "No NVIDIA driver found (libnvidia-ml.so.1 is missing). CPU results only; install the driver."
    assert picture(idle, telemetry=readings(gpus=0, problem=problem))


@pytest.mark.parametrize("key", ["enter", "?", "T", ":"], ids=["detail", "help", "themes", "palette"])
def test_page(picture: Callable[..., bool], key: str) -> None:
    assert picture(then_press(key))


@pytest.mark.parametrize("theme", sorted(theme.name for theme in themes.load_themes(themes.shipped_folder())[0]))
def test_theme(snap_compare: Callable[..., bool], theme: str) -> None:
    assert snap_compare(new_app(theme=theme), terminal_size=(80, 24), run_before=done)
