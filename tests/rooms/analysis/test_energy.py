"""Energies exist only if the counter's steps are fine enough (method.md, step 10)."""

from dataclasses import replace

import pytest

from cpugpu_tui.analysis.costs import above_idle, energy, joules_text
from cpugpu_tui.model import EnergyMeasured, Reading
from cpugpu_tui.timing.device_readings import scope_of

WINDOW = EnergyMeasured(
    case="c", device="cuda:0", calls=1000, elapsed_ns=2e9, begin_mj=5e9, end_mj=5e9 + 1_400_000.0, tick_ns=100e6,
    power_mw=(690_000.0, 700_000.0, 710_000.0),
)  # fmt: skip
"""700 W for 2 s on a counter that has been running for long."""


def test_joules_of_a_call_come_from_the_difference_and_say_how_sure_they_are():
    found = energy(WINDOW)
    assert found.joules == Reading(1400.0)
    assert found.joules_per_call == Reading(1.4)
    assert found.watts == Reading(700.0)
    assert found.plus_minus == 0.05
    assert found.polled_watts == 700.0
    assert not found.is_disputed


@pytest.mark.parametrize("elapsed_ns", [30e6, 99e6, 999e6])
def test_a_window_too_short_for_its_counter_has_no_number(elapsed_ns):
    found = energy(replace(WINDOW, elapsed_ns=elapsed_ns))
    for reading in (found.joules, found.joules_per_call, found.watts):
        assert reading == Reading(None, "window-too-short")


def test_ten_steps_are_needed_also_of_a_slower_counter():
    assert energy(replace(WINDOW, tick_ns=250e6)).joules.reason == "window-too-short"
    assert energy(replace(WINDOW, tick_ns=200e6)).joules.value == 1400.0


def test_a_counter_that_went_back_was_reset():
    assert energy(replace(WINDOW, end_mj=12.0)).joules_per_call == Reading(None, "counter-reset")


def test_a_counter_that_stood_still_gives_no_zero():
    assert energy(replace(WINDOW, end_mj=WINDOW.begin_mj)).joules_per_call == Reading(None, "window-too-short")


def test_reasons_come_through_and_what_was_not_asked_for_says_so():
    assert energy(replace(WINDOW, reason="no-permission")).watts == Reading(None, "no-permission")
    assert energy(replace(WINDOW, end_mj=None)).watts == Reading(None, "unknown")
    assert energy(None).joules_per_call == Reading(None, "not-asked")


@pytest.mark.parametrize(("polled_w", "is_disputed"), [(635.0, False), (769.0, False), (629.0, True), (771.0, True)])
def test_a_counter_that_the_power_contradicts_by_a_tenth_is_disputed(polled_w, is_disputed):
    assert energy(replace(WINDOW, power_mw=(polled_w * 1e3,))).is_disputed is is_disputed
    assert not energy(replace(WINDOW, power_mw=())).is_disputed


def test_idle_is_subtracted_beside_the_number_never_in_it():
    idle = EnergyMeasured(
        case="", device="cuda:0", elapsed_ns=1.5e9, begin_mj=0.0, end_mj=180_000.0, tick_ns=100e6
    )  # 120 W
    assert above_idle(WINDOW, idle) == Reading(1.16)
    assert energy(WINDOW).joules_per_call == Reading(1.4)
    assert above_idle(WINDOW, None) == Reading(None, "not-asked")
    assert above_idle(replace(WINDOW, end_mj=1.0), idle) == Reading(None, "counter-reset")


@pytest.mark.parametrize(
    ("name", "scope"),
    [("NVIDIA H200", "gpu"), ("NVIDIA GH200 480GB", "module"), ("NVIDIA GB200", "module"), ("RTX 4090", "gpu")],
)
def test_a_module_with_a_processor_is_not_called_a_gpu(name, scope):
    assert scope_of(name) == scope


@pytest.mark.parametrize(
    ("joules", "text"),
    [(3.2e-9, "3.20 nJ"), (4.56e-5, "45.6 µJ"), (0.0123, "12.3 mJ"), (7.0, "7.00 J"), (2500.0, "2.50 kJ")],
)
def test_energies_have_the_unit_that_suits_them(joules, text):
    assert joules_text(joules) == text
