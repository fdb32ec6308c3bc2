"""Pictures of runs of two and of eight GPUs. Look at them before you renew them with `make snapshots`."""

import pytest
from tests.helpers.app.fake_run import FakeBackend, new_app, readings, settled
from tests.helpers.app.several_gpus import run_of

from cpugpu_tui.ui.keys import Situation

SIZES = [(80, 24), (120, 40), (200, 60)]


def showing(run, *keys):
    async def act(pilot):
        await settled(pilot, lambda: pilot.app.state.agent_ready and pilot.app.state.telemetry.latest is not None)
        pilot.app.change(run=run, situation=Situation(ran=True))
        await pilot.pause()
        for key in keys:
            await pilot.press(key)
            await pilot.pause()

    return act


@pytest.mark.parametrize("gpus", [2, 8])
@pytest.mark.parametrize("size", SIZES, ids="{0[0]}x{0[1]}".format)
def test_several(snap_compare, size, gpus):
    app = new_app(backend=FakeBackend(telemetry=readings(gpus=gpus)))
    assert snap_compare(app, terminal_size=size, run_before=showing(run_of(gpus)))


def test_several_without_a_cpu(snap_compare):
    app = new_app(backend=FakeBackend(telemetry=readings(gpus=4)))
    assert snap_compare(app, terminal_size=(80, 24), run_before=showing(run_of(4, ("cuda",))))
