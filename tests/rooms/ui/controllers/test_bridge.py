"""What the bridge passes from the threads of a run to the app."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.helpers.app.fake_run import FakeBackend
from tests.helpers.runs.scripted import ScriptedAgents, dies_at, well
from textual.message import Message

from cpugpu_tui.model import RunFinished, RunStarted, Simulation, TelemetryRead
from cpugpu_tui.session.planning import PlanRequest, build_plan
from cpugpu_tui.session.session import Session
from cpugpu_tui.ui.live import messages
from cpugpu_tui.ui.live.bridge import Bridge, DisturbingError


class ReadingBackend(FakeBackend):
    """Reads telemetry while a real session waits for an agent, while it runs, between its agents, and after it."""

    def __init__(self):
        super().__init__(telemetry=TelemetryRead(mono_ns=1))
        self._read_count = 1
        self.last: Session | None = None

    def take_reading(self):
        self._read_count += 1
        self.read(TelemetryRead(mono_ns=self._read_count))

    def session(self, plan, series_id, case_timeout_s):
        backend = self

        class Agents(ScriptedAgents):
            def take(self):
                backend.take_reading()
                backend.take_reading()
                return super().take()

        def dies(plan):
            self.take_reading()
            return dies_at(64)(plan)

        def ends(plan):
            self.take_reading()
            return well(plan)

        self.last = Session(plan, Agents(dies, ends), series_id=series_id)  # type: ignore[arg-type]
        return self.last

    def prepare(self):
        self.take_reading()


def test_each_reading_reaches_the_app_once_and_in_order_also_while_a_run_waits_for_its_agent():
    posted: list[Message] = []
    backend = ReadingBackend()
    bridge = Bridge(backend, lambda message: bool(posted.append(message)) or True)
    bridge.open()
    bridge.expect_series()
    bridge.run_series(build_plan(PlanRequest(("matmul",), sizes="64,256", simulation=Simulation())), 2, None)
    backend.take_reading()
    seen: list[Any] = []
    for message in posted:
        if isinstance(message, messages.TelemetryArrived):
            seen.append(message.read)
        elif isinstance(message, messages.RunAdvanced):
            seen += message.events
    times = [event.mono_ns for event in seen if isinstance(event, TelemetryRead)]
    assert times == list(range(1, backend._read_count + 1)), "no sparkline repeats a point or runs back"
    assert len(times) == 16, "one at the start, seven in each run, one after them"
    assert sum(isinstance(event, RunStarted) for event in seen) == 2
    assert sum(isinstance(event, RunFinished) for event in seen) == 2


@pytest.mark.parametrize("asks", ["history", "survey", "search_python"])
def test_no_thread_waits_for_an_app_that_ended_before_it_was_open(asks):
    """Beside eight busy processes, an app that was left at once with its history opening never ended."""
    bridge = Bridge(FakeBackend(), lambda _message: True)
    with ThreadPoolExecutor() as threads:
        waits = threads.submit(getattr(bridge, asks))
        bridge.leave()
        with pytest.raises(DisturbingError):
            waits.result(timeout=60)


def test_no_reading_replaces_another_in_the_apps_queue():
    earlier, later = (messages.TelemetryArrived(TelemetryRead(mono_ns=time)) for time in (1, 2))
    assert not later.can_replace(earlier)
