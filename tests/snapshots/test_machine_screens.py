"""Pictures of the machine: the pane, the page of all GPUs and that of one. Look at them before you renew them."""

from dataclasses import replace

import pytest
from tests.helpers.app.fake_run import FakeBackend, new_app, settled
from tests.helpers.app.machine_readings import PROCESSES, gpu, idle, mig, moving, sweep

from cpugpu_tui.ui.screens.gpu import GpuScreen

SIZES = pytest.mark.parametrize(
    "size", [(80, 24), (120, 40), pytest.param((200, 60), marks=pytest.mark.slow)], ids="{0[0]}x{0[1]}".format
)
MIXED = sweep(gpu(0, throttle=("hw-thermal",), processes=PROCESSES, persistence=False), idle(1), mig(2))


def app_after(*sweeps):
    """The app after readings one second apart."""
    *before, last = (replace(read, mono_ns=second * 10**9) for second, read in enumerate(sweeps, 1))
    app = new_app(backend=FakeBackend(telemetry=last))
    for read in before:
        app.state = app.state.__class__(telemetry=app.state.telemetry.apply(read))
    return app


async def idle_app(pilot):
    await settled(pilot, lambda: pilot.app.state.agent_ready and pilot.app.state.telemetry.latest is not None)


async def page(pilot):
    await idle_app(pilot)
    await pilot.press("tab", "z")
    await settled(pilot, lambda: isinstance(pilot.app.screen, GpuScreen))


@SIZES
def test_eight_gpus(snap_compare, size):
    app = app_after(*map(moving, range(60)))
    assert snap_compare(app, terminal_size=size, run_before=idle_app)


@SIZES
def test_mixed(snap_compare, size):
    assert snap_compare(app_after(*[MIXED] * 20), terminal_size=size, run_before=idle_app)


async def one_gpu(pilot):
    await page(pilot)
    await pilot.press("tab")


@SIZES
def test_page_of_eight_gpus(snap_compare, size):
    assert snap_compare(app_after(*map(moving, range(150))), terminal_size=size, run_before=page)


@SIZES
def test_page_of_one_gpu(snap_compare, size):
    assert snap_compare(app_after(*[MIXED] * 20), terminal_size=size, run_before=one_gpu)


@SIZES
def test_page(snap_compare, size):
    assert snap_compare(app_after(*[MIXED] * 20), terminal_size=size, run_before=page)
