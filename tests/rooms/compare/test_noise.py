"""The noise floor: what it promises of a comparison is what a comparison finds."""

import math
import random

import pytest

from cpugpu_tui.analysis.compare import FASTER, SLOWER, judge
from cpugpu_tui.analysis.pairs import Pair
from cpugpu_tui.compare.series import Floor, by_class, grown
from cpugpu_tui.model import LATENCY

SPREAD = 0.02


def floor(spread=SPREAD, device="CPU", degrees=4.0):
    return Floor("matmul/default/64/float32/all", device, LATENCY, 1e4, spread, degrees, 0.0)


def times(draw, count, factor=1.0):
    return {str(draw.random()): 1e4 * factor * math.exp(draw.gauss(0, SPREAD)) for _ in range(count)}


@pytest.mark.parametrize("runs", [3, 5, 10])
def test_a_change_of_the_floor_is_found_in_nine_of_ten_comparisons(runs):
    draw, planted = random.Random(runs), 1 + floor().change(runs)
    words = [judge([Pair("a", "CPU", times(draw, runs), times(draw, runs, planted))])[0].verdict for _ in range(600)]
    assert 0.86 <= sum(word in (FASTER, SLOWER) for word in words) / 600 <= 0.96


def test_two_single_runs_differ_by_more_than_the_floor_in_one_of_twenty():
    draw, beyond = random.Random(1), 0
    for _ in range(2_000):
        known = [math.log(ns) for ns in times(draw, 5).values()]
        middle = sum(known) / 5
        spread = math.sqrt(sum((each - middle) ** 2 for each in known) / 4)
        one, other = (next(iter(times(draw, 1).values())) for _ in range(2))
        beyond += abs(math.log(one / other)) > math.log1p(floor(spread).change(1))
    assert 0.035 <= beyond / 2_000 <= 0.065


def test_only_a_class_that_became_much_noisier_is_named():
    before = [floor(0.01), floor(0.02), floor(0.01, "GPU")]
    now = [floor(0.03), floor(0.03), floor(0.012, "GPU")]
    assert by_class(before)["CPU"] == pytest.approx(math.sqrt((0.01**2 + 0.02**2) / 2))
    assert grown(before, now) == {"CPU": pytest.approx(0.03 / math.sqrt(0.00025))}
    assert grown([], now) == {}
