"""Medians, intervals and verdicts: properties that hold for any numbers."""

import math
import random
import statistics
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpugpu_tui.decide.comparison import (
    CPU_OBSERVED,
    CPU_WINS,
    EQUIVALENCE,
    GPU_OBSERVED,
    GPU_WINS,
    TIE,
    TOO_FEW,
    UNDECIDED,
)
from cpugpu_tui.decide.correlation import MIN_ROUNDS, Correlation
from cpugpu_tui.decide.stats import median, percentile, quantile
from cpugpu_tui.decide.verdict import compare, plus_minus, typical_ns, word

TIMES_NS = st.floats(1.0, 1e13)
"""From a nanosecond to hours."""
SAMPLES = st.lists(TIMES_NS, min_size=1, max_size=40)
ANY_TIME_NS = st.floats(allow_nan=False, allow_infinity=False)
"""Times that a hostile agent may send."""


# ------------------------------------------------------------------ medians


@given(SAMPLES)
def test_a_median_lies_between_the_extremes_and_is_everybodys_median(samples):
    middle = median(samples)
    assert min(samples) <= middle <= max(samples)
    assert middle == pytest.approx(statistics.median(samples), rel=1e-12)
    assert median(samples[::-1]) == middle


@given(SAMPLES, st.floats(0, 100), st.floats(0, 100))
def test_percentiles_rise_from_the_least_to_the_greatest(samples, one, other):
    low, high = sorted((one, other))
    assert percentile(samples, 0) == min(samples)
    assert percentile(samples, 100) == max(samples)
    assert percentile(samples, low) <= percentile(samples, high) * (1 + 1e-15)
    assert min(samples) <= percentile(samples, low) <= max(samples)


@given(SAMPLES, st.floats(1e-3, 1e3))
def test_another_unit_changes_the_unit_only(samples, factor):
    assert median([factor * sample for sample in samples]) == pytest.approx(factor * median(samples), rel=1e-9)


def test_nothing_has_no_median():
    with pytest.raises(ValueError, match="at least one sample"):
        median([])


# ------------------------------------------------------------------ Student's t


@pytest.mark.parametrize("degrees", [1.0, 1.7, 3, 5, 10, 39, 199, 250, 10_000])
@pytest.mark.parametrize("level", [0.3, 0.05, 0.0025, 1e-6])
def test_students_quantile_is_the_tables(degrees, level):
    from scipy import stats as scipy_stats  # a second of CPU, which the other workers need not spend

    assert quantile(level, degrees) == pytest.approx(scipy_stats.t.ppf(1 - level / 2, degrees), rel=0.001)


# ------------------------------------------------------------------ verdicts


@st.composite
def two_devices(draw):
    rounds = draw(st.lists(st.integers(1, 40), min_size=1, max_size=20, unique=True))
    return {r: draw(TIMES_NS) for r in rounds}, {r: draw(TIMES_NS) for r in rounds}


def close(a, b):
    return a is None if b is None else a == pytest.approx(b, rel=1e-9)


@given(two_devices(), st.floats(1e-3, 1e3))
def test_slowing_both_devices_alike_changes_nothing(times, factor):
    cpu_ns, gpu_ns = times
    before = compare(cpu_ns, gpu_ns)
    after = compare({r: factor * t for r, t in cpu_ns.items()}, {r: factor * t for r, t in gpu_ns.items()})
    assert after.rounds == before.rounds == len(cpu_ns)
    assert close(after.speedup, before.speedup)
    assert close(after.low, before.low)
    assert close(after.high, before.high)


@given(two_devices())
def test_swapping_the_devices_inverts_the_speedup(times):
    one, other = compare(*times), compare(*times[::-1])
    assert close(other.speedup, 1 / one.speedup)
    assert close(other.low, None if one.high is None else 1 / one.high)
    assert close(other.high, None if one.low is None else 1 / one.low)
    inverted = {GPU_WINS: CPU_WINS, CPU_WINS: GPU_WINS, GPU_OBSERVED: CPU_OBSERVED, CPU_OBSERVED: GPU_OBSERVED}
    assert other.verdict == inverted.get(one.verdict, one.verdict)


@given(two_devices())
def test_the_speedup_lies_in_its_interval(times):
    comparison = compare(*times)
    if comparison.low is None or comparison.high is None:
        assert comparison.verdict in (TOO_FEW, GPU_OBSERVED, CPU_OBSERVED)
        assert comparison.rounds < MIN_ROUNDS
        assert comparison.plus_minus is None
        return
    assert comparison.low <= comparison.speedup * (1 + 1e-12)
    assert comparison.speedup <= comparison.high * (1 + 1e-12)
    assert comparison.plus_minus >= 0


@given(st.dictionaries(st.integers(), ANY_TIME_NS, max_size=8), st.dictionaries(st.integers(), ANY_TIME_NS, max_size=8))
def test_no_numbers_break_a_comparison(cpu_ns, gpu_ns):
    comparison = compare(cpu_ns, gpu_ns)
    if comparison is not None:
        assert comparison.speedup > 0
        assert comparison.plus_minus is None or comparison.plus_minus >= 0


def test_the_least_and_the_greatest_number_can_be_compared():
    least, greatest = dict.fromkeys(range(8), 5e-324), dict.fromkeys(range(8), sys.float_info.max)
    for cpu_ns, gpu_ns, verdict in ((least, greatest, CPU_WINS), (greatest, least, GPU_WINS)):
        comparison = compare(cpu_ns, gpu_ns)
        assert (comparison.verdict, comparison.plus_minus) == (verdict, pytest.approx(0))


def test_a_comparison_takes_a_round_that_both_devices_have():
    assert compare({1: 5.0, 2: 5.0}, {3: 5.0}) is None
    assert compare({}, {}) is None
    assert compare({1: 0.0}, {1: 5.0}) is None
    comparison = compare({1: 10.0, 2: 40.0, 3: 20.0}, {1: 10.0, 2: 10.0, 4: 1.0})
    assert comparison.rounds == 2


@given(two_devices(), st.dictionaries(st.integers(41, 60), TIMES_NS, max_size=5))
def test_the_speedup_is_the_quotient_of_the_two_times(times, more):
    """Even if one device has rounds that the other lacks."""
    cpu_ns, gpu_ns = times[0] | more, times[1]
    comparison, cpu, gpu = compare(cpu_ns, gpu_ns), typical_ns(cpu_ns), typical_ns(gpu_ns)
    assert comparison.speedup == pytest.approx(cpu / gpu, rel=1e-9)


def noisy(noise, rounds, deviation):
    return {r: 1000.0 * math.exp(noise.gauss(0.0, deviation)) for r in range(rounds)}


RUN = Correlation(0.0, 160, 20)
"""Twenty other cases of eight uncorrelated rounds."""


@pytest.mark.parametrize("rounds", [6, 8, 24])
def test_no_winner_stands_beside_an_interval_that_reaches_equality(rounds):
    """An H200 showed `1.05× ± 11 %` and GPU: its interval was uneven around the quotient of the two times."""
    random_, winners = random.Random(rounds), 0
    for _ in range(500):
        cpu, gpu = ({r: random_.lognormvariate(mean, 0.08) for r in range(rounds)} for mean in (0.12, 0.0))
        found = compare(cpu, gpu, RUN)
        if found.verdict == GPU_WINS:
            winners += 1
            assert found.speedup / (1 + found.plus_minus) > 1.0
    assert winners >= 20


@pytest.mark.parametrize("rounds", [8, 24])
def test_one_outlier_does_not_ruin_the_interval(rounds):
    """The rounds of a matmul of 1000 on a shared host: around 950 µs, one of 3,219. It was shown as ± 38 %."""
    noise = random.Random(2)
    cpu_ns, gpu_ns = noisy(noise, rounds, 0.05), noisy(noise, rounds, 0.02)
    quiet, loud = compare(cpu_ns, gpu_ns, RUN), compare(cpu_ns | {2: 3219.0}, gpu_ns, RUN)
    assert loud.plus_minus < 0.25
    assert loud.speedup == pytest.approx(quiet.speedup, rel=0.1)


@pytest.mark.parametrize(
    ("rounds", "outliers", "least"), [(8, 0.0, 0.94), (12, 0.0, 0.94), (40, 0.0, 0.94), (12, 0.1, 0.94), (40, 0.1, 0.9)]
)
def test_intervals_of_the_speedup_hold_the_truth(rounds, outliers, least):
    """1,000 comparisons of equal devices; `outliers` is the share of the CPU's rounds that take 1.5 to 3 times."""
    noise = random.Random(3)
    held = 0
    for _ in range(1000):
        cpu_ns = noisy(noise, rounds, 0.05)
        cpu_ns |= {r: ns * noise.uniform(1.5, 3.0) for r, ns in cpu_ns.items() if noise.random() < outliers}
        found = compare(cpu_ns, noisy(noise, rounds, 0.02))
        held += found.low <= 1.0 <= found.high
    assert held >= 1000 * least


def test_one_device_has_an_interval_too():
    noise = random.Random(4)
    found = plus_minus(noisy(noise, 8, 0.05), RUN)
    assert 0.02 < found < 0.1
    assert plus_minus(dict.fromkeys(range(8), 7.0)) == pytest.approx(0.0, abs=1e-9)
    assert plus_minus({1: 5.0, 2: 5.1, 3: 5.2, 4: 5.3}) is None


@pytest.mark.parametrize(
    ("cpu", "gpu", "verdict"),
    [
        ((29.0, 30.0), (1.0, 1.1), GPU_OBSERVED),
        ((1.0, 1.1), (29.0, 30.0), CPU_OBSERVED),
        ((29.0,), (1.0,), TOO_FEW),  # one round each
        ((29.0,), (1.0, 1.1), TOO_FEW),  # one round of the CPU
        ((29.0, 30.0), (1.0, 29.5), TOO_FEW),  # not separated
        ((1.4, 1.45), (1.0, 1.0), TOO_FEW),  # separated by less than 1.5
        ((1.5, 1.51, 1.6, 1.7), (1.0, 1.01, 0.99, 1.0), GPU_OBSERVED),
    ],
)
def test_few_rounds_show_a_winner_only_when_all_of_them_do(cpu, gpu, verdict):
    comparison = compare(dict(enumerate(cpu)), dict(enumerate(gpu)))
    assert comparison.verdict == verdict
    assert (comparison.low, comparison.high, comparison.is_judged) == (None, None, False)
    assert comparison.faster == {GPU_OBSERVED: GPU_WINS, CPU_OBSERVED: CPU_WINS}.get(verdict)


def test_six_rounds_that_agree_name_the_winner_that_five_of_them_name():
    """Batch 100 of the Jacobian on an H200 server, in seconds: alone, six rounds have an interval of 0.07 to 1.4×."""
    cpu = dict(enumerate((6.416, 6.113, 6.529, 5.592, 4.903, 6.138)))
    gpu = dict(enumerate((13.484, 11.732, 13.242, 13.412, 13.049, 12.503)))
    found = compare(cpu, gpu)
    assert (found.verdict, found.rounds, found.low, found.winner) == (CPU_OBSERVED, 6, None, CPU_WINS)
    assert compare(cpu, {r: ns / 1.5 for r, ns in gpu.items()}).verdict == UNDECIDED  # all are longer, but not clearly
    assert compare(cpu, gpu, RUN).is_judged  # other cases tell that rounds do not drift together


def test_drift_that_both_devices_share_cancels():
    """The machine becomes ten times slower during the run; the speedup of each round is still 3×."""
    drift = {r: 1.26**r for r in range(1, 9)}
    comparison = compare({r: 300 * d for r, d in drift.items()}, {r: 100 * d for r, d in drift.items()})
    assert (comparison.speedup, comparison.plus_minus) == (pytest.approx(3.0), pytest.approx(0.0, abs=1e-9))
    assert comparison.verdict == GPU_WINS


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.03, 1.10, GPU_WINS), (0.90, 0.97, CPU_WINS), (0.99, 1.01, TIE), (0.99, 1.03, UNDECIDED),
        (0.5, 2.0, UNDECIDED), (1.01, 1.10, UNDECIDED), (0.90, 0.99, UNDECIDED), (1 / 1.0199, 1.0199, TIE),
    ],
)  # fmt: skip
def test_a_verdict_needs_the_whole_interval_beyond_two_percent(low, high, verdict):
    assert EQUIVALENCE == 0.02
    assert word(math.log(low), math.log(high)) == verdict
