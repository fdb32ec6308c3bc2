"""Intervals over starts of the process: coverage of the machine's mean and of the next run, and sizes to repeat."""

import math
import random

import pytest
from tests.helpers.bench.start_trials import Machine, brackets, held
from tests.helpers.runs.crossovers import crossover

from cpugpu_tui.decide.comparison import CPU_WINS, GPU_WINS, UNDECIDED, Comparison, SweepPoint
from cpugpu_tui.decide.starts import Spread, earlier_spread, sizes_to_repeat, spread, starts_interval
from cpugpu_tui.decide.stats import quantile
from cpugpu_tui.decide.verdict import compare


def rounds(log, count=8):
    """Rounds of e^log µs, which differ by 1 %."""
    return {index: 1e3 * math.exp(log + 0.01 * (index % 2)) for index in range(1, count + 1)}


def test_the_interval_is_that_of_student():
    from scipy.stats import t

    values = [0.1, 0.3, -0.2, 0.05, 0.4]
    found = starts_interval(values)
    low, high = t.interval(0.95, 4, 0.13, math.sqrt(spread(values).squares / 4 / 5))
    assert found == pytest.approx((0.13, low, high), rel=1e-4)


def test_earlier_starts_moderate_the_variance():
    found = starts_interval([0.0, 0.2], Spread(0.9, 9))
    assert found.half_width == pytest.approx(quantile(0.05, 10) * math.sqrt((0.9 + 0.02) / 10 / 2))


def test_one_start_has_the_spread_of_earlier_starts_and_none_without_them():
    earlier = [0.1, 0.3, -0.2, 0.05]
    found = starts_interval([0.5], earlier_spread(earlier))
    assert found.center == 0.5
    assert found.half_width == pytest.approx(quantile(0.05, 3) * math.sqrt(spread(earlier).squares / 3))
    assert starts_interval([0.5]) is None
    assert earlier_spread(earlier[:2]).degrees == 0


def test_only_the_newest_earlier_starts_count():
    assert earlier_spread([9.0] * 50 + [0.0, 1.0] * 10) == spread([0.0, 1.0] * 10)


@pytest.mark.parametrize(("starts", "earlier"), [(3, 0), (5, 0), (1, 10)])
def test_intervals_hold_the_mean_of_a_machine_whose_starts_differ(starts, earlier):
    machine = Machine(cpu_start=0.14, gpu_start=0.10)
    found = held(machine, starts=starts, earlier=earlier, trials=400, seed=3)
    assert found.mean >= 0.92
    assert found.next_run >= 0.80


def test_equal_devices_whose_starts_differ_have_no_winner():
    found = [held(Machine(0.14, 0.10), starts=starts, earlier=earlier, trials=200, seed=4).named
             for starts, earlier in ((1, 0), (1, 10), (5, 0))]  # fmt: skip
    assert found[0] >= 0.08  # within its start, each run is right
    assert max(found[1:]) <= 0.06


def test_with_slow_starts_intervals_hold_less_unless_earlier_starts_are_known():
    """The CPU takes twice as long in 30 % of starts: five of them miss the slow ones in a sixth of runs."""
    slow = Machine(0.14, 0.10, slow_share=0.3)
    one, five, known = (held(slow, starts=k, earlier=e, trials=400, seed=7).mean for k, e in ((1, 0), (5, 0), (5, 10)))
    assert one <= 0.65
    assert five >= 0.82
    assert known >= 0.92


def test_an_interval_within_one_start_does_not():
    found = held(Machine(cpu_start=0.14, gpu_start=0.10, rounds=0.03), starts=1, earlier=0, trials=100, seed=4)
    assert found.mean <= 0.5


def test_starts_that_disagree_have_no_winner():
    """Within the first start the GPU is 20 % faster; over all starts nobody knows."""
    first = rounds(0.2), rounds(0.0)
    later = [(rounds(-0.2), rounds(0.0)), (rounds(0.1), rounds(0.0))]
    alone, over_starts = compare(*first), compare(*first, later=later)
    assert (alone.verdict, alone.covers_starts) == (GPU_WINS, False)
    assert (over_starts.verdict, over_starts.starts, over_starts.covers_starts) == (UNDECIDED, 3, True)
    assert (over_starts.speedup, over_starts.rounds) == (pytest.approx(math.exp(0.1 / 3)), 24)


def test_one_start_with_a_history_keeps_what_was_seen_within_it():
    alone = compare(rounds(0.2), rounds(0.0))
    found = compare(rounds(0.2), rounds(0.0), earlier=spread([0.0, 0.3, -0.1, 0.2]))
    assert (found.within_low, found.within_high) == (alone.low, alone.high)
    assert found.low < alone.low
    assert found.verdict == UNDECIDED


def judged(size, log, half, starts=1):
    low, high = math.exp(log - half), math.exp(log + half)
    verdict = GPU_WINS if low > 1.02 else CPU_WINS if high < 1 / 1.02 else UNDECIDED
    return SweepPoint(size, Comparison(math.exp(log), low, high, 20, verdict, starts, starts - 1))


def test_a_size_of_one_start_decides_only_if_another_start_could_not_refute_it():
    timed = [judged(100, -1.4, 0.05), judged(180, -0.2, 0.02), judged(200, -0.05, 0.3, 5), judged(210, 0.1, 0.3, 5)]
    timed += [judged(240, 0.3, 0.02), judged(500, 2.0, 0.3, 5)]
    found = crossover(timed)
    assert (found.low, found.high) == (100, 500)
    once = crossover([point._replace(comparison=point.comparison._replace(starts=1, degrees=0)) for point in timed])
    assert (once.low, once.high) == (180, 240)


def test_further_starts_time_the_sizes_that_decide():
    logs = [(50, -2.0), (100, -1.0), (170, -0.35), (190, -0.1), (210, 0.1), (250, 0.4), (500, 1.5), (2000, 3.0)]
    copies = [(size, log - 1.2) for size, log in logs]
    assert sizes_to_repeat(logs, copies) == [170, 190, 210, 250, 500, 2000]
    assert sizes_to_repeat(logs) == [50, 170, 190, 210, 250, 2000]


def test_without_a_change_they_are_spread_over_the_sweep():
    logs = [(size, 0.1 + 0.1 * random.Random(size).random()) for size in range(10, 200, 10)]
    found = sizes_to_repeat(logs)
    assert {10, 190} <= set(found)
    assert len(found) == 6
    assert sizes_to_repeat([]) == []
    assert sizes_to_repeat([(7, 1.0)]) == [7]


def test_brackets_of_five_starts_hold_the_crossover_and_those_of_one_do_not():
    five, one = brackets(starts=5, searches=6), brackets(starts=1, searches=8)
    assert (five.held >= 5, five.disjoint, five.missing) == (True, 0, 0)  # of 40 it is 39: they promise 95 %
    assert five.median_ratio < 3
    assert one.held <= 7
    slow = brackets(starts=5, searches=6, slow_share=0.3)
    assert (slow.held >= 5, slow.missing) == (True, 0)  # of 24 it is 23: they promise 95 %
