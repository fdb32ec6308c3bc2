"""The interval of values in order of time, widened for serial correlation."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpugpu_tui.decide.stats import (
    MIN_ROUNDS,
    MOST_CORRELATION,
    mean_interval,
    median,
    serial_correlation,
    series_interval,
    trimmed_interval,
)

VALUES = st.lists(st.floats(-20, 20), min_size=MIN_ROUNDS, max_size=40)


def remembering(noise: random.Random, rho: float, count: int = 40) -> list[float]:
    """A series of mean 0 and deviation 1 with serial correlation `rho`."""
    values = [noise.gauss(0.0, 1.0)]
    while len(values) < count:
        values.append(rho * values[-1] + math.sqrt(1 - rho**2) * noise.gauss(0.0, 1.0))
    return values


def coverage(rho: float, interval: object) -> float:
    """Share of 400 series whose interval contains the true mean."""
    assert callable(interval)
    noise = random.Random(1)
    found = [interval(remembering(noise, rho)) for _ in range(400)]
    return sum(each.low <= 0.0 <= each.high for each in found) / 400


@given(VALUES)
def test_it_is_never_narrower_than_for_independent_values(values: list[float]) -> None:
    plain, series = mean_interval(values), series_interval(values)
    assert plain is not None
    assert series is not None
    assert series.mean == plain.mean
    widest = math.sqrt((1 + MOST_CORRELATION) / (1 - MOST_CORRELATION))
    # A large mean swallows the last digits of a narrow interval's ends.
    assert plain.half_width * 0.999 - 1e-9 <= series.half_width <= plain.half_width * widest * 1.001 + 1e-9


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.6])
def test_the_correlation_that_was_planted_is_found(rho: float) -> None:
    noise = random.Random(1)
    found = [serial_correlation(remembering(noise, rho, 400)) for _ in range(100)]
    assert median(found) == pytest.approx(rho, abs=0.02)


def test_what_alternates_is_no_better_than_what_is_independent() -> None:
    assert serial_correlation([1.0, -1.0] * 10) == 0.0
    assert series_interval([1.0, -1.0] * 10) == mean_interval([1.0, -1.0] * 10)


def test_a_trend_is_no_certainty() -> None:
    assert serial_correlation([float(k) for k in range(100)]) == MOST_CORRELATION


def test_equal_values_have_no_width_and_few_have_none() -> None:
    interval = series_interval([0.1] * 8)
    assert interval is not None
    assert interval.half_width == pytest.approx(0.0, abs=1e-12)
    assert series_interval([1.0] * (MIN_ROUNDS - 1)) is None


def test_values_that_remember_are_not_overrated() -> None:
    """With a serial correlation of 0.8, 40 values count as 4: the plain interval is right half of the time."""
    assert coverage(0.8, mean_interval) < 0.6
    assert coverage(0.8, series_interval) > 0.8
    assert coverage(0.0, series_interval) >= 0.94


@given(st.lists(st.floats(-20, 20), min_size=MIN_ROUNDS, max_size=40))
def test_the_trimmed_interval_is_that_of_the_trimmed_mean(values: list[float]) -> None:
    from scipy.stats import mstats, t  # a second of CPU, which the other workers need not spend

    interval, cut = trimmed_interval(values), max(1, len(values) // 8)
    assert interval is not None
    limits = (cut / len(values), cut / len(values))
    mean = float(mstats.trimmed_mean(values, limits=limits))
    kept = sorted(values)[cut:-cut]
    rho = serial_correlation([min(max(value, kept[0]), kept[-1]) for value in values])
    error = float(mstats.trimmed_stde(values, limits=limits)) * math.sqrt((1 + rho) / (1 - rho))
    assert interval.mean == pytest.approx(mean, abs=1e-9)
    assert interval.half_width == pytest.approx(t.ppf(0.975, len(kept) - 1) * error, rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("rounds", range(MIN_ROUNDS))
def test_too_few_rounds_have_no_trimmed_interval(rounds: int) -> None:
    assert trimmed_interval([1.0] * rounds) is None
