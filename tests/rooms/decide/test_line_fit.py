"""Start-up and rate of copies: planted constants are found again, even from disturbed measurements."""

import math
import random

import pytest

from cpugpu_tui.decide.stats import fit_line
from cpugpu_tui.model import Line

SIZES = tuple(4.0**k for k in range(1, 15))
"""4 B to 256 MiB."""


def measured(planted, noise=0.0, seed=1):
    dice = random.Random(seed)
    return [(size, planted.elapsed_ns(size) * math.exp(dice.gauss(0.0, noise))) for size in SIZES]


@pytest.mark.parametrize("planted", [Line(8_000.0, 5.5e10), Line(500.0, 2e9), Line(1e6, 7e9), Line(0.0, 1e10)], ids=str)
def test_planted_constants_come_back(planted):
    found = fit_line(measured(planted))
    assert found.alpha_ns == pytest.approx(planted.alpha_ns, rel=1e-4, abs=1.0)
    assert found.bytes_per_s == pytest.approx(planted.bytes_per_s, rel=1e-4)


@pytest.mark.parametrize("seed", range(20))
def test_noise_of_one_percent_moves_neither_by_three(seed):
    planted = Line(8_000.0, 5.5e10)
    found = fit_line(measured(planted, 0.01, seed))
    assert found.alpha_ns == pytest.approx(planted.alpha_ns, rel=0.03)
    assert found.bytes_per_s == pytest.approx(planted.bytes_per_s, rel=0.03)


@pytest.mark.parametrize("disturbed", range(len(SIZES)))
def test_one_size_that_took_ten_times_as_long_moves_neither(disturbed):
    planted = Line(8_000.0, 5.5e10)
    points = measured(planted)
    size, ns = points[disturbed]
    points[disturbed] = size, 10 * ns
    found = fit_line(points)
    assert found.alpha_ns == pytest.approx(planted.alpha_ns, rel=0.01)
    assert found.bytes_per_s == pytest.approx(planted.bytes_per_s, rel=0.01)


@pytest.mark.parametrize("bent", [0.5, 1.6])
@pytest.mark.parametrize("seed", range(20))
def test_the_rate_is_that_of_large_copies_also_where_those_in_between_have_another(seed, bent):
    """Pageable memory is copied through a staging buffer, piece by piece."""
    planted = Line(10_000.0, 7e9)
    points = [(size, ns * (bent if 1e5 < size < 1e7 else 1.0)) for size, ns in measured(planted, 0.01, seed)]
    found = fit_line(points)
    assert found.alpha_ns == pytest.approx(planted.alpha_ns, rel=0.03)
    assert found.bytes_per_s == pytest.approx(planted.bytes_per_s, rel=0.03)


def test_where_memory_is_short_two_sizes_do():
    planted = Line(10_000.0, 7e9)
    assert fit_line([(size, planted.elapsed_ns(size)) for size in (4.0, 4.0**10)]).bytes_per_s == pytest.approx(7e9)


@pytest.mark.parametrize("points", [[], [(4.0, 9.0)], [(4.0, 9.0), (4.0, 8.0)], [(4.0, 100.0), (16.0, 10.0)]], ids=str)
def test_what_is_no_line_is_refused(points):
    with pytest.raises(ValueError, match=r"line|longer|sizes"):
        fit_line(points)
