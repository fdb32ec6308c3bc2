"""The check of a GPU's event clock: each wrong clock is caught, a sound one passes, and no wait is endless."""

from dataclasses import replace

import pytest

from cpugpu_tui.analysis.ceilings import clock_text, fault_text
from cpugpu_tui.model import Device
from cpugpu_tui.simulation import simulated_events
from cpugpu_tui.simulation.simulated_events import SimulatedEvents
from cpugpu_tui.timing.timers import event_clock
from cpugpu_tui.timing.timers.event_clock import EventClocks, Readings, check, judge

GPU = Device("cuda:0", "H200", "GPU-1")
SOUND = Readings(
    pairs={count: (1_250.0 + 21_000.0 * count,) for count in (0, 1, 2, 4, 8, 16, 32)},
    chain_ns=tuple(3_000.0 * at + 32.0 * (at % 3) for at in range(1, 65)),
    block_ns=100.00e6, wall_least_ns=99.9e6, wall_most_ns=100.1e6,
)  # fmt: skip


def test_a_sound_clock_passes_in_a_fifth_of_a_second_and_states_its_floor(words):
    found = check(SimulatedEvents())
    assert found.is_sound
    assert found.elapsed_ns <= 0.2e9
    assert found.floor_ns == simulated_events.EVENT_NS
    words(clock_text(found))


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [("slow5", "wall"), ("late", "late"), ("back", "back"), ("coarse", "coarse"), ("bend", "bend"), ("zero", "zero"),
     ("hang", "hang")],
)  # fmt: skip
def test_a_wrong_clock_is_not_used_and_the_reason_is_named(wrong, fault, words):
    found = check(SimulatedEvents(wrong))
    assert found.fault == fault
    words(fault_text(found))


def test_a_clock_that_does_not_answer_is_given_up_at_the_limit():
    found = check(SimulatedEvents("hang"), limit_ns=300e6)
    assert (found.fault, found.limit_ns) == ("hang", 300e6)
    assert found.elapsed_ns < 310e6


@pytest.mark.parametrize("shift_ns", [-0.02e6, 0.02e6])
def test_a_busy_host_does_not_refuse_a_sound_clock(shift_ns):
    """A host that looks late knows less about the block, so the bounds are wider."""
    readings = replace(SOUND, block_ns=100e6 + shift_ns, wall_least_ns=60e6, wall_most_ns=140e6)
    assert judge(readings).is_sound


@pytest.mark.parametrize("factor", [0.2, 0.97, 1.03, 5.0])
def test_a_clock_that_runs_at_another_rate_is_refused(factor):
    readings = replace(SOUND, block_ns=factor * SOUND.block_ns)
    assert judge(readings).fault == "wall"


def test_a_disturbed_reading_among_others_does_not_count():
    """Other programs on the GPU make single readings longer."""
    pairs = {count: (*taken, 9e6) for count, taken in SOUND.pairs.items()}
    assert judge(replace(SOUND, pairs=pairs)).is_sound


def test_a_short_hold_is_doubled_so_that_launches_are_not_in_the_readings(monkeypatch):
    monkeypatch.setattr(simulated_events, "RECORD_NS", 90_000.0)
    assert event_clock.QUEUE_NS < 90_000.0
    assert check(SimulatedEvents()).is_sound


def test_a_fault_that_a_second_try_does_not_show_is_not_one(monkeypatch):
    tries = iter([judge(replace(SOUND, block_ns=5 * SOUND.block_ns)), judge(SOUND)])
    monkeypatch.setattr(event_clock, "judge", lambda _readings: next(tries))
    assert check(SimulatedEvents()).is_sound


# ------------------------------------------------------------------ remembered


def clocks_of(known, *, torch="2.9", driver="580", wrong=""):
    return EventClocks(known, lambda _device: SimulatedEvents(wrong), torch=torch, driver=driver)


def test_a_sound_outcome_is_remembered_for_gpu_driver_torch_and_boot(monkeypatch):
    monkeypatch.setattr(event_clock, "boot_id", lambda: "this boot")
    first = clocks_of(()).of(GPU)
    known = (first,)
    assert clocks_of(known, wrong="zero").of(GPU) == first, "not checked again"
    again = [
        clocks_of(known, torch="2.10", wrong="zero").of(GPU),
        clocks_of(known, driver="590", wrong="zero").of(GPU),
        clocks_of(known, wrong="zero").of(replace(GPU, uuid="GPU-2")),
    ]
    monkeypatch.setattr(event_clock, "boot_id", lambda: "another boot")
    again.append(clocks_of(known, wrong="zero").of(GPU))
    assert [found.fault for found in again] == ["zero"] * 4


def test_a_refused_clock_is_checked_again_in_the_next_run():
    refused = clocks_of((), wrong="late").of(GPU)
    assert not refused.is_sound
    assert clocks_of((refused,)).of(GPU).is_sound
