"""During a run, no call that costs the driver milliseconds is made, as the log of the library's calls shows."""

import threading
from contextlib import nullcontext

import pytest
from tests.helpers.command_line import PATIENCE_S

from cpugpu_tui.cli.running import one_run as cli_run
from cpugpu_tui.cli.running.modes import run_headless
from cpugpu_tui.cli.running.options import RunOptions
from cpugpu_tui.machine.nvml import session
from cpugpu_tui.model import RunFinished, RunStarted, Simulation, TelemetryRead
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.session.session import Session
from cpugpu_tui.telemetry import sampler
from cpugpu_tui.telemetry.sampler import Sampler
from cpugpu_tui.ui.app_state import AppOptions
from cpugpu_tui.ui.live.backend import Backend

DEAR = {"field:83", "field:270", "field:271", "nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetMaxClockInfo"}
EACH_SWEEP = "field:186"
# More sizes than five sweeps take, on a loaded machine too: the run is killed once they have been read.
REQUEST = PlanRequest(names=("matmul",), sizes="64:1024:4", simulation=Simulation(pace=1.0))


class Listener:
    """Follows a run: what was asked of the driver before it, and by three sweeps within it.

    Sweeps are counted where they arrive: on a loaded machine one answer comes with several events, or many at once.
    """

    def __init__(self, library):
        self._library = library
        self._is_live = self._is_counting = False
        self.before: set[str] = set()
        self.asked: set[str] = set()
        self.readings: list[TelemetryRead] = []
        self.watched = threading.Event()

    def deliver(self, event):
        if isinstance(event, RunStarted):
            self.before = set(self._library.calls())
            self._is_live = True
            self._library.forget_calls()
        elif isinstance(event, TelemetryRead) and event.gpus and self._is_live:
            self.readings.append(event)
            calls = self._library.calls()
            if not self._is_counting and calls.count(EACH_SWEEP) >= 2:  # the first may have begun before the run
                self._is_counting = True
                self._library.forget_calls()
            elif self._is_counting and calls.count(EACH_SWEEP) >= 3:
                self.asked = set(calls)
                self.watched.set()


@pytest.fixture(autouse=True)
def busy_sampler(fake_nvml, monkeypatch):
    """Make the slow tier due at every sweep, ten times a second, and use the real sampler for a simulated run."""

    def real(interval_s, emit, _gpus):
        return Sampler(interval_s, emit)

    fake_nvml.use()
    monkeypatch.setattr(sampler, "SimulatedSampler", real)
    monkeypatch.setattr(session, "SLOW_S", 0.0)
    monkeypatch.setattr(sampler, "TELEMETRY_S", 0.1)


def test_the_app_asks_for_nothing_dear_while_a_run_is_live_and_again_after_it(fake_nvml):
    backend = Backend(AppOptions(request=REQUEST, save=False))
    listener = Listener(fake_nvml)
    ready, dear_again = threading.Event(), threading.Event()
    running: list[Session] = []

    def telemetry(read):
        if running:
            running[0].add_telemetry(read)
        elif listener.watched.is_set() and set(fake_nvml.calls()) & DEAR:
            dear_again.set()

    def agent(_hello):
        ready.set()

    def deliver(event):
        listener.deliver(event)
        if listener.watched.is_set() and not isinstance(event, RunFinished):
            running[0].kill()

    backend.open(agent, telemetry, lambda _: None)
    try:
        assert ready.wait(PATIENCE_S)
        session = backend.session(build_plan(REQUEST), None, None)
        running.append(session)
        session.run(deliver)
        running.clear()
        assert EACH_SWEEP in listener.asked, "sweeps went on"
        assert not listener.asked & DEAR
        assert dear_again.wait(PATIENCE_S), "the pane's dear values come back after the run"
    finally:
        backend.close()


def test_a_headless_run_holds_readings_that_cost_its_times_nothing(fake_nvml, monkeypatch):
    listener = Listener(fake_nvml)
    sessions: list[Session] = []
    start = Session.run

    def noted(session, deliver):
        sessions.append(session)
        return start(session, deliver)  # type: ignore[arg-type]

    def printed(event):
        listener.deliver(event)
        if listener.watched.is_set() and not isinstance(event, RunFinished):
            sessions[0].kill()

    monkeypatch.setattr(Session, "run", noted)
    monkeypatch.setattr(cli_run, "print_event", printed)
    monkeypatch.setattr(cli_run, "print_answer", lambda _state: None)
    # A stopped run leaves ctrl+c ignored for the rest of its process, which here is that of the tests.
    monkeypatch.setattr(cli_run, "signals_stop", lambda _session: nullcontext())
    run_headless(REQUEST, RunOptions(save=False), as_json=True)
    assert EACH_SWEEP in listener.asked
    assert not listener.asked & DEAR
    assert "field:83" in listener.before, "the energy counter is read once, before the plan is sent"
    assert listener.readings[-1].gpus[0].readings["energy_mj"].value == 3_102_992
