"""On a real GPU: the event clock passes its check within 0.2 s, and a wrapped clock that multiplies is refused."""

from __future__ import annotations

from typing import Any

import pytest

from cpugpu_tui.agent.main import facts, work
from cpugpu_tui.analysis.ceilings import clock_text, fault_text
from cpugpu_tui.model import Case, ClockChecked, Device, DeviceSampled, Event, Plan
from cpugpu_tui.timing.channel import CallEmitter, Control
from cpugpu_tui.timing.timers import event_clock
from cpugpu_tui.timing.timers.event_clock import CudaEvents, check

pytestmark = [pytest.mark.gpu, pytest.mark.alone]

GPU = Device("cuda:0", "GPU")


class WrongEvent:
    """A CUDA event whose times are a multiple, with so many µs more."""

    factor, more_us = 5.0, 0.0

    def __init__(self):
        self._event = event_clock.timing_event()

    def record(self):
        self._event.record()

    def query(self):
        return bool(self._event.query())

    def elapsed_time(self, end):
        return float(self._event.elapsed_time(end._event)) * self.factor + self.more_us / 1e3


class LateEvent(WrongEvent):
    factor, more_us = 1.0, 120.0


def test_the_event_clock_passes_its_check_within_a_fifth_of_a_second():
    for what in ("the first check of this process", "the second"):
        found = check(CudaEvents(GPU))
        print(
            f"{what}: the event clock {clock_text(found)}. Pair {found.pair_ns:.0f} ns, step {found.step_ns:.1f} ns, "
            f"{100 * (found.bend or 0):.1f} % off a line, block {found.block_ns:,.0f} ns within "
            f"{found.wall_least_ns:,.0f} to {found.wall_most_ns:,.0f}, check {found.elapsed_ns / 1e6:.0f} ms."
        )
        assert found.is_sound, fault_text(found)
        assert found.elapsed_ns <= 0.2e9
    assert found.floor_ns < 10e3


@pytest.mark.parametrize(("wrong", "fault"), [(WrongEvent, "wall"), (LateEvent, "late")])
def test_a_wrapped_clock_is_refused(wrong, fault):
    events: Any = CudaEvents(GPU)
    events.event = wrong
    found = check(events)
    print(f"{wrong.__name__}: {fault_text(found)} (after {found.elapsed_ns / 1e6:.0f} ms)")
    assert found.fault == fault


@pytest.mark.parametrize("is_wrong", [False, True])
def test_a_run_has_kernel_times_only_by_a_sound_clock(is_wrong, monkeypatch):
    if is_wrong:
        monkeypatch.setattr(CudaEvents, "event", lambda _self: WrongEvent())
    events: list[Event] = []
    plan = Plan("clock", (Case("matmul", 256),), devices=("cuda:0",), max_rounds=8, metrics=("latency", "device"))
    assert work(plan, facts(simulated=False), CallEmitter(events.append), Control())
    (checked,) = [event.clock for event in events if isinstance(event, ClockChecked)]
    assert checked.is_sound is not is_wrong
    timed = [event for event in events if isinstance(event, DeviceSampled) and event.round_index]
    assert all("latency" in event.samples for event in timed)
    assert all(("device" in event.samples) is not is_wrong for event in timed)
