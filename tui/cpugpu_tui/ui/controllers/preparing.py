"""The part of the app that answers what a person asks of the workloads: which one, with which parameters, where."""

from __future__ import annotations

from dataclasses import replace

from textual import on

from cpugpu_tui.model import DevicesFound, Event
from cpugpu_tui.session.planning import PlanRequest
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.controllers.leaving import Leaving
from cpugpu_tui.ui.glyphs import UNICODE, Glyphs
from cpugpu_tui.ui.live.messages import (
    AgentReported,
    DevicesReported,
    EarlierKnown,
    InterpreterFound,
    RunAdvanced,
    SeriesEnded,
    TelemetryArrived,
)
from cpugpu_tui.ui.panes.workload import WorkloadPane
from cpugpu_tui.ui.screens.main import MainScreen

OLDEST_DRIVER = {11: 450, 12: 525, 13: 580}
"""Driver that a major version of CUDA needs at least (NVIDIA's table of minor version compatibility)."""


class Preparing(Leaving):
    """Knows what `r` would run, and what can be said of it before."""

    _glyphs: Glyphs = UNICODE
    _surveyed = False
    """Whether an agent was asked for all devices; once is enough, they do not change while the app is open."""
    _searched = _is_awaited = False
    """Whether other interpreters were asked, and whether a key wants to hear what came of it."""

    @on(WorkloadPane.Highlighted)
    def _choose(self, message: WorkloadPane.Highlighted) -> None:
        if message.request != self.state.request:
            self.change(request=message.request, again=None)

    @on(WorkloadPane.Opened)
    def _open_form(self, message: WorkloadPane.Opened) -> None:
        from cpugpu_tui.ui.screens.workload_form import WorkloadForm

        def close(request: PlanRequest | None) -> None:
            if request is not None and isinstance(self.screen, MainScreen):
                self.screen.query_one(WorkloadPane).change(request)

        self._survey()
        self.push_screen(WorkloadForm(message.entry, self.state, self._glyphs), close)

    def _survey(self) -> None:
        """Ask for all devices, where no run is disturbed by it: importing torch takes a core for a second."""
        if self._surveyed or not self.state.situation.may_start:
            return
        self._surveyed = True
        self.state = replace(self.state, surveying=True)
        self.run_worker(self.bridge.survey, thread=True, exit_on_error=False, group="survey")

    # ---------------------------------------------------------------- interpreters

    @on(AgentReported)
    @on(TelemetryArrived)
    @on(DevicesReported)
    @on(SeriesEnded)
    def _consider_python(self) -> None:
        """Look once for an interpreter that can do more, where the one in use lacks torch or cannot use the GPU."""
        self.call_later(self._search_if_lacking)  # other handlers of the message show what it says first

    def _search_if_lacking(self) -> None:
        if not self._searched and self.state.situation.may_start and lacks_torch(self.state):
            self._search()

    def _search(self) -> None:
        self._searched = True
        self.run_worker(self.bridge.search_python, thread=True, exit_on_error=False, group="search")

    @on(InterpreterFound)
    def _offer(self, message: InterpreterFound) -> None:
        self._searched = message.is_complete
        self.change(better_python=message.found)
        if message.found is None and self._is_awaited:
            self.say("No other interpreter was found whose torch can do more.")
        self._is_awaited = False

    def action_use_python(self) -> None:
        """Use the interpreter that was found; search for one if none is known."""
        found = self.state.better_python
        if self.state.simulated or self.state.worker == "thread":
            self.say("Python: torch of another interpreter is used neither by a simulation nor by --worker thread.")
        elif found is None:
            self._is_awaited = True
            self.say("Looking for an interpreter whose torch can use the GPU.")
            self._search()
        else:
            self._surveyed = False  # what it tells of the devices may be more
            self.change(
                better_python=None, problem=None, environment={}, agent_ready=False, devices=(), devices_remark=""
            )  # fmt: skip
            self.say(f"Using {found.path}.")
            self.run_worker(
                lambda: self.bridge.use_python(found.path), thread=True, exit_on_error=False, group="search"
            )  # fmt: skip

    # ---------------------------------------------------------------- devices

    @on(DevicesReported)
    def _meet_devices(self, message: DevicesReported) -> None:
        self._surveyed = bool(message.devices or message.remark)  # a survey that a run broke off told nothing
        found = message.devices or self.state.devices
        self.change(devices=found, devices_remark=message.remark, surveying=False)

    @on(RunAdvanced)
    def _meet_run_devices(self, message: RunAdvanced) -> None:
        if self.state.devices:
            return
        found = _told(message.events)
        if found is not None:
            # Not `change`: the run's own handler shows all that these events say, in one paint.
            self.state = replace(self.state, devices=found.devices, devices_remark=found.no_gpu or "")

    @on(EarlierKnown)
    def _learn(self, message: EarlierKnown) -> None:
        self.change(earlier=message.earlier)


def lacks_torch(state: AppState) -> bool:
    """Whether the interpreter in use has no torch, or one that cannot use the GPU of this machine."""
    if state.simulated or state.worker == "thread":
        return False
    facts, telemetry = state.environment, state.own.telemetry.latest
    if not facts.get("torch"):
        return bool(facts) or state.problem is not None
    cuda, driver = first_number(facts.get("torch_cuda")), first_number(facts.get("driver"))
    too_new = cuda is not None and driver is not None and driver < OLDEST_DRIVER.get(cuda, 0)
    has_gpu = telemetry is not None and bool(telemetry.gpus)
    return has_gpu and (cuda is None or too_new or bool(state.devices_remark))


def first_number(version: object) -> int | None:
    """Return 580 for `580.95.05`; None where there is no version."""
    number = str(version or "").partition(".")[0]
    return int(number) if number.isdecimal() else None


def _told(events: tuple[Event, ...]) -> DevicesFound | None:
    """Return what a run's agent told of its devices, if it just did."""
    return next((event for event in events if isinstance(event, DevicesFound)), None)
