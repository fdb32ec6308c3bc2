"""The sampler's thread: events arrive whatever the driver does, and nothing races the shutdown."""

import queue
import re
import threading

import pytest
from tests.helpers.command_line import PATIENCE_S

from cpugpu_tui.model import TelemetryRead
from cpugpu_tui.telemetry import sampler as sampler_module
from cpugpu_tui.telemetry.sampler import Sampler


class Watched:
    """A sampler at 100 Hz whose events are collected."""

    def __init__(self, root):
        self.events: queue.SimpleQueue[TelemetryRead] = queue.SimpleQueue()
        self.threads: set[str] = set()
        self.pids: set[int] = set()
        self.sampler = Sampler(0.01, self._emit, lambda: self.pids, root)

    def _emit(self, event):
        self.threads.add(threading.current_thread().name)
        self.events.put(event)

    def first(self, wanted=bool):
        """Return the next event that matches."""
        while not wanted(event := self.events.get(timeout=PATIENCE_S)):
            pass
        return event

    def forget(self):
        """Drop what has been emitted so far."""
        while not self.events.empty():
            self.events.get()


@pytest.fixture
def watched(library, tmp_path):
    library.gpus[0].processes = [(4242, 1)]
    made = Watched(str(tmp_path))
    yield made
    library.release.set()
    made.sampler.stop()


def test_events_hold_gpus_and_host_and_both_clocks(watched):
    watched.sampler.start()
    first = watched.first(lambda event: event.gpus)
    second = watched.first()
    assert [gpu.readings["sm_clock_mhz"].value for gpu in first.gpus] == [1980, 1980]
    assert "memory_total_bytes" in first.host
    assert first.problem is None
    assert 0 < first.mono_ns < second.mono_ns
    assert 0 < first.wall_ns <= second.wall_ns
    assert watched.threads == {"telemetry"}


def test_agents_are_asked_for_at_every_sweep(watched):
    watched.sampler.start()
    first = watched.first(lambda event: event.gpus)
    assert [process.own for process in first.gpus[0].processes or ()] == [False]
    watched.pids = {4242}
    watched.first(lambda event: [process.own for process in event.gpus[0].processes or ()] == [True])


def test_an_agent_that_ended_is_not_a_stranger_while_the_list_of_processes_is_old(watched):
    watched.pids = {4242}
    watched.sampler.start()
    watched.first(lambda event: event.gpus)
    watched.pids = set()
    watched.forget()
    later = [watched.first() for _ in range(3)][-1]
    assert [process.own for process in later.gpus[0].processes or ()] == [True]


def test_a_driver_that_hangs_is_named_while_everything_else_goes_on(watched, library, monkeypatch, words):
    monkeypatch.setattr(sampler_module, "HANG_S", 0.05)
    watched.sampler.start()
    watched.first(lambda event: event.gpus)
    library.hang_on = "nvmlDeviceGetClockInfo"
    assert library.hanging.wait(PATIENCE_S)
    watched.forget()
    hung = watched.first(lambda event: event.is_silent)
    words(re.sub(r" \(.*\)| \d+ s", "", hung.problem))
    assert hung.gpus[0].readings["sm_clock_mhz"].value == 1980, "the last values stay, with their age"
    later = watched.first()
    age_s = [event.gpus[0].readings["sm_clock_mhz"].age_s for event in (hung, later)]
    assert 0.05 <= age_s[0] < age_s[1]
    library.hang_on = ""
    library.release.set()
    awake = watched.first(lambda event: event.problem is None)
    assert awake.gpus
    assert not awake.is_silent


def test_a_driver_that_hangs_at_the_start_leaves_the_host(watched, library, monkeypatch):
    library.hang_on = "nvmlInitWithFlags"
    watched.sampler.start()
    first = watched.first()
    assert (first.gpus, first.problem) == ((), None)
    monkeypatch.setattr(sampler_module, "HANG_S", 0.05)
    hung = watched.first(lambda event: event.problem)
    assert hung.gpus == ()
    assert hung.host


def test_stop_ends_both_threads_and_then_the_session(watched, library):
    watched.sampler.start()
    watched.first(lambda event: event.gpus)
    watched.sampler.stop()
    assert not {thread.name for thread in threading.enumerate()} & {"telemetry", "telemetry-nvml"}
    assert library.calls[-1] == ("nvmlShutdown", "telemetry-nvml")
    assert {thread for _, thread in library.calls} == {"telemetry-nvml"}, "one thread calls NVML, shutdown included"
    assert library.open_sessions == 0
    watched.forget()
    watched.sampler.stop()
    assert watched.events.empty(), "nothing is emitted after stop"


def test_stop_leaves_a_hanging_call_alone(watched, library, monkeypatch):
    monkeypatch.setattr(sampler_module, "STOP_S", 0.05)
    library.hang_on = "nvmlDeviceGetClockInfo"
    watched.sampler.start()
    assert library.hanging.wait(PATIENCE_S)
    watched.sampler.stop()
    assert "nvmlShutdown" not in library.names(), "a shutdown beside a call crashes the process"
    (stuck,) = [thread for thread in threading.enumerate() if thread.name == "telemetry-nvml"]
    assert stuck.daemon, "it must not keep the process alive"
    library.release.set()
    stuck.join(PATIENCE_S)
    assert (library.calls[-1][0], library.most_calls_at_once) == ("nvmlShutdown", 1)
