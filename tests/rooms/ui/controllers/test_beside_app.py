"""The app on a machine without a GPU: one key sets its CPU beside a recorded one."""

import pytest
from tests.helpers.app import fake_run
from tests.helpers.app.looking import reads, screen_lines, shown, text_of
from tests.helpers.runs.references import reference

from cpugpu_tui import model
from cpugpu_tui.compare.claims import points_of
from cpugpu_tui.state.reference import by_hash, packed
from cpugpu_tui.ui.keys import COMMAND_BY_ID
from cpugpu_tui.ui.screens.main import welcome_lines


@pytest.fixture
def recorded(monkeypatch, tmp_path):
    by_hash.cache_clear()
    monkeypatch.setattr("cpugpu_tui.state.reference.shipped", lambda: {"h100": packed(reference(simulated=False))})


@pytest.mark.usefixtures("recorded")
async def test_one_key_times_the_cpu_and_shows_it_beside_the_recorded_gpu():
    async with fake_run.opened() as pilot:
        app = pilot.app
        await fake_run.settled(pilot, lambda: app.state.agent_ready)
        await pilot.press(COMMAND_BY_ID["beside"].keys[0])
        await fake_run.settled(pilot, lambda: bool(app.backend.sessions) and app.gate.held)
        (session,) = app.backend.sessions
        assert session.plan.devices == ("cpu",)
        session.put(model.DevicesFound(devices=fake_run.DEVICES[:1]))
        for case in session.plan.cases:
            of_cpu = [
                each
                for each in fake_run.rounds(case, 1_000 + 0.04 * case.size**3, 1.0)
                if getattr(each, "device", "cpu") == "cpu"
            ]
            session.put(*of_cpu, fake_run.finished(case))
        await fake_run.finish(pilot, session)
        assert text_of(pilot, "#answer").startswith(
            "Your CPU against a recorded server (H200, 16-core Xeon, torch 2.11): The GPU wins from"
        )
        assert any(" CPU" in line and " recorded" in line for line in screen_lines(pilot))  # the heading
        assert all("~" in line for line in shown(pilot))  # each row has its mark
        assert not any(each.gpu_ns for each in points_of(app.state.run))
        assert app.state.again == session.plan  # `r` repeats it
        await pilot.press("w")
        assert "What if the copies are included? The recorded GPU " in text_of(pilot, "#answer")
        await pilot.press("enter")
        await reads(pilot, "~ less certain: the GPU's times were recorded on another machine")


async def test_without_a_gpu_the_first_screen_names_the_key():
    backend = fake_run.FakeBackend(telemetry=fake_run.readings(gpus=0))
    async with fake_run.opened(fake_run.new_app(backend=backend)) as pilot:
        lines = welcome_lines(pilot.app.state, 100)
        text = " ".join("".join(part for part, _ in line).strip() for line in lines)
        assert text.startswith("No NVIDIA GPU was found. Press B to time this CPU and set it beside an H100")
