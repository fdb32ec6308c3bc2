"""The machine card in the app: m opens it, esc closes it, M alone measures, and never beside a run."""

from tests.helpers.app.fake_run import FakeBackend, finish, new_app, opened, settled, start_run, whole_sweep
from tests.helpers.app.looking import text_of

from cpugpu_tui.model import Ceilings, CeilingsMeasured, DevicesFound, Line, Plan, Progressed, RunFinished, Simulation
from cpugpu_tui.session.planning import PlanRequest
from cpugpu_tui.ui.screens.machine import MachineScreen
from cpugpu_tui.ui.screens.main import MainScreen

CPU = Ceilings(
    "cpu", "Xeon 8480", None, "box", "2.11.0+cu130", 0, 16, {"float32": 1.35e12}, {"float32": 4096}, 1e11, 1 << 30,
    1.3e3,
)  # fmt: skip
GPU = Ceilings(
    "cuda:0", "NVIDIA H200", "GPU-1", "box", "2.11.0+cu130", 0, 16, {"float32": 5.1e13}, {"float32": 8192}, 4.29e12,
    1 << 30, 10_500.0, 8_400.0, 21_000.0, {"h2d_pageable": Line(11e3, 7e9), "h2d_pinned": Line(9.5e3, 5.5e10)},
)  # fmt: skip


class KnowingBackend(FakeBackend):
    """A backend whose store knows this machine."""

    def __init__(self, *known):
        super().__init__()
        self.known = known

    def ceilings(self):
        return self.known


async def measuring(pilot, key="M"):
    """Press the key, wait until the first step is said; return the session."""
    app = pilot.app
    await settled(pilot, lambda: app.state.agent_ready)
    before = len(app.backend.sessions)
    await pilot.press(key)
    await settled(pilot, lambda: len(app.backend.sessions) > before)
    session = app.backend.sessions[-1]
    session.put(Progressed(case="", device="cpu", phase="calibration", note="float32 matmul 512"))
    await settled(pilot, lambda: app.state.calibrating.endswith("float32 matmul 512"))
    return session


# ------------------------------------------------------------------ looking


async def test_m_opens_it_and_esc_and_m_close_it():
    async with opened(new_app(backend=KnowingBackend(CPU, GPU))) as pilot:
        for closing in ("escape", "m"):
            await pilot.press("m")
            assert isinstance(pilot.app.screen, MachineScreen)
            await pilot.press(closing)
            assert isinstance(pilot.app.screen, MainScreen)


async def test_all_that_matters_is_on_the_first_screen_of_80_by_24():
    size = (80, 24)
    async with opened(new_app(backend=KnowingBackend(CPU, GPU)), size) as pilot:
        await settled(pilot, lambda: bool(pilot.app.state.ceilings))
        await pilot.press("m")
        await settled(pilot, lambda: "pinned" in text_of(pilot, "#page-text"))
        shown = text_of(pilot, "#page-text").splitlines()[: size[1] - 2]
        for words in (
            "An empty GPU call",
            "CPU Xeon 8480, 16 threads",
            "GPU NVIDIA H200",
            "one round trip",
            "pinned to",
        ):
            assert any(words in line for line in shown), words
        assert max(map(len, shown)) <= size[0] - 4
        assert "days ago" in text_of(pilot, "#page-title")
        assert "M measure again" in text_of(pilot, "#page-keys")


async def test_with_nothing_kept_it_says_what_to_press(words):
    async with opened() as pilot:
        await pilot.press("m")
        words(text_of(pilot, "#page-text"))
        assert pilot.app.backend.sessions == []


# ------------------------------------------------------------------ measuring


async def test_capital_m_measures_says_each_step_and_shows_what_came_of_it():
    simulation = Simulation()
    async with opened(new_app(PlanRequest(simulation=simulation))) as pilot:
        session = await measuring(pilot)
        assert session.plan == Plan("machine", (), devices=("auto",), calibrate=True, gaps=True, simulation=simulation)
        assert isinstance(pilot.app.screen, MachineScreen)
        await settled(pilot, lambda: "float32 matmul 512" in text_of(pilot, "#page-title"))
        session.put(CeilingsMeasured(ceilings=CPU), CeilingsMeasured(ceilings=GPU))
        await finish(pilot, session)
        await settled(pilot, lambda: "FLOP/s" in text_of(pilot, "#page-text"))
        assert "M measure again" in text_of(pilot, "#page-keys")
        assert pilot.app.backend.prepared == 1


async def test_beside_a_run_it_cannot_be_measured_and_after_it_the_rows_stay(words):
    async with opened() as pilot:
        run = await start_run(pilot)
        await pilot.press("m")
        words(text_of(pilot, "#page-title"))
        await pilot.press("M")
        assert pilot.app.backend.sessions == [run]
        run.put(*whole_sweep(run.plan))
        await finish(pilot, run)
        rows = pilot.app.state.run.rows
        session = await measuring(pilot)
        await finish(pilot, session)
        assert (pilot.app.state.run.rows, pilot.app.state.run.status) == (rows, "done")


async def test_what_could_not_be_measured_is_said_on_the_card_until_the_next_time():
    async with opened(new_app(backend=KnowingBackend(CPU))) as pilot:
        session = await measuring(pilot)
        session.put(RunFinished(status="failed", message="cuda:0 failed.", remedy="Free some memory.", exit_code=4))
        await settled(pilot, lambda: not pilot.app.state.situation.live)
        assert "cuda:0 failed." in text_of(pilot, "#page-text")
        assert "Free some memory." in text_of(pilot, "#page-text")
        assert pilot.app.state.notice is None
        session = await measuring(pilot)
        session.put(DevicesFound(devices=(), no_gpu="This torch is a CPU-only build. Install a CUDA build."))
        await finish(pilot, session)
        assert "cuda:0 failed" not in text_of(pilot, "#page-text")
        assert "CPU-only build." in text_of(pilot, "#page-text")
        assert "CPU Xeon 8480" in text_of(pilot, "#page-text")
