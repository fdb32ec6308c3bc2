"""The app offers an interpreter whose torch can use the GPU, where the one in use cannot, and takes it with a key."""

import threading
from pathlib import Path

import pytest
import torch
from tests.helpers.app.fake_run import ENVIRONMENT, FakeBackend, finish, new_app, opened, readings, settled, start_run
from tests.helpers.app.looking import reads, screen_lines
from tests.helpers.app.states import joined
from tests.helpers.machine.fake_interpreters import with_torch
from tests.rooms.ui.test_states import SMALL, ShownApp

from cpugpu_tui.model import Hello, Simulation, TelemetryRead
from cpugpu_tui.session.planning import PlanRequest
from cpugpu_tui.state.state import TelemetryState
from cpugpu_tui.transport import interpreter_search
from cpugpu_tui.transport.interpreter_search import Interpreter
from cpugpu_tui.ui.app import CpuGpuApp
from cpugpu_tui.ui.app_state import AppOptions, AppState
from cpugpu_tui.ui.controllers.preparing import lacks_torch

GPU_PYTHON = Interpreter("/opt/ml/bin/python", "2.8.0+cu126", True)
OFFER = "Press p to use /opt/ml/bin/python: it has torch 2.8.0+cu126, which can use the GPU."


def backend_with(better, **facts):
    backend = FakeBackend(Hello(protocol=1, environment={**ENVIRONMENT, **facts}))
    backend.better = better
    return backend


async def test_a_cpu_build_beside_a_gpu_offers_the_better_interpreter_and_p_takes_it():
    backend = backend_with(GPU_PYTHON, torch="2.9.1+cpu", torch_cuda=None)
    async with opened(new_app(backend=backend), size=SMALL) as pilot:
        await reads(pilot, f"This torch (2.9.1+cpu) cannot use the GPU. {OFFER}", "Press r")
        await pilot.press("p")
        await settled(pilot, lambda: backend.python == GPU_PYTHON.path)
        await reads(pilot, "Using /opt/ml/bin/python.")
        assert "Press p" not in joined(screen_lines(pilot))


class SearchingBackend(FakeBackend):
    """Its first search lasts until it is to stop."""

    def __init__(self, hello):
        super().__init__(hello)
        self.searches = 0
        self.began = threading.Event()

    def better_python(self, should_stop):
        self.searches += 1
        self.began.set()
        if self.searches > 1:
            return GPU_PYTHON
        while not should_stop():
            threading.Event().wait(0.01)
        return None


async def test_a_run_ends_the_search_which_begins_again_after_it():
    backend = SearchingBackend(Hello(protocol=1, environment={**ENVIRONMENT, "torch_cuda": None}))
    async with opened(new_app(backend=backend), size=SMALL) as pilot:
        await settled(pilot, backend.began.is_set)
        session = await start_run(pilot)
        assert backend.searches == 1
        assert OFFER not in joined(screen_lines(pilot))
        await finish(pilot, session)
        await reads(pilot, OFFER)


@pytest.mark.parametrize(
    ("lacking", "gpus", "facts"),
    [
        (True, 0, {"torch": None}),
        (True, 1, {"torch_cuda": None}),
        (False, 0, {"torch_cuda": None}),
        (True, 1, {"torch_cuda": "13.0", "driver": "535.104.05"}),
        (False, 1, {"torch_cuda": "13.0", "driver": "580.95.05"}),
        (False, 1, {"torch_cuda": "12.8", "driver": "535.104.05"}),
        (False, 1, {"torch_cuda": "13.0"}),
    ],
)
def test_which_torch_is_lacking(lacking, gpus, facts):
    """On a machine without a GPU any torch will do; a CUDA of a newer major version than the driver's never runs."""
    latest: TelemetryRead = readings(gpus)
    shown = {"environment": {**ENVIRONMENT, **facts}, "telemetry": TelemetryState(latest=latest)}
    assert lacks_torch(AppState(**shown)) is lacking
    assert not lacks_torch(AppState(**shown, request=PlanRequest(simulation=Simulation())))
    assert not lacks_torch(AppState(**shown, worker="thread"))


def only(monkeypatch, python):
    """Let this machine hold one interpreter beside those in use, and give it time: the cores may be taken.

    Returns the folders in which interpreters are looked for.
    """
    folders: list[Path | None] = []

    def interpreters(environ, home, used, folder):
        folders.append(folder)
        return (str(python),)

    monkeypatch.setattr(interpreter_search, "interpreters", interpreters)
    monkeypatch.setattr(interpreter_search, "LIMIT_S", 60.0)
    return folders


@pytest.mark.skipif(torch.version.cuda is not None, reason="this torch may be able to use a GPU")
async def test_beside_a_driver_with_gpus_the_cpu_build_of_this_environment_is_found_lacking(
    fake_nvml, tmp_path, monkeypatch
):
    """Nothing is made up but the driver and the other interpreter, whose kernels run with this one's torch."""
    better = with_torch(tmp_path / "an env" / "python", "2.8.0+cu126")
    only(monkeypatch, better)
    fake_nvml.use()
    app = CpuGpuApp(AppOptions(request=PlanRequest(("matmul",), sizes="8", rounds=2), database=tmp_path / "results.db"))
    async with ShownApp(app) as pilot:
        await settled(pilot, lambda: app.state.better_python is not None)
        await reads(pilot, f"This torch ({torch.__version__}) cannot use the GPU. Press p to use")
        await pilot.press("p")
        await settled(pilot, lambda: app.state.agent_ready)
        await pilot.press("r")
        await settled(pilot, lambda: app.state.run.finished is not None and not app.state.situation.live)
        assert app.state.run.run.environment["python_option"] == better


async def test_auto_takes_it_without_a_key(bare_python, torch_python, tmp_path, monkeypatch):
    folders = only(monkeypatch, torch_python)
    monkeypatch.setattr("sys.executable", str(bare_python))
    app = CpuGpuApp(AppOptions(python="auto", database=tmp_path / "results.db"))
    async with ShownApp(app) as pilot:
        await settled(pilot, lambda: app.state.environment.get("interpreter") == str(torch_python))
        await reads(pilot, "ready", "it has torch")
    assert folders == [Path.cwd()]
