"""A GPU's clock settles before each half-round, or the half-round is marked."""

import pytest

from cpugpu_tui.timing.timers import Readiness, overheads
from cpugpu_tui.timing.timers.overheads import WAIT_S, SettledClock


class FakeProbe:
    """A GPU whose clock reads these values in turn, then repeats the last."""

    def __init__(self, *mhz, throttle=(), processes=1):
        self.mhz = list(mhz)
        self.read = 0
        self.words = throttle
        self.company = processes

    def sm_clock_mhz(self):
        self.read += 1
        return self.mhz.pop(0) if len(self.mhz) > 1 else self.mhz[0]

    def throttle(self):
        return self.words

    def processes(self):
        return self.company


def settle(probe, monkeypatch):
    spent = [0.0]
    monkeypatch.setattr(overheads.time, "monotonic", lambda: 50.0 + spent[0])

    def work():
        spent[0] += 0.004

    return SettledClock(probe).settle(work), spent[0]


def test_a_clock_that_stands_still_costs_three_readings(monkeypatch):
    probe = FakeProbe(1980.0)
    readiness, spent_s = settle(probe, monkeypatch)
    assert readiness == Readiness(1980.0, ())
    assert probe.read == 3
    assert spent_s < 0.1


def test_once_settled_a_half_round_costs_one_reading(monkeypatch):
    probe = FakeProbe(1980.0)
    clock = SettledClock(probe)
    monkeypatch.setattr(overheads.time, "monotonic", iter(k / 100 for k in range(1000)).__next__)
    clock.settle(lambda: None)
    before = probe.read
    assert clock.settle(lambda: None) == Readiness(1980.0, ())
    assert probe.read == before + 1


def test_after_a_power_capped_neighbour_it_waits_until_the_clock_is_back(monkeypatch):
    readiness, spent_s = settle(FakeProbe(1575.0, 1620.0, 1750.0, 1900.0, 1980.0), monkeypatch)
    assert readiness == Readiness(1980.0, ())
    assert 0.08 < spent_s < WAIT_S


def test_a_clock_that_never_settles_is_marked_and_the_run_goes_on(monkeypatch):
    readiness, spent_s = settle(FakeProbe(*[1500.0, 1980.0] * 500), monkeypatch)
    assert readiness.marks == ("clock-unsettled",)
    assert WAIT_S <= spent_s < WAIT_S + 0.1


@pytest.mark.parametrize(
    ("words", "processes", "marks"),
    [
        (("power-capped",), 1, ("power-capped",)),
        (("thermal", "hw-thermal"), 1, ("throttled",)),
        (("idle", "app-clocks"), 1, ()),
        ((), 2, ("shared-gpu",)),
    ],
)
def test_what_the_driver_says_becomes_marks(monkeypatch, words, processes, marks):
    assert settle(FakeProbe(1980.0, throttle=words, processes=processes), monkeypatch)[0].marks == marks
