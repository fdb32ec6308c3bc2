"""Prepares runs: keeps the request of the run key, and asks for devices and interpreters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from cpugpu_tui import model
from cpugpu_tui.session.request import PlanRequest
from cpugpu_tui.ui.app_state import AppState
from cpugpu_tui.ui.live import messages
from cpugpu_tui.ui.panes.workload import WorkloadPane
from cpugpu_tui.ui.screens.main import MainScreen
from cpugpu_tui.ui.shell import Shell

if TYPE_CHECKING:
    from cpugpu_tui.ui.live.bridge import Bridge
    from cpugpu_tui.ui.screens.workload_form import Filled


OLDEST_DRIVER = {11: 450, 12: 525, 13: 580}
"""CUDA major version → oldest driver (NVIDIA's table of minor version compatibility)."""


class Preparing:
    """Keeps the request that `r` runs, and asks for devices and interpreters."""

    def __init__(self, app: Shell[Any], bridge: Callable[[], Bridge], start: Callable[[PlanRequest], object]) -> None:
        """`bridge` returns the bridge, which the list of workloads does not wait for; `start` runs a request."""
        self._app, self._bridge, self._start = app, bridge, start
        self._drafts: dict[str, Mapping[str, str]] = {}
        """Name of an entry → texts of its form that cannot be planned yet."""
        self._surveyed = False
        """Whether an agent was asked for all devices, which do not change while the app is open."""
        self._searched = self._is_awaited = False
        """Whether other interpreters were searched, and whether a key press waits for the result."""

    def highlight(self, message: WorkloadPane.Highlighted) -> None:
        """Make the highlighted workload the one that `r` runs."""
        if message.request != self._app.state.request:
            self._app.change(request=message.request, again=None)

    def settle(self, pane: WorkloadPane) -> None:
        """Take over the highlighted workload: of `j` and `r` typed at once, `r` came first and ran the one before."""
        chosen = pane.entry.request if pane.summaries else self._app.state.request
        if chosen.names != self._app.state.request.names:
            self.highlight(WorkloadPane.Highlighted(chosen))

    def open_form(self, message: WorkloadPane.Opened) -> None:
        """Open the form for a workload's parameters."""
        from cpugpu_tui.ui.screens.workload_form import WorkloadForm

        name = message.entry.name
        self._survey()
        form = WorkloadForm(message.entry, self._app.state, self._app.glyphs, self._drafts.get(name))
        self._app.push_screen(form, lambda filled: self._take(name, filled))

    def _take(self, name: str, filled: Filled | None) -> None:
        """Use or start what was typed; keep what cannot be planned for the next time."""
        if filled is None or not isinstance(self._app.screen, MainScreen):
            return
        if filled.request is None:
            self._drafts[name] = filled.texts
            self._app.call_later(self._app.say, f"Not used yet: {filled.error}")  # the form, when closed, takes others
            return
        self._drafts.pop(name, None)
        self._app.screen.query_one(WorkloadPane).change(filled.request)
        if filled.starts:
            self._start(filled.request)

    def _survey(self) -> None:
        """Ask an agent for all devices, between runs only: importing torch takes a core for a second."""
        if self._surveyed or not self._app.state.situation.may_start:
            return
        self._surveyed = True
        self._app.state = self._app.state._replace(surveying=True)
        self._app.start_thread(self._bridge().survey, "survey")

    # ---------------------------------------------------------------- interpreters

    def consider_python(self, _: object) -> None:
        """Search once for a better interpreter if the current one lacks torch or cannot use the GPU."""
        self._app.call_later(self._search_if_lacking)  # let other handlers of the message update the state first

    def _search_if_lacking(self) -> None:
        state = self._app.state
        if not self._searched and state.situation.may_start and lacks_torch(state):
            self._search()

    def _search(self) -> None:
        self._searched = True
        self._app.start_thread(self._bridge().search_python, "search")

    def offer_python(self, message: messages.InterpreterFound) -> None:
        """Offer the interpreter that was found; after a key press, say if none was."""
        self._searched = message.is_complete
        self._app.change(better_python=message.found)
        if message.found is None and self._is_awaited:
            self._app.say("No better interpreter found.")
        self._is_awaited = False

    def use_python(self) -> None:
        """Switch to the interpreter that was found; search if none is known."""
        state = self._app.state
        found = state.better_python
        if state.simulated:
            self._app.say("Python: not in a simulation; start cpugpu-tui without --simulate.")
        elif state.worker == "thread":
            self._app.say("Python: not with --worker thread; start cpugpu-tui without it.")
        elif found is None:
            self._is_awaited = True
            self._app.say("Searching for an interpreter whose torch can use the GPU.")
            self._search()
        else:
            self._surveyed = False  # it may find more devices
            self._app.change(
                better_python=None, problem=None, environment={}, agent_ready=False, agent_wait="", devices=(),
                devices_remark="",
            )  # fmt: skip
            self._app.say(f"Using {found.path}.")
            self._app.start_thread(lambda: self._bridge().use_python(found.path), "search")

    # ---------------------------------------------------------------- devices

    def meet_devices(self, message: messages.DevicesReported) -> None:
        """Show the devices that an agent reported."""
        self._surveyed = bool(message.devices or message.remark)  # a survey that a run interrupted has neither
        found = message.devices or self._app.state.devices
        self._app.change(devices=found, devices_remark=message.remark, surveying=False)

    def meet_run_devices(self, message: messages.RunAdvanced) -> None:
        """Learn the devices from a run, before its events are shown in one paint."""
        state = self._app.state
        found = next((event for event in message.events if isinstance(event, model.DevicesFound)), None)
        if not state.devices and found is not None:
            self._app.state = state._replace(devices=found.devices, devices_remark=found.no_gpu or "")

    def learn_earlier(self, message: messages.EarlierKnown) -> None:
        """Keep the times of earlier runs for estimates."""
        self._app.change(earlier=message.earlier)


def lacks_torch(state: AppState) -> bool:
    """Whether the current interpreter has no torch, or a torch that cannot use this machine's GPU."""
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
    """Return 580 for `580.95.05`; None without a version."""
    number = str(version or "").partition(".")[0]
    return int(number) if number.isdecimal() else None
