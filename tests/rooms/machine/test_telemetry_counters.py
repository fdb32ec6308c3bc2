"""Differences of counters: shares and rates, and when they are missing."""

import pytest

from cpugpu_tui.machine.nvml.counters import NOT_YET, Stamped, rate_per_s, share_pct
from cpugpu_tui.machine.nvml.values import pcie_most_bytes_per_s
from cpugpu_tui.machine.text import REASONS
from cpugpu_tui.model import Reading

AT_US = 1_795_213_654_789_765


def counted(value, after_us=0, bits=64):
    return Stamped(value, None, AT_US + after_us, True, bits)


def test_throttle_time_from_before_is_not_counted():
    """The counter of a GPU that did not throttle at all already stood at 15,814 s."""
    before = counted(15_814_000_000_000)
    assert share_pct(before, counted(15_814_000_000_000, 1_000_000)).value == 0
    assert share_pct(before, counted(15_814_250_000_000, 1_000_000)).value == pytest.approx(25)


def test_the_counter_is_of_nanoseconds_and_never_more_than_all_the_time():
    assert share_pct(counted(0), counted(5_000_000, 10_000)).value == pytest.approx(50)
    assert share_pct(counted(0), counted(10_000_400, 10_000)).value == 100, "counter and stamp are not one instant"


def test_a_rate_is_by_the_drivers_own_stamps():
    after = rate_per_s(counted(1000), counted(2000, 20_000))
    assert after.value == pytest.approx(50_000)
    assert after.reading(AT_US + 120_000) == Reading(pytest.approx(50_000), None, pytest.approx(0.1), True)


@pytest.mark.parametrize("before", [None, NOT_YET, counted(5), counted(5, 10), Stamped(None, "no-permission")])
def test_without_an_earlier_number_or_time_in_between_there_is_nothing_yet(before):
    assert rate_per_s(before, counted(7)) == NOT_YET
    assert share_pct(before, counted(7)) == NOT_YET


def test_a_counter_that_goes_back_was_reset():
    assert rate_per_s(counted(5000), counted(10, 1_000_000)).reason == "counter-reset"
    assert share_pct(counted(5000), counted(10, 1_000_000)).reason == "counter-reset"


def test_a_narrow_counter_that_goes_back_has_wrapped():
    before, after = counted(2**32 - 1000, 0, 32), counted(500, 20_000, 32)
    assert rate_per_s(before, after, pcie_most_bytes_per_s(5, 16)).value == pytest.approx(1500 / 0.02)


def test_a_narrow_counter_that_may_have_gone_round_twice_says_nothing():
    """At 64 GB/s a counter of 4.3 GB wraps after 67 ms, so one second later the rate is unknown."""
    fastest = pcie_most_bytes_per_s(5, 16)
    assert rate_per_s(counted(0, 0, 32), counted(9, 1_000_000, 32), fastest).reason == "window-too-long"
    assert rate_per_s(counted(0, 0, 32), counted(9, 66_000, 32), fastest).value is not None
    assert rate_per_s(counted(0), counted(9, 1_000_000), fastest).value == 9, "64 bits never go round"
    assert "window-too-long" in REASONS


@pytest.mark.parametrize(
    ("generation", "width", "gigabytes"), [(3, 16, 15.75), (4, 8, 15.75), (5, 16, 63.0), (None, None, 121.0)]
)
def test_the_bound_of_a_link_is_above_what_it_can_carry_by_little(generation, width, gigabytes):
    assert gigabytes < pcie_most_bytes_per_s(generation, width) / 1e9 < 1.1 * gigabytes
