"""The form of a workload's parameters: choosers, editable defaults, errors under fields, and the estimate."""

import re

import pytest
from tests.helpers.app.fake_run import DEVICES, FakeBackend, new_app, opened, reach_gap, settled, start_run
from tests.helpers.app.looking import said, session_of, text_of

from cpugpu_tui.config.parsing import FieldError
from cpugpu_tui.model import Device, DevicesFound, Hello
from cpugpu_tui.model.event import to_plain
from cpugpu_tui.session.estimate import Earlier, likeness
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.ui.panes.fields import DeviceChoice
from cpugpu_tui.ui.panes.workload import entries, plan_of
from cpugpu_tui.ui.screens import workload_form
from cpugpu_tui.ui.screens.main import MainScreen
from cpugpu_tui.ui.screens.workload_form import WorkloadForm, request_from, texts_of

SIZES = [(80, 24), (120, 40), (200, 60)]
TWO = DevicesFound(devices=(*DEVICES, Device("cuda:1", "NVIDIA A100", "GPU-2", 80 << 30)))


async def open_form(pilot):
    await settled(pilot, lambda: pilot.app.state.agent_ready)
    await pilot.press("enter")
    await settled(pilot, lambda: isinstance(pilot.app.screen, WorkloadForm) and not pilot.app.state.surveying)
    return pilot.app.screen  # type: ignore[no-any-return]


async def at(pilot, field):
    widget = pilot.app.screen.query_one(f"#{field}")
    widget.focus()
    await pilot.pause()
    return widget


def earlier(request, seconds):
    return Earlier({likeness(to_plain(build_plan(request))): (12, int(seconds * 1e9))}, {})


@pytest.mark.parametrize("size", SIZES, ids="{0[0]}x{0[1]}".format)
async def test_every_field_and_what_they_will_take_are_on_the_screen_at_once(size):
    async with opened(new_app(backend=FakeBackend()), size=size) as pilot:
        await open_form(pilot)
        text = said(pilot)
        for label in ("sizes", "dtype", "CPU threads", "devices", "repeats", "rounds", "time limit", "scale",
                      "cases", "time", "memory", "enter run", "esc close, keep changes"):  # fmt: skip
            assert label in text, label
        assert pilot.app.screen.query_one("#box").max_scroll_y == 0


async def test_threads_are_offered_as_many_as_this_machine_has_cores(monkeypatch):
    monkeypatch.setattr(workload_form, "default_threads", lambda: 2)
    backend = FakeBackend(hello=Hello(protocol=1, environment={}))  # no agent has said how many
    async with opened(new_app(backend=backend), size=(80, 24)) as pilot:
        form = await open_form(pilot)
        assert form.query_one("#threads").words == ("all", "1", "1,all")


async def test_a_gpu_is_chosen_by_its_name_from_what_an_agent_reported():
    backend = FakeBackend()
    backend.devices = TWO
    async with opened(new_app(backend=backend), size=(80, 24)) as pilot:
        form = await open_form(pilot)
        form.query_one("#devices").focus()
        await pilot.pause()
        assert "[x] auto" in said(pilot)
        assert "[ ] cuda:1" in said(pilot)
        assert "80.0 GiB" in said(pilot)
        await pilot.press("down", "space", "down", "down", "down", "space", "enter")  # past `cuda`, every GPU
        session = await session_of(pilot)
        assert session.plan.devices == ("cpu", "cuda:1")


async def test_a_click_opens_the_devices_and_the_next_ones_choose_them():
    backend = FakeBackend()
    backend.devices = TWO
    async with opened(new_app(backend=backend), size=(80, 24)) as pilot:
        form = await open_form(pilot)
        await pilot.click("#devices")
        await settled(pilot, lambda: "[ ] cuda:1" in said(pilot))
        assert "[x] auto" in said(pilot), "the first click opens only"
        for line, name in ((1, "cpu"), (4, "cuda:1")):
            await pilot.click("#devices", offset=(3, line))
            await settled(pilot, lambda name=name: f"[x] {name}" in said(pilot))  # type: ignore[misc]
        assert form.query_one(DeviceChoice).chosen == ("cpu", "cuda:1")
        await pilot.click("#devices", offset=(3, 1))
        await settled(pilot, lambda: form.query_one(DeviceChoice).chosen == ("cuda:1",))
        form.query_one("#repeat").focus()
        await settled(pilot, lambda: "[x]" not in said(pilot))
        await pilot.click("#devices")
        await settled(pilot, lambda: "[ ] auto" in said(pilot))
        assert form.query_one(DeviceChoice).chosen == ("cuda:1",), "this click opens only"


async def test_what_was_asked_for_and_is_not_there_can_be_seen_and_taken_out():
    async with opened(new_app(PlanRequest(devices=("cuda:5",))), size=(80, 24)) as pilot:
        form = await open_form(pilot)
        assert "cuda:5" in said(pilot)
        form.query_one("#devices").focus()
        await pilot.press("down", "down", "down", "space", "enter")
        assert pilot.app.state.request.devices == ("auto",)


async def test_during_a_run_no_agent_is_asked_and_its_own_devices_are_known(monkeypatch):
    async with opened(size=(80, 24)) as pilot:
        asked: list[str] = []
        monkeypatch.setattr(pilot.app.backend, "survey", lambda: asked.append("survey"))
        await reach_gap(pilot, await start_run(pilot))
        await pilot.press("shift+tab")
        await open_form(pilot)
        assert asked == []
        assert pilot.app.state.devices == DEVICES


async def test_the_time_is_that_of_an_earlier_run_or_said_to_be_unknown():
    async with opened(size=(80, 24)) as pilot:
        await open_form(pilot)
        assert "time unknown" in said(pilot)
        pilot.app.change(earlier=earlier(PlanRequest(), 9.1))
        await pilot.pause()
        assert re.search(r"9\.1 s.*run 12", said(pilot))
        await pilot.press("ctrl+u", *"8,16")
        await settled(pilot, lambda: "time unknown" in said(pilot))  # that is another plan


async def test_more_memory_than_there_is_warns_before_anything_runs():
    async with opened(size=(80, 24)) as pilot:
        await open_form(pilot)
        for fact in ("48 MiB", "matmul 2,048", "210 GiB on"):
            assert fact in said(pilot)
        await pilot.press("ctrl+u", *"200000")
        for fact in ("447 GiB", "matmul 200,000", "210 GiB free"):
            assert fact in said(pilot)


def test_an_error_of_a_field_names_its_value_then_the_remedy(words):
    request = PlanRequest()
    wrong = [("sizes", "16,,32"), ("dtype", "float32,tf32"), ("threads", "few"), ("repeat", "0"), ("repeat", "many"),
             ("rounds", "1234567890"), ("rounds", "few"), ("max_seconds", "soon")]  # fmt: skip
    said = []
    for field, text in wrong:
        with pytest.raises(FieldError) as caught:
            plan_of(request_from({**texts_of(request), field: text}, request))
        assert caught.value.field == field
        assert repr(text) in str(caught.value)
        said.append(f"{field}: {caught.value}")
    words(said)


# ------------------------------------------------------------------ leaving, and small terminals


async def test_escape_keeps_what_was_typed_and_ctrl_c_drops_it():
    async with opened(size=(80, 24)) as pilot:
        await open_form(pilot)
        await pilot.press("ctrl+u", *"8,16", "escape")
        assert (pilot.app.backend.sessions, pilot.app.state.request.sizes) == ([], "8,16")
        await open_form(pilot)
        await pilot.press("ctrl+u", *"99", "ctrl+c")
        assert pilot.app.state.request.sizes == "8,16"


async def test_what_cannot_be_run_yet_is_told_and_stands_there_again():
    async with opened(size=(80, 24)) as pilot:
        await open_form(pilot)
        await pilot.press("x")
        await at(pilot, "scale")
        await pilot.press("enter")  # goes to what is wrong
        assert pilot.app.screen.focused is pilot.app.screen.query_one("#sizes")
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, MainScreen)
        await settled(pilot, lambda: "2048x" in text_of(pilot, "#status"))
        await pilot.press("m", "escape")
        assert "2048x" not in text_of(pilot, "#status"), "it stood under other pages"
        assert pilot.app.state.request == PlanRequest()
        await open_form(pilot)
        await pilot.press("backspace", "enter")
        assert (await session_of(pilot)).plan.search is not None


def test_a_run_of_the_app_has_the_starts_of_the_command_or_those_of_its_field():
    asked = entries(PlanRequest(("quick",), starts=3))["matmul"].request
    assert build_plan(asked).starts == 3
    assert request_from({**texts_of(asked), "starts": "2"}, asked).starts == 2
    assert request_from(texts_of(asked), asked).starts == 3


@pytest.mark.parametrize("size", [(40, 12), (60, 16)], ids="{0[0]}x{0[1]}".format)
async def test_down_visits_every_field_with_its_hint_and_the_keys_in_sight(size, monkeypatch):
    # As on a busy machine, where Textual calls before it has laid out what the focus changed.
    monkeypatch.setattr(WorkloadForm, "call_after_refresh", lambda self, call: call())
    async with opened(size=size) as pilot:
        form = await open_form(pilot)
        for name, label in (("sizes", "sizes"), ("dtype", "dtype"), ("threads", "CPU threads"), ("repeat", "repeats"),
                            ("starts", "starts"), ("rounds", "rounds"), ("max_seconds", "time limit"),
                            ("scale", "scale")):  # fmt: skip
            while form.focused.id == "devices":
                await pilot.press("down")
            assert form.focused.id == name

            def is_in_sight(name=name, label=label):
                hint = text_of(pilot, f"#{name}-hint").splitlines()
                return all(part in said(pilot) for part in (label, *hint, "enter run", "esc close"))

            await settled(pilot, is_in_sight)
            await pilot.press("down")
        assert form.focused.id == "sizes"
