"""Demo and fleet have controllers of their own, and the key registry finds a method in each app."""

import importlib
import inspect
import pkgutil
import threading
from typing import Any, Protocol

import pytest
from tests.helpers.app.fake_port import FakeBridge, FakeGate, FakePort
from tests.helpers.golden import GoldenWords

from cpugpu_tui.config.hosts import hosts_of
from cpugpu_tui.demo.recording import Recording, shipped
from cpugpu_tui.model import RunFinished
from cpugpu_tui.session.fleet_running import Deliver, Fleet, FleetPlan
from cpugpu_tui.session.fleet_state import DONE, FleetState, HostChanged
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.ui import controllers
from cpugpu_tui.ui.app import CpuGpuApp
from cpugpu_tui.ui.app_state import AppOptions, FleetOptions
from cpugpu_tui.ui.controllers.comparing import Repeating
from cpugpu_tui.ui.controllers.demo import DemoRunning
from cpugpu_tui.ui.controllers.history import History
from cpugpu_tui.ui.controllers.live import Live
from cpugpu_tui.ui.controllers.own_code import Consent
from cpugpu_tui.ui.controllers.paging import Timings
from cpugpu_tui.ui.controllers.running import Running
from cpugpu_tui.ui.fleet import KEYS, FleetApp, FleetRunning
from cpugpu_tui.ui.keys import COMMAND_BY_ID, COMMANDS, Situation
from cpugpu_tui.ui.live.messages import RunAdvanced, SavedRunChosen, SeriesEnded
from cpugpu_tui.ui.live.saved_runs import QuietReader

PATIENCE_S = 60.0
HOSTS = hosts_of(["gpu1"])


class ShortFleet(Fleet):
    """Is over at once, unless it is to go on."""

    def __init__(self) -> None:
        super().__init__(FleetPlan(HOSTS, build_plan(PlanRequest(("matmul",), sizes="64"))))
        self.may_end = threading.Event()

    def run(self, deliver: Deliver) -> None:
        self.may_end.wait(PATIENCE_S)
        deliver("gpu1", RunFinished(status="done"))
        deliver("gpu1", HostChanged(DONE))


class Demo:
    """The controllers of a demo of one run on a fake port."""

    def __init__(self, **situation: Any) -> None:
        self.recording = Recording(shipped().runs[:1])
        self.port = FakePort(situation=Situation(replay=True, demo=True, **situation))
        self.bridge = FakeBridge()
        reader = QuietReader(self.bridge.between_runs)
        repeating = Repeating(self.port, reader)
        live = Live(self.port, self.bridge, FakeGate(), repeating.compared)
        self.shown: list[Any] = []
        history = History(self.port, self.bridge.history)
        history.show = self.shown.append  # type: ignore[method-assign]
        running = Running(self.port, self.bridge, live, history, repeating, Consent(self.port))
        self.demo = DemoRunning(self.port, self.bridge, live, history, Timings(self.port), running, self.recording)


def test_a_demo_plays_its_runs_and_skips_one() -> None:
    demo = Demo()
    demo.demo.run()
    demo.port.threads[-1][1]()
    assert demo.bridge.names == ["expect_series", "run_series"]
    assert demo.port.state.situation.live
    demo.demo.run()
    assert len(demo.port.threads) == 1, "it plays already"
    demo.demo.stop()
    assert "stop" not in demo.bridge.names, "between two runs there is nothing to skip"
    demo.port.change(run=demo.recording.runs[0].state)
    demo.demo.stop()
    assert demo.bridge.names[-1] == "stop"


def test_a_demo_measures_nothing() -> None:
    demo = Demo()
    demo.demo.measure()
    assert len(demo.port.said) == 1
    assert demo.port.threads == []


def test_a_saved_run_ends_the_demo_before_it_is_shown() -> None:
    demo = Demo(live=True)
    run: Any = object()
    demo.demo.choose_saved(SavedRunChosen(run, again=False))
    assert (demo.bridge.names, demo.shown) == (["kill"], [])
    demo.demo.show_end(SeriesEnded())
    assert demo.shown == [run]
    demo.port.situate(live=False)
    demo.demo.choose_saved(SavedRunChosen(run, again=False))
    assert demo.shown == [run, run]


def test_each_run_of_a_demo_is_counted(words: GoldenWords) -> None:
    demo = Demo()
    demo.port.screen_stack.clear()
    demo.bridge.repeat_number = 0
    demo.demo.name_run(RunAdvanced(tuple(demo.recording.runs[0].events)))
    assert demo.bridge.repeat_number == 1
    demo.demo.show_end(SeriesEnded())
    assert demo.port.state.notice is not None
    words(demo.port.state.notice)


def test_a_fleet_is_shown_stopped_and_rings_when_it_is_over() -> None:
    fleet, told = ShortFleet(), []
    port = FakePort(situation=Situation(live=True))
    running = FleetRunning(port, fleet, FleetState.of(HOSTS), lambda host, _: told.append(host))
    running.begin()
    running.look()
    assert (port.state.situation.live, port.rung) == (True, 0)
    running.stop()
    assert port.state.situation.stopping
    fleet.may_end.set()
    assert running.wait(PATIENCE_S)
    running.look()
    assert (running.is_over, running.failure, port.rung) == (True, None, 1)
    assert not port.state.situation.live
    assert told == ["gpu1", "gpu1"]


def apps() -> list[Any]:
    fleet = FleetApp(ShortFleet(), FleetState.of(HOSTS), lambda _host, _told: None, FleetOptions())
    demo = CpuGpuApp(AppOptions(demo=Recording(shipped().runs[:1])))
    return [(CpuGpuApp(AppOptions()), COMMANDS), (demo, COMMANDS), (fleet, [COMMAND_BY_ID[name] for name in KEYS])]


@pytest.mark.parametrize("place", [0, 1, 2], ids=["app", "demo", "fleet"])
async def test_every_key_finds_its_method(place: int) -> None:
    app, commands = apps()[place]
    for command in commands:
        controller, _, method = command.does.rpartition(".")
        found = getattr(getattr(app, controller), method) if controller else getattr(app, f"action_{method}")
        assert callable(found), command.id


def test_no_controller_inherits_from_anything() -> None:
    found = pkgutil.iter_modules(controllers.__path__, f"{controllers.__name__}.")
    modules = [importlib.import_module(each.name) for each in found]
    classes = {each for module in modules for each in vars(module).values() if inspect.isclass(each)}
    own = [each for each in classes if each.__module__.startswith(f"{controllers.__name__}.")]
    assert len(own) > 12
    assert [each.__name__ for each in own if each.__bases__ not in ((object,), (Protocol,))] == []
