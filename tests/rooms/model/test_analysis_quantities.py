"""Formatting of numbers for people."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpugpu_tui.model.quantities import count_of, duration, gib, named, percent, significant, size_text, time_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"), (0.0352, "0.0352"), (0.352, "0.352"), (3.52, "3.52"), (35.2, "35.2"), (352.0, "352"),
        (999.4, "999"), (999.6, "1,000"), (35_234.0, "35,230"), (1_234_567.0, "1,235,000"), (2.5e7, "2.5e7"),
        (-3.52, "-3.52"), (math.inf, "inf"), (math.nan, "nan"),
    ],
)  # fmt: skip
def test_three_digits_below_a_thousand_and_four_above(value, text):
    assert significant(value) == text


@given(st.floats(0.01, 1e15))
def test_what_is_shown_is_within_half_a_percent(value):
    assert float(significant(value).replace(",", "")) == pytest.approx(value, rel=0.0051)


@given(st.floats())
def test_every_number_has_a_text(value):
    assert significant(value)


@pytest.mark.parametrize(
    ("ns", "text"), [(42, "42.0 ns"), (35_200, "35.2 µs"), (1.2e6, "1.20 ms"), (11.3e9, "11.3 s"), (3.6e12, "3,600 s")]
)
def test_a_time_alone_has_the_unit_that_suits_it(ns, text):
    assert time_text(ns) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(-3, "0:00"), (0.4, "0:00"), (42, "0:42"), (59.6, "1:00"), (725, "12:05"), (3723, "1:02:03")]
)
def test_durations_read_like_a_clock(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(16, "16"), (99_999, "99,999"), (100_000, "100,000"), (1_000_000, "1M"), (10**9, "1G"), (10**12, "1,000G"),
     (123_456, "123,456"), (1_500_000, "1,500,000")],
)  # fmt: skip
def test_sizes_are_short_only_where_that_is_exact(size, text):
    assert size_text(size) == text


def test_bytes_and_shares():
    assert [gib(value * 2**30) for value in (12.1, 0.43, 140.8)] == ["12.1", "0.4", "141"]
    assert [percent(share) for share in (0.034, 0.5, 0.0994, 1.0)] == ["3.4", "50", "9.9", "100"]


def test_one_of_something_is_singular():
    assert [named(axis, "=", 1) for axis in ("queries", "systems", "batch", "n of n×n pixels")] == [
        "1 query", "1 system", "batch 1", "n = 1"
    ]  # fmt: skip


def test_a_count_agrees_with_its_noun():
    counts = [(0, "core"), (1, "core"), (1.5, "core"), (2_000, "copy", "copies")]
    assert [count_of(*each) for each in counts] == ["0 cores", "1 core", "1.5 cores", "2,000 copies"]  # type: ignore[arg-type]
