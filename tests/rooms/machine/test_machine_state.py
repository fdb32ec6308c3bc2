"""Meaning of counters, masks and process lists: throttled shares, power, other users."""

import pytest

from cpugpu_tui.machine.device_state import (
    BY_COUNTER,
    BY_MASK,
    UNEXPLAINED_BYTES,
    PowerPoint,
    Throttle,
    company,
    counted,
    power_inside,
    process_text,
    throttles,
    throttles_seen,
)
from cpugpu_tui.model import GpuProcess, Reading
from cpugpu_tui.model.throttling import ALARMING, NORMAL

GIB = 1 << 30
OURS = GpuProcess(4711, GIB, "ada", "agent", own=True)
UNSEEN = GpuProcess(99999, None, None, None, own=False)


def used(size_bytes):
    return Reading(size_bytes, None if size_bytes is not None else "not-supported")


# ------------------------------------------------------------------ throttling (R5)


def test_what_stood_on_a_counter_before_is_no_throttling():
    before, after = {"thermal": 15_814e9, "power-capped": 7.0}, {"thermal": 15_814e9, "power-capped": 7.0}
    assert throttles(counted(before, after) or {}, 50e6, BY_COUNTER) == ()


def test_shares_are_of_nanoseconds():
    # 12.5 ms of 50 ms: read as microseconds, as nvidia-smi prints them, it would be everything.
    moved = counted({"power-capped": 1e9, "thermal": 5.0}, {"power-capped": 1e9 + 12.5e6, "thermal": 5.0})
    assert throttles(moved or {}, 50e6, BY_COUNTER) == (Throttle("power-capped", 0.25, BY_COUNTER),)


def test_a_counter_that_was_reset_says_nothing_and_the_others_go_on():
    assert counted({"thermal": 9e9, "sync-boost": 0.0}, {"thermal": 1.0, "sync-boost": 2.0}) == {"sync-boost": 2.0}


def test_the_power_cap_is_normal_and_failing_cooling_is_not():
    assert Throttle("power-capped", 0.9, BY_COUNTER).severity == NORMAL
    assert Throttle("hw-thermal", 0.001, BY_COUNTER).severity == ALARMING
    assert Throttle("power-brake", 0.001, BY_COUNTER).severity == ALARMING


def test_without_counters_the_mask_says_at_how_many_half_rounds():
    seen = throttles_seen({"power-capped": 2, "throttled": 0, "page-faults": 8}, 8)
    assert seen == (Throttle("power-capped", 0.25, BY_MASK),)
    assert throttles_seen({"power-capped": 2}, 0) == ()


# ------------------------------------------------------------------ power of a window (R1, R2)

STEP = [PowerPoint(at * 1e6, 80_000.0 if at <= 1000 else 700_000.0) for at in range(0, 3001, 100)]
"""A load that begins at 1 s, read every 100 ms; the reading at 1 s is still of before."""


def test_nothing_from_before_a_window_leaks_into_its_power():
    assert power_inside(STEP, 1000e6, 2000e6).value == 700_000.0
    assert power_inside(STEP, 0.0, 1000e6).value == 80_000.0


def test_an_average_over_a_second_needs_a_second_before_it():
    averages = [
        PowerPoint(at * 1e6, 80_000.0 if at < 2000 else 700_000.0, is_average=True) for at in range(0, 3001, 100)
    ]
    assert power_inside(averages, 1000e6, 3000e6).value == 700_000.0
    assert power_inside(averages, 1000e6, 1900e6) == Reading(None, "window-too-short")


def test_a_window_shorter_than_the_sensor_has_no_power():
    points = [PowerPoint(1e6 * at, 700_000.0) for at in range(100)]
    assert power_inside(points, 10e6, 40e6) == Reading(None, "window-too-short")
    assert power_inside([], 0.0, 5e9) == Reading(None, "window-too-short")


# ------------------------------------------------------------------ company (R11)


def test_a_process_that_cannot_be_resolved_is_shown_and_flagged():
    found = company([((OURS, UNSEEN), used(1.5 * GIB))])
    assert found.is_shared
    assert [process_text(process) for process in found.others] == ["pid 99999 (outside namespace)"]


def test_who_came_or_left_meanwhile_counts_once():
    guest = GpuProcess(12, GIB, "bob", "train.py", own=False)
    found = company([((OURS, guest), used(2.0 * GIB)), ((OURS, guest, UNSEEN), used(2.0 * GIB))])
    assert [process_text(p) for p in found.others] == ["pid 12 (bob, train.py)", "pid 99999 (outside namespace)"]


@pytest.mark.parametrize(("extra_bytes", "is_shared"), [(UNEXPLAINED_BYTES, False), (UNEXPLAINED_BYTES + 1, True)])
def test_memory_that_nobody_owns_up_to_is_somebodys(extra_bytes, is_shared):
    found = company([((OURS,), used(GIB)), ((OURS,), used(GIB + extra_bytes))])
    assert found.is_shared is is_shared


@pytest.mark.parametrize(
    ("processes", "memory"),
    [((OURS,), used(None)), ((), used(3.0 * GIB)), ((OURS, GpuProcess(5, None, "x", "y", own=False)), used(3.0 * GIB))],
    ids=["memory unknown", "ours not listed", "a process without its memory"],
)
def test_unexplained_memory_is_unknown_not_0_where_it_cannot_be_told(processes, memory):
    found = company([(processes, memory)])
    assert found.unexplained_bytes == Reading(None, "not-supported")


def test_where_nobody_can_be_listed_nothing_is_said_of_company():
    assert company([(None, used(GIB))]) is None
