"""The machine is read at the edges of half-rounds and cases, never inside a timed block (method.md, step 9)."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests.helpers.runs.recorder import QUICK, Call, Recorder, SpiedMachine, SpiedTimer, plan_of, state_of, swept

from cpugpu_tui import model
from cpugpu_tui.analysis.costs import energy
from cpugpu_tui.machine.device_state import EDGE_KEYS, Edge
from cpugpu_tui.simulation.laws import Sensors
from cpugpu_tui.timing.channel import Control
from cpugpu_tui.timing.device_readings import passage
from cpugpu_tui.timing.scheduler import Scheduler

PLANTED = replace(
    QUICK, sm_clock_mhz=1980.0, temperature_c=41.0, gpu_busy_w=620.0, gpu_idle_w=120.0, throttle_share=0.3,
    counted_before_ns=15_814e9, noise=0.0,
)  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """A call of the driver."""

    device: str
    what: str


class SpiedSensors(Sensors):
    """Records driver calls in the same list as timer calls."""

    def __init__(self, sensors, device, recorder):
        self.__dict__ = sensors.__dict__
        self._device, self._log = device, recorder.log

    def _note(self, what):
        self._log.append(Asked(self._device, what))  # type: ignore[arg-type]

    def edge(self):
        self._note("edge")
        return super().edge()

    def state(self):
        self._note("state")
        return super().state()

    def energy_mj(self):
        self._note("energy")
        return super().energy_mj()


def watched(plan):
    """Run a plan on a machine that records calls of driver and timers."""
    recorder = Recorder()
    machine = SpiedMachine(plan, recorder)
    spies = {name: SpiedSensors(machine.watcher(name), name, recorder) for name in ("cpu", "cuda:0")}
    machine.watcher = spies.__getitem__  # type: ignore[method-assign,assignment]
    Scheduler(plan, machine, recorder, Control()).run()
    return recorder


# ------------------------------------------------------------------ when


def test_between_the_two_edges_of_a_half_round_the_driver_is_left_alone():
    log: list[Any] = watched(plan_of(64, metrics=(model.LATENCY, model.DEVICE), simulation=PLANTED)).log
    at = [index for index, entry in enumerate(log) if entry == Asked("cuda:0", "edge")]
    for begin, end in zip(at[::2], at[1::2], strict=True):
        between = log[begin + 1 : end]
        assert {entry.what for entry in between} == {"block", "device"}
        assert all(isinstance(entry, Call) for entry in between)
        assert any(isinstance(entry, model.DeviceSampled) for entry in log[end : end + 3])
    assert len(at) == 2 * len(
        [e for e in log if isinstance(e, model.DeviceSampled) and e.device != "cpu" and e.round_index]
    )


def test_what_is_costly_is_read_before_a_cases_first_call_and_after_its_last():
    log: list[Any] = watched(plan_of(64, 128, simulation=PLANTED)).log
    calls = [i for i, e in enumerate(log) if isinstance(e, Call) and (e.device, e.size) == ("cuda:0", 64)]
    assert log[calls[0] : calls[-1]].count(Asked("cuda:0", "state")) == 1  # of the other case, as it began
    reads = [e for e in log if isinstance(e, model.MachineRead) and "/64/" in e.case]
    assert [(read.device, read.edge) for read in reads] == [("cuda:0", "begin"), ("cuda:0", "end")]
    assert log.index(reads[0]) < calls[0]
    assert calls[-1] < log.index(reads[1]) < next(i for i, e in enumerate(log) if isinstance(e, model.CaseFinished))


def test_with_several_gpus_each_is_read_at_both_sides():
    plan = plan_of(64, devices=("cpu", "cuda:0", "cuda:1"), simulation=replace(PLANTED, gpus=2))
    reads = swept(plan)[1].of(model.MachineRead)
    assert sorted((read.device, read.edge) for read in reads) == [
        ("cuda:0", "begin"), ("cuda:0", "end"), ("cuda:1", "begin"), ("cuda:1", "end"),
    ]  # fmt: skip


def test_every_edge_has_every_value_or_its_reason():
    for simulation in (QUICK, PLANTED):
        for read in swept(plan_of(64, simulation=simulation))[1].of(model.MachineRead):
            assert tuple(read.readings) == EDGE_KEYS
            assert all((reading.value is None) == (reading.reason is not None) for reading in read.readings.values())
    assert read.readings["temperature_c"] == model.Reading(41.0)


# ------------------------------------------------------------------ what


def test_the_planted_share_of_throttled_time_is_found_and_what_was_counted_before_is_not():
    plan = plan_of(64, rounds=40, max_rounds=40, simulation=PLANTED)
    recorder = swept(plan)[1]
    halves = [event for event in recorder.rounds if event.device == "cuda:0"]
    for half in halves:
        share = half.throttled_ns["thermal"] / half.watched_ns
        assert share == (pytest.approx(1.0) if "throttled" in half.marks else 0.0)
    assert 0.15 < sum("throttled" in half.marks for half in halves) / len(halves) < 0.45
    times = state_of(plan, recorder).rows[plan.cases[0].key].gpu
    exact = sum(h.watched_ns for h in halves if "throttled" in h.marks) / sum(h.watched_ns for h in halves)
    assert times.throttled_ns["thermal"] / times.watched_ns == pytest.approx(exact)


def test_a_half_round_too_short_for_the_sensor_has_no_power_and_a_long_one_has():
    (short, *_) = [e for e in swept(plan_of(64, simulation=PLANTED))[1].rounds if e.device == "cuda:0"]
    assert short.watched_ns < 100e6
    assert short.power_mw is None
    slow = replace(PLANTED, gpu_ns_per_flop=200.0, throttle_share=0.0)  # 105 ms a call
    (long, *_) = [e for e in swept(plan_of(64, simulation=slow))[1].rounds if e.device == "cuda:0"]
    assert long.watched_ns > 100e6
    assert long.power_mw == 620_000.0


EDGE = Edge(0.0, 1980.0, (), {"power-capped": 5e9, "thermal": 15_814e9})


@pytest.mark.parametrize(
    ("counters", "words", "marks"),
    [
        ({"power-capped": 5e9 + 40e6, "thermal": 15_814e9}, (), ("power-capped",)),
        ({"power-capped": 5e9 + 0.1e6, "thermal": 15_814e9}, (), ()),
        ({"power-capped": 5e9, "thermal": 15_814e9 + 2e6}, ("idle",), ("throttled",)),
        ({"power-capped": 5e9, "thermal": 15_814e9}, ("hw-thermal",), ("throttled",)),
        ({"power-capped": 5e9, "thermal": 15_814e9}, ("idle", "app-clocks"), ()),
    ],
    ids=["capped most of the time", "capped for a moment", "slowed by heat", "by hardware, not counted", "idle"],
)
def test_counters_and_mask_become_marks(counters, words, marks):
    assert passage(EDGE, Edge(100e6, 1980.0, words, counters)).marks == marks


def test_a_step_in_a_window_shorter_than_it_is_of_what_was_before():
    short = Edge(20e6, 1980.0, (), {"power-capped": 5e9 + 100e6})
    assert passage(EDGE, short).marks == ()
    assert passage(EDGE, Edge(20e6, 1980.0, ("power-capped",), {"power-capped": 5e9})).marks == ("power-capped",)


# ------------------------------------------------------------------ calls that are long by themselves

LONG = model.Simulation(
    cpu_overhead_ns=9e9, gpu_ns_per_flop=0.02, kernel_overhead_ns=6e9, first_call_ns=0.0, noise=0.0,
    gpu_busy_w=600.0, gpu_idle_w=100.0, cpu_busy_w=200.0,
)  # fmt: skip


def test_a_call_that_is_timed_once_has_its_energy_without_being_asked():
    recorder = swept(plan_of(64, simulation=LONG))[1]
    found = {event.device: energy(event) for event in recorder.of(model.EnergyMeasured)}
    assert found["cuda:0"].joules_per_call.value == pytest.approx(6.0 * 600.0, rel=0.03)
    assert found["cpu"].joules_per_call.value == pytest.approx(9.0 * 200.0, rel=0.03)
    assert found["cuda:0"].plus_minus == pytest.approx(0.1 / 6.0, rel=0.01)


def test_a_long_call_is_made_once_a_round_and_not_again_for_anything_else(monkeypatch):
    """Three rounds of a call of 113 s on an H200 did not end in 18 minutes."""
    asked, honest = [], SpiedTimer.ready
    monkeypatch.setattr(SpiedTimer, "ready", lambda *given: asked.append(given[2]) or honest(*given))
    plan = plan_of(64, simulation=LONG, metrics=(*model.METRICS, model.ENERGY), rounds=3, max_rounds=3,
                   has_exact_rounds=True)  # fmt: skip
    recorder = swept(plan)[1]
    for device in ("cpu", "cuda:0"):
        calls = [entry.what for entry in recorder.log if isinstance(entry, Call) and entry.device == device]
        assert calls == ["first call", *4 * ["block"]], "a first call below 10 s may be cold, and is repeated"
        assert [event.calls for event in recorder.of(model.EnergyMeasured) if event.device == device] == [1]
    assert set(asked) == {0}, "no calls to settle the clock"
    assert not recorder.of(model.KernelsProfiled)


def test_the_energy_of_a_short_call_is_not_guessed_from_its_edges():
    assert not swept(plan_of(64, simulation=replace(LONG, kernel_overhead_ns=1e6, cpu_overhead_ns=1e6)))[1].of(
        model.EnergyMeasured, model.KernelsProfiled
    )
