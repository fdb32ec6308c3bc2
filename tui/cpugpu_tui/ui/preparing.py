"""The part of the app that answers what a person asks of the workloads: which one, with which parameters, where."""

from __future__ import annotations

from dataclasses import replace

from textual import on

from cpugpu_tui.model import DevicesFound, Event
from cpugpu_tui.runs.planning import PlanRequest
from cpugpu_tui.ui.glyphs import UNICODE, Glyphs
from cpugpu_tui.ui.leaving import Leaving
from cpugpu_tui.ui.messages import DevicesReported, EarlierKnown, RunAdvanced
from cpugpu_tui.ui.panes.workload import WorkloadPane
from cpugpu_tui.ui.screens.main import MainScreen


class Preparing(Leaving):
    """Knows what `r` would run, and what can be said of it before."""

    _glyphs: Glyphs = UNICODE
    _surveyed = False
    """Whether an agent was asked for all devices; once is enough, they do not change while the app is open."""

    @on(WorkloadPane.Highlighted)
    def _choose(self, message: WorkloadPane.Highlighted) -> None:
        if message.request != self.picture.request:
            self.change(request=message.request, again=None)

    @on(WorkloadPane.Opened)
    def _open_form(self, message: WorkloadPane.Opened) -> None:
        from cpugpu_tui.ui.screens.workload_form import WorkloadForm

        def close(request: PlanRequest | None) -> None:
            if request is not None and isinstance(self.screen, MainScreen):
                self.screen.query_one(WorkloadPane).change(request)

        self._survey()
        self.push_screen(WorkloadForm(message.entry, self.picture, self._glyphs), close)

    def _survey(self) -> None:
        """Ask for all devices, where no run is disturbed by it: importing torch takes a core for a second."""
        if self._surveyed or not self.picture.situation.may_start:
            return
        self._surveyed = True
        self.picture = replace(self.picture, surveying=True)
        self.run_worker(self.bridge.survey, thread=True, exit_on_error=False, group="survey")

    @on(DevicesReported)
    def _meet_devices(self, message: DevicesReported) -> None:
        self._surveyed = bool(message.devices or message.remark)  # a survey that a run broke off told nothing
        found = message.devices or self.picture.devices
        self.change(devices=found, devices_remark=message.remark, surveying=False)

    @on(RunAdvanced)
    def _meet_run_devices(self, message: RunAdvanced) -> None:
        if self.picture.devices:
            return
        found = _told(message.events)
        if found is not None:
            # Not `change`: the run's own handler shows all that these events say, in one paint.
            self.picture = replace(self.picture, devices=found.devices, devices_remark=found.no_gpu or "")

    @on(EarlierKnown)
    def _learn(self, message: EarlierKnown) -> None:
        self.change(earlier=message.earlier)


def _told(events: tuple[Event, ...]) -> DevicesFound | None:
    """Return what a run's agent told of its devices, if it just did."""
    return next((event for event in events if isinstance(event, DevicesFound)), None)
