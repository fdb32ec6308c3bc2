"""The key registry finds a method in each app, and controllers stand alone."""

import importlib
import inspect
import pkgutil
from typing import Protocol

import pytest

from cpugpu_tui.config.hosts import hosts_of
from cpugpu_tui.demo.recording import Recording, shipped
from cpugpu_tui.session.fleet_running import Fleet, FleetPlan
from cpugpu_tui.session.fleet_state import FleetState
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.ui import controllers
from cpugpu_tui.ui.app import CpuGpuApp
from cpugpu_tui.ui.app_state import AppOptions, FleetOptions
from cpugpu_tui.ui.fleet import KEYS, FleetApp
from cpugpu_tui.ui.keys import COMMAND_BY_ID, COMMANDS

HOSTS = hosts_of(["gpu1"])


def apps():
    plan = FleetPlan(HOSTS, build_plan(PlanRequest(("matmul",), sizes="64")))
    fleet = FleetApp(Fleet(plan), FleetState.of(HOSTS), lambda _host, _told: None, FleetOptions())
    demo = CpuGpuApp(AppOptions(demo=Recording(shipped().runs[:1])))
    live = CpuGpuApp(AppOptions())
    return [(live, COMMANDS), (demo, COMMANDS), (fleet, [COMMAND_BY_ID[name] for name in KEYS])]


@pytest.mark.parametrize("place", [0, 1, 2], ids=["app", "demo", "fleet"])
async def test_every_key_finds_its_method(place):
    app, commands = apps()[place]
    for command in commands:
        controller, _, method = command.does.rpartition(".")
        found = getattr(getattr(app, controller), method) if controller else getattr(app, f"action_{method}")
        assert callable(found), command.id
    for routes in app.routes.values():
        assert all(callable(app.method(does)) for does in routes)


def test_no_controller_inherits_from_anything():
    found = pkgutil.iter_modules(controllers.__path__, f"{controllers.__name__}.")
    modules = [importlib.import_module(each.name) for each in found]
    classes = {each for module in modules for each in vars(module).values() if inspect.isclass(each)}
    own = [each for each in classes if each.__module__.startswith(f"{controllers.__name__}.")]
    assert len(own) > 12
    assert [each.__name__ for each in own if each.__bases__ not in ((object,), (Protocol,))] == []
