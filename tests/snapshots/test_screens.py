"""Pictures of the screens. Look at them before you renew them with `make snapshots`."""

import pytest
from tests.helpers.app.fake_run import (
    DEVICES,
    ENVIRONMENT,
    FakeBackend,
    done_run,
    finish,
    finished,
    new_app,
    readings,
    rounds,
    settled,
    start_run,
    whole_sweep,
)

from cpugpu_tui.model import CaseFailed, DevicesFound, Progressed, RunStarted
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.state.state import RunState
from cpugpu_tui.ui.keys import Situation

SIZES = [(80, 24), (120, 40), pytest.param((200, 60), marks=pytest.mark.slow)]
EACH_SIZE = pytest.mark.parametrize("size", SIZES, ids="{0[0]}x{0[1]}".format)


@pytest.fixture
def picture(snap_compare):
    """Compare the screen after an action with its stored picture."""

    def compare(act, size=(120, 40), **backend):
        app = new_app(backend=FakeBackend(**backend))
        return snap_compare(app, terminal_size=size, run_before=act)

    return compare


async def idle(pilot):
    await settled(pilot, lambda: pilot.app.state.agent_ready and pilot.app.state.telemetry.latest is not None)


async def running(pilot):
    """Three cases are finished, and the fourth has three of its rounds. Only a picture, without a real run."""
    await idle(pilot)
    plan = build_plan(PlanRequest())
    events = whole_sweep(plan)
    third = next(at for at, event in enumerate(events) if event == finished(plan.cases[2]))
    run = RunState()
    for event in (
        RunStarted(run_id="r", series_id="s", plan=plan, environment=ENVIRONMENT, number=7),
        DevicesFound(devices=DEVICES),
        *events[: third + 1],
        *rounds(plan.cases[3], 322_000, 20_800, count=3),
        Progressed(case=plan.cases[3].key, device="cuda:0", phase="round", round_index=4, seconds_left=4.0),
    ):
        run = run.apply(event)
    pilot.app.change(run=run, situation=Situation(live=True, ran=True))
    await pilot.pause()


async def without_gpu(pilot):
    session = await start_run(pilot)
    session.put(DevicesFound(devices=DEVICES[:1], no_gpu="CUDA finds no usable GPU (no NVIDIA driver, or no GPU). "
                             "CPU results only; `nvidia-smi` tells more."))  # fmt: skip
    session.put(*(event for event in whole_sweep(session.plan) if getattr(event, "device", "cpu") == "cpu"))
    await finish(pilot, session)


async def failing(pilot):
    """The cursor is on a failed row."""
    session = await start_run(pilot)
    broken = session.plan.cases[5].key
    session.put(*(event for event in whole_sweep(session.plan) if getattr(event, "case", "") != broken))
    why, remedy = "The agent was killed by SIGSEGV during warm-up on cuda:0.", "The rest went on in a fresh agent."
    session.put(CaseFailed(case=broken, kind="crashed", message=why, remedy=remedy, device="cuda:0"))
    await finish(pilot, session)
    await pilot.press("home", *["down"] * 5)
    await settled(pilot, lambda: pilot.app.state.cursor == broken)


@EACH_SIZE
def test_idle(picture, size):
    assert picture(idle, size)


@EACH_SIZE
def test_running(picture, size):
    assert picture(running, size)


@EACH_SIZE
def test_done(picture, size):
    assert picture(done_run, size)


@EACH_SIZE
def test_no_gpu(picture, size):
    problem = "No NVIDIA driver found (libnvidia-ml.so.1 is missing). CPU results only; install the driver."
    assert picture(without_gpu, size, telemetry=readings(gpus=0, problem=problem))


@EACH_SIZE
def test_error(picture, size):
    assert picture(failing, size)
