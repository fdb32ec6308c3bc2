"""Medians, intervals and verdicts: properties that hold for any numbers."""

from __future__ import annotations

import math
import random
import statistics
import sys

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cpugpu_tui.analysis.stats import MIN_ROUNDS, mean_interval, median, percentile, student_t_975
from cpugpu_tui.analysis.verdict import (
    CPU_WINS,
    EQUIVALENCE,
    GPU_WINS,
    TIE,
    TOO_FEW,
    UNDECIDED,
    compare,
    word,
)

TIMES_NS = st.floats(1.0, 1e13)
"""From a nanosecond to hours."""
SAMPLES = st.lists(TIMES_NS, min_size=1, max_size=40)
ANY_TIME_NS = st.floats(allow_nan=False, allow_infinity=False)
"""What a stranger's agent may send."""


# ------------------------------------------------------------------ medians


@given(SAMPLES)
def test_a_median_lies_between_the_extremes_and_is_everybodys_median(samples: list[float]) -> None:
    middle = median(samples)
    assert min(samples) <= middle <= max(samples)
    assert middle == pytest.approx(statistics.median(samples), rel=1e-12)
    assert median(samples[::-1]) == middle


@given(SAMPLES, st.floats(0, 100), st.floats(0, 100))
def test_percentiles_rise_from_the_least_to_the_greatest(samples: list[float], one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert percentile(samples, 0) == min(samples)
    assert percentile(samples, 100) == max(samples)
    assert percentile(samples, low) <= percentile(samples, high) * (1 + 1e-15)
    assert min(samples) <= percentile(samples, low) <= max(samples)


@given(SAMPLES, st.floats(1e-3, 1e3))
def test_another_unit_changes_the_unit_only(samples: list[float], factor: float) -> None:
    assert median([factor * sample for sample in samples]) == pytest.approx(factor * median(samples), rel=1e-9)


def test_nothing_has_no_median() -> None:
    with pytest.raises(ValueError, match="at least one sample"):
        median([])


# ------------------------------------------------------------------ intervals


@pytest.mark.parametrize("degrees", [3, 4, 5, 7, 10, 39, 200, 10_000])
def test_students_quantile_is_the_tables(degrees: int) -> None:
    from scipy import stats as scipy_stats  # a second of CPU, which the other workers need not spend

    assert student_t_975(degrees) == pytest.approx(scipy_stats.t.ppf(0.975, degrees), rel=0.005)


@given(st.lists(st.floats(-20, 20), min_size=MIN_ROUNDS, max_size=40))
def test_the_interval_is_the_t_interval(values: list[float]) -> None:
    from scipy import stats as scipy_stats  # a second of CPU, which the other workers need not spend

    assume(statistics.stdev(values) > 1e-6)
    interval = mean_interval(values)
    assert interval is not None
    mean, error = statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values))
    low, high = scipy_stats.t.interval(0.95, len(values) - 1, loc=mean, scale=error)
    assert (interval.low, interval.high) == pytest.approx((low, high), rel=0.005, abs=0.005 * (high - low))
    assert interval.half_width == pytest.approx((high - low) / 2, rel=0.01)


@pytest.mark.parametrize("rounds", range(MIN_ROUNDS))
def test_too_few_rounds_have_no_interval(rounds: int) -> None:
    assert mean_interval([1.0] * rounds) is None


def test_19_of_20_intervals_hold_the_truth() -> None:
    """400 planted series of 8 rounds: 380 ± 13 (three standard deviations) are right."""
    noise = random.Random(1)
    intervals = [mean_interval([noise.gauss(3.0, 0.5) for _ in range(8)]) for _ in range(400)]
    right = sum(interval is not None and interval.low <= 3.0 <= interval.high for interval in intervals)
    assert 367 <= right <= 393


# ------------------------------------------------------------------ verdicts


@st.composite
def two_devices(draw: st.DrawFn) -> tuple[dict[int, float], dict[int, float]]:
    rounds = draw(st.lists(st.integers(1, 40), min_size=1, max_size=20, unique=True))
    return {r: draw(TIMES_NS) for r in rounds}, {r: draw(TIMES_NS) for r in rounds}


def close(a: float | None, b: float | None) -> bool:
    return a is None if b is None else a == pytest.approx(b, rel=1e-9)


@given(two_devices(), st.floats(1e-3, 1e3))
def test_slowing_both_devices_alike_changes_nothing(
    times: tuple[dict[int, float], dict[int, float]], factor: float
) -> None:
    cpu_ns, gpu_ns = times
    before = compare(cpu_ns, gpu_ns)
    after = compare({r: factor * t for r, t in cpu_ns.items()}, {r: factor * t for r, t in gpu_ns.items()})
    assert before is not None
    assert after is not None
    assert after.rounds == before.rounds == len(cpu_ns)
    assert close(after.speedup, before.speedup)
    assert close(after.low, before.low)
    assert close(after.high, before.high)


@given(two_devices())
def test_swapping_the_devices_inverts_the_speedup(times: tuple[dict[int, float], dict[int, float]]) -> None:
    one, other = compare(*times), compare(*times[::-1])
    assert one is not None
    assert other is not None
    assert close(other.speedup, 1 / one.speedup)
    assert close(other.low, None if one.high is None else 1 / one.high)
    assert close(other.high, None if one.low is None else 1 / one.low)
    inverted = {GPU_WINS: CPU_WINS, CPU_WINS: GPU_WINS}
    assert other.verdict == inverted.get(one.verdict, one.verdict)


@given(two_devices())
def test_the_speedup_lies_in_its_interval(times: tuple[dict[int, float], dict[int, float]]) -> None:
    comparison = compare(*times)
    assert comparison is not None
    if comparison.low is None or comparison.high is None:
        assert comparison.verdict == TOO_FEW
        assert comparison.rounds < MIN_ROUNDS
        assert comparison.plus_minus is None
        return
    assert comparison.low <= comparison.speedup * (1 + 1e-12)
    assert comparison.speedup <= comparison.high * (1 + 1e-12)
    assert comparison.plus_minus is not None
    assert comparison.plus_minus >= 0


@given(st.dictionaries(st.integers(), ANY_TIME_NS, max_size=8), st.dictionaries(st.integers(), ANY_TIME_NS, max_size=8))
def test_no_numbers_break_a_comparison(cpu_ns: dict[int, float], gpu_ns: dict[int, float]) -> None:
    comparison = compare(cpu_ns, gpu_ns)
    if comparison is not None:
        assert comparison.speedup > 0
        assert comparison.plus_minus is None or comparison.plus_minus >= 0


def test_the_least_and_the_greatest_number_can_be_compared() -> None:
    least, greatest = dict.fromkeys(range(8), 5e-324), dict.fromkeys(range(8), sys.float_info.max)
    for cpu_ns, gpu_ns, verdict in ((least, greatest, CPU_WINS), (greatest, least, GPU_WINS)):
        comparison = compare(cpu_ns, gpu_ns)
        assert comparison is not None
        assert comparison.verdict == verdict
        assert comparison.plus_minus == pytest.approx(0)


def test_only_rounds_of_both_devices_count() -> None:
    assert compare({1: 5.0, 2: 5.0}, {3: 5.0}) is None
    assert compare({}, {}) is None
    assert compare({1: 0.0}, {1: 5.0}) is None
    comparison = compare({1: 10.0, 2: 40.0, 3: 1.0}, {1: 10.0, 2: 10.0, 4: 1.0})
    assert comparison is not None
    assert comparison.rounds == 2
    assert comparison.speedup == pytest.approx(2.0)


def test_drift_that_both_devices_share_cancels() -> None:
    """The machine becomes ten times slower during the run; each round still says ×3."""
    drift = {r: 1.26**r for r in range(1, 9)}
    comparison = compare({r: 300 * d for r, d in drift.items()}, {r: 100 * d for r, d in drift.items()})
    assert comparison is not None
    assert comparison.speedup == pytest.approx(3.0)
    assert comparison.plus_minus == pytest.approx(0.0, abs=1e-9)
    assert comparison.verdict == GPU_WINS


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.03, 1.10, GPU_WINS), (0.90, 0.97, CPU_WINS), (0.99, 1.01, TIE), (0.99, 1.03, UNDECIDED),
        (0.5, 2.0, UNDECIDED), (1.01, 1.10, UNDECIDED), (0.90, 0.99, UNDECIDED), (1 / 1.0199, 1.0199, TIE),
    ],
)  # fmt: skip
def test_a_verdict_needs_the_whole_interval_beyond_two_percent(low: float, high: float, verdict: str) -> None:
    assert EQUIVALENCE == 0.02
    assert word(math.log(low), math.log(high)) == verdict
