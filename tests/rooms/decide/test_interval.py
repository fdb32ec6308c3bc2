"""The interval of a median: order statistics, correlation pooled over a run, and the sizes of a search."""

import math
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.bench.interval_study import RHOS, SHAPES
from tests.helpers.bench.trust_trials import coverage, false_winners, wrongly_observed

from cpugpu_tui.decide.correlation import MIN_ROUNDS, MOST_CORRELATION, NONE, Correlation, Pool, correlation
from cpugpu_tui.decide.interval import median_interval
from cpugpu_tui.decide.stats import median

VALUES = st.lists(st.floats(-20, 20), min_size=MIN_ROUNDS, max_size=40)
UNCORRELATED = Correlation(-1e6, 10**6, 1)
"""So many rounds without correlation that those of a case hardly count."""


def series(noise, rho, count=40):
    """A series of mean 0 and deviation 1 with serial correlation `rho`."""
    values = [noise.gauss(0.0, 1.0)]
    while len(values) < count:
        values.append(rho * values[-1] + math.sqrt(1 - rho**2) * noise.gauss(0.0, 1.0))
    return values


# ------------------------------------------------------------------ independent values


@pytest.mark.parametrize("count", [9, 12, 20, 39, 40, 500])
def test_independent_values_have_the_interval_of_the_sign_test(count):
    """Its ends lie between the order statistics whose binomial coverage is at least and less than 95 %."""
    from scipy.stats import binom  # a second of CPU, which the other workers need not spend

    values = series(random.Random(count), 0.0, count)
    interval, ordered = median_interval(values, UNCORRELATED), sorted(values)
    rank = int(binom.ppf(0.025, count, 0.5)) - 1
    assert 1 - 2 * binom.cdf(rank, count, 0.5) >= 0.95 > 1 - 2 * binom.cdf(rank + 1, count, 0.5)
    assert ordered[rank] <= interval.low <= ordered[rank + 1]
    assert ordered[-rank - 2] <= interval.high <= ordered[-rank - 1]


@pytest.mark.parametrize("count", range(MIN_ROUNDS, 9))
def test_few_values_have_an_interval_around_all_but_their_extremes(count):
    values = series(random.Random(count), 0.0, count)
    interval, ordered = median_interval(values, UNCORRELATED), sorted(values)
    assert interval.low < ordered[1] < ordered[-2] < interval.high


@pytest.mark.parametrize("count", range(MIN_ROUNDS))
def test_five_values_cannot_have_95_percent(count):
    assert median_interval([1.0] * count) is None
    assert 1 - 2 * 0.5**5 < 0.95 < 1 - 2 * 0.5**MIN_ROUNDS


@given(VALUES)
def test_the_median_lies_inside_and_equal_values_have_no_width(values):
    interval = median_interval(values)
    assert interval.low <= median(values) == interval.center <= interval.high
    level = median_interval([values[0]] * len(values))
    assert level.half_width == 0.0


@given(VALUES)
def test_the_distance_of_one_outlier_does_not_matter(values):
    near, far = (median_interval([*values, each], UNCORRELATED) for each in (21.0, 1000.0))
    assert near == far


# ------------------------------------------------------------------ correlation


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.6, 0.8])
@pytest.mark.parametrize("count", [8, 12, 40])
def test_the_estimate_of_many_cases_is_close_to_the_planted_correlation(rho, count):
    """Also for eight rounds, whose own estimate is too low by half."""
    noise, found = random.Random(1), NONE
    for _ in range(400):
        found = found.plus(correlation(series(noise, rho, count)))
    assert abs(found.estimate - rho) <= 0.07


def test_a_case_alone_cannot_exclude_correlation():
    assert correlation([0.0, 1.0] * 2) is NONE
    assert NONE.estimate == MOST_CORRELATION
    noise = random.Random(2)
    estimates = [correlation(series(noise, 0.0, 8)).estimate for _ in range(100)]
    assert median(estimates) > 0.5


def test_what_alternates_has_no_correlation_and_a_trend_has_the_most():
    assert correlation([1.0, -1.0] * 10).estimate == 0.0
    assert correlation([float(k) for k in range(100)]).estimate == MOST_CORRELATION


def test_the_interval_widens_with_the_correlation_of_the_run():
    values = series(random.Random(3), 0.0, 12)
    runs = [Correlation(rho * 1e6, 10**6, 1) for rho in (0.0, 0.2, 0.4, 0.8)]
    halves = [found.half_width for each in runs if (found := median_interval(values, each)) is not None]
    assert len(halves) == 4
    assert all(narrow < wide for narrow, wide in pairwise(halves))


def test_a_case_counts_once_in_the_pool_of_its_run():
    pool, noise = Pool(), random.Random(4)
    one, other = (correlation(series(noise, 0.5, 10)) for _ in range(2))
    assert (pool.others("a", one), pool.others("a", one), pool.others("b", other)) == (NONE, NONE, one)
    assert pool.others("a", one) == pytest.approx(other)


# ------------------------------------------------------------------ what is promised (in full: make bench ONLY=trust)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("rho", "together"), [(RHOS[0], 20), (RHOS[-1], 1), (RHOS[-1], 20)])
def test_93_percent_of_intervals_cover_the_truth_when_rounds_end(shape, rho, together):
    """200 cases, seeded. The interval of a case's own correlation covered 70 to 79 % at a correlation of 0.8.

    Of two modes, distances from the median alone covered 87 to 92 % there, and the trimmed mean, which lies between the
    modes, 59 %.
    """
    assert coverage(shape, rho, together=together, cases=200).coverage >= 0.93


@pytest.mark.parametrize(("shape", "noise"), [("normal", 5.0), ("bimodal", 1.0)])
@pytest.mark.parametrize("rho", [RHOS[0], RHOS[-1]])
def test_equal_devices_have_a_winner_in_few_searches(shape, noise, rho):
    """Of two modes, 1.2 times apart, 24 % of searches named a winner at a correlation of 0.8."""
    assert false_winners(shape, rho, sizes=14, searches=60, noise=noise) <= 6


@pytest.mark.parametrize(("shape", "rho"), [("normal", 0.8), ("Student t, 2", 0.8), ("one-sided outliers", 0.0)])
def test_three_rounds_seldom_show_a_winner_between_equal_devices(shape, rho):
    assert wrongly_observed(shape, rho, count=3, trials=1000, noise=3.0) <= 0.05
