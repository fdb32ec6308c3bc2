"""Sizes of a search: the grid, and how many more it needs to find a planted crossover."""

import math
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.runs.crossovers import crossover
from tests.rooms.decide.test_crossover import POINTS, between_sure, point, sweep

from cpugpu_tui.decide.comparison import (
    CPU_WINS,
    GPU_WINS,
    TIE,
    TOO_FEW,
    UNDECIDED,
    Comparison,
    SweepPoint,
    cheap_between,
)
from cpugpu_tui.decide.crossover import changes_of, judged
from cpugpu_tui.decide.next_size import (
    HOPELESS,
    MOST_GRID,
    grid,
    is_clear,
    is_futile,
    is_hopeless,
    next_size,
    size_above,
    unanswered_size,
    unsure_sizes,
)
from cpugpu_tui.decide.verdict import NARROW, word

RATIO = 1.1
MOST_STEPS = 6
"""method.md, "Crossover"."""

# ------------------------------------------------------------------ the grid


@pytest.mark.parametrize(
    ("lowest", "highest", "sizes"),
    [
        (1, 1, (1,)),
        (7, 8, (7, 8)),
        (16, 2048, (16, 50, 100, 200, 500, 1000, 2048)),
        (1, 10_000, (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)),
        (10_000, 1, (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)),
        (1, 10**12, tuple(10**power for power in range(13))),
    ],
)
def test_a_search_begins_with_1_2_5_between_its_ends(lowest, highest, sizes):
    assert grid(lowest, highest) == sizes


@given(st.integers(1, 10**12), st.integers(1, 10**12))
def test_a_grid_rises_from_end_to_end_and_is_short(one, other):
    sizes = grid(one, other)
    assert (sizes[0], sizes[-1]) == (min(one, other), max(one, other))
    assert len(sizes) <= MOST_GRID
    assert all(below < above for below, above in pairwise(sizes))
    assert all(above / below <= 10 * 1.4 for below, above in pairwise(sizes)), "no gap is much wider than a decade"


# ------------------------------------------------------------------ the next size

AXES = st.tuples(st.integers(100, 10**6), st.floats(1.3, 4.0)).map(
    lambda axis: (axis[0], round(axis[0] * 10 ** axis[1]))
)
"""Lowest and highest size of axes with a 1-2-5 grid; from 100, integers are closer than the ratio."""
PLACES = st.floats(0.001, 0.999)
"""Where on the axis the crossover is planted, as a share of ln(size)."""


def planted(place, axis):
    """The size at which the devices are level."""
    return axis[0] * math.pow(axis[1] / axis[0], place)


def exact(speedup):
    """The verdict without noise."""
    return GPU_WINS if speedup > 1 else CPU_WINS


def with_ties(speedup):
    """The verdict with a tie within 2 % of time."""
    return word(math.log(speedup), math.log(speedup))


def search(sizes, crossing, exponent, verdict, most=60):
    """Search with speedup = (size / crossing)^exponent; return the number of added sizes and the crossover."""
    tried = list(sizes)
    for added in range(most + 1):
        speedups = {size: (size / crossing) ** exponent for size in sorted(tried)}
        points = between_sure(*(point(size, verdict(speedup), speedup) for size, speedup in speedups.items()))
        size = next_size(points, tried, RATIO)
        found = crossover(points)
        if size is None:
            return added, found
        assert found.low < size < found.high, "it lies strictly inside the bracket"
        assert size not in tried
        tried.append(size)
    raise AssertionError(f"not over after {most} sizes")


@given(AXES, PLACES, st.floats(0.2, 3.0), st.booleans())
def test_without_noise_the_bracket_is_narrow_within_six_sizes(axis, place, exponent, rises):
    crossing = planted(place, axis)
    added, found = search(grid(*axis), crossing, exponent if rises else -exponent, exact)
    assert added <= MOST_STEPS
    assert found.ratio <= RATIO
    assert found.low <= crossing <= found.high
    assert found.point == pytest.approx(crossing, rel=1e-6)


@given(AXES, PLACES, st.floats(1.0, 3.0))
def test_ties_around_the_crossing_do_not_keep_the_bracket_wide(axis, place, exponent):
    """If the speedup grows at least like the size, as for all our workloads, 2 % in time are 2 % in size."""
    crossing = planted(place, axis)
    added, found = search(grid(*axis), crossing, exponent, with_ties)
    assert added <= 8
    if found.low is not None and found.high is not None:
        assert found.low <= crossing <= found.high
        assert found.high / found.low <= RATIO


@given(AXES, PLACES, st.floats(0.2, 1.0), st.floats(0.0, 0.02))
def test_a_search_ends_soon_also_where_it_cannot_succeed(axis, place, exponent, noise):
    """A speedup that grows slowly leaves many sizes undecided, and further sizes beside them do not help."""

    def verdict(speedup):
        return word(math.log(speedup) - noise, math.log(speedup) + noise)

    added, _ = search(grid(*axis), planted(place, axis), exponent, verdict)
    assert added <= 10


@given(st.integers(1, 60), st.integers(1, 60))
def test_of_small_sizes_every_one_may_be_tried_and_then_it_is_over(one, other):
    low, high = sorted((one, other))
    _, found = search(grid(low, high), (low + high) / 2 + 0.1, 1.0, exact)
    if found.low is not None and found.high is not None:
        assert found.high - found.low == 1 or found.high / found.low <= RATIO


@pytest.mark.parametrize("letters", ["", "C", "G", "CCC", "GGG", "==", "??", "--", "C=?"])
def test_without_a_crossing_there_is_nothing_to_narrow(letters):
    points = sweep(letters)
    assert next_size(points, [p.size for p in points], RATIO) is None


def test_gaps_in_which_no_device_is_known_to_cost_little_are_divided():
    def compared(size, low, high, winner=UNDECIDED):
        return SweepPoint(size, Comparison((low * high) ** 0.5, low, high, 36, winner))

    lost, open_, cheap = compared(500, 0.4, 0.5, CPU_WINS), compared(1000, 0.98, 1.6), compared(2000, 1.0, 1.05)
    assert unanswered_size([lost, open_], (500, 1000), RATIO) == 707, "the CPU at 500, the GPU alone is cheap at 1,000"
    assert unanswered_size([open_, cheap], (1000, 2000), RATIO) is None, "the GPU is cheap at both"
    assert unanswered_size([open_, compared(3000, 2.0, 2.5, GPU_WINS)], (1000, 3000), RATIO) == 1732, "too far apart"
    assert unanswered_size([lost, open_, cheap], (500, 707, 1000), RATIO) is None, "707 was tried, and is starved"


def test_a_gap_is_judged_by_both_of_its_sizes():
    def compared(size, speedup, low, high):
        return SweepPoint(size, Comparison(speedup, low, high, 36, UNDECIDED))

    noisy = [compared(707, 1.0, 0.9, 1.12), compared(1000, 0.98, 0.9, 1.05)]  # like cholesky with copies, on an H100
    assert cheap_between(noisy) == [{CPU_WINS, GPU_WINS}]
    wide, narrow = compared(1, 1.07, 0.7, 1.6), compared(2, 0.96, 0.82, 1.05)
    assert cheap_between([wide, narrow]) == [set()]
    assert unsure_sizes([wide, narrow]) == [1], "at 2 the CPU alone is cheap"
    apart = [compared(185, 0.8, 0.75, 1.08), compared(200, 1.25, 0.93, 1.33)]
    assert cheap_between(apart) == [set()], "each was observed to cost 25 %, and their mean says nothing"


def test_a_gap_is_judged_by_the_sizes_around_it_too():
    """Of simulated files 98 % were answered, and 90 % when sizes were added to them where both devices are equal."""
    sizes = [SweepPoint(size, Comparison(1.0, 0.86, 1.16, 36, UNDECIDED)) for size in (200, 250, 316, 400)]
    assert [cheap_between(sizes[:2]), cheap_between(sizes)[1]] == [[set()], {CPU_WINS, GPU_WINS}]
    far = [sizes[0]._replace(size=80), *sizes[1:]]
    assert cheap_between(far)[1] == set(), "80 and 400 are too far apart"
    faster = [sizes[0], *(each._replace(comparison=Comparison(1.3, 1.15, 1.5, 36, GPU_WINS)) for each in sizes[1:])]
    assert cheap_between(faster)[1] == {GPU_WINS}


@pytest.mark.parametrize(("low", "high"), [(100, 110), (1, 2), (1000, 1001)])
def test_a_narrow_bracket_is_left_alone(low, high):
    assert next_size([point(low, CPU_WINS), point(high, GPU_WINS)], (low, high), RATIO) is None


def test_the_first_choice_lies_beside_the_level_point_on_the_longer_side():
    rising = [point(100, CPU_WINS, 100 / 120), point(1000, GPU_WINS, 1000 / 120)]
    size = next_size(rising, (100, 1000), RATIO)
    assert 120 < size <= 126
    late = [point(100, CPU_WINS, 100 / 800), point(1000, GPU_WINS, 1000 / 800)]
    size = next_size(late, (100, 1000), RATIO)
    assert 760 <= size < 800


def test_every_change_of_the_winner_is_narrowed():
    def winner(size):
        return GPU_WINS if 30 <= size < 300 or size >= 3000 else CPU_WINS

    tried, gaps = [10, 100, 1000, 10_000], []
    while (size := next_size(points := [point(each, winner(each)) for each in tried], tried, RATIO)) is not None:
        gaps.append(next(index for index, each in enumerate(changes_of(judged(points))) if each.low < size < each.high))
        tried.append(size)
    assert {*gaps} == {0, 1, 2}
    assert all(each.high / each.low <= RATIO for each in changes_of(judged(points)))
    assert len(tried) < 40


def test_a_plateau_is_left_behind_in_a_few_steps():
    """On an H200, the search of `embedding` tried 1,044, 1,187, 1,350 and 1,603 between 505 and 10,000, and ended."""
    points = [point(505, CPU_WINS, 0.75), point(1000, UNDECIDED, 0.98), point(10_000, GPU_WINS, 6.16)]
    while (size := next_size(points, [each.size for each in points], RATIO)) is not None:
        points.append(point(size, GPU_WINS, 2.0) if size > 3000 else point(size, UNDECIDED, 0.96))
    found = crossover(points)
    assert 3000 < found.high < 3500
    assert len(points) <= 14


@pytest.mark.parametrize(
    ("rounds", "speedup", "half", "most", "futile"),
    [
        (9, 1.01, 0.2, 60, True), (8, 1.01, 0.2, 60, False), (9, 1.2, 0.2, 60, False), (40, 1.2, 0.3, 60, True),
        (9, 1.01, 0.02, 60, False), (12, 0.99, 0.2, 24, True),
    ],
)  # fmt: skip
def test_more_rounds_are_futile_where_the_last_would_not_decide(rounds, speedup, half, most, futile):
    found = Comparison(speedup, speedup * math.exp(-half), speedup * math.exp(half), rounds, UNDECIDED)
    assert is_futile(found, most) is futile


def test_the_first_two_wide_gaps_above_a_crossover_get_a_size():
    points = [point(100, CPU_WINS), *(point(size, GPU_WINS) for size in (110, 1000, 1500, 10_000))]
    tried = [each.size for each in points]
    assert size_above(points, tried, ()) == 332
    assert size_above(points, [*tried, 332], (332,)) is None, "the second gap is narrow"
    assert size_above(points[1:], tried, ()) is None, "no crossover"
    wide = [point(100, CPU_WINS), *(point(size, GPU_WINS) for size in (110, 1000, 10_000, 100_000))]
    assert size_above(wide, [each.size for each in wide] + [332], (332,)) == 3162
    assert size_above(wide, [each.size for each in wide] + [332, 3162], (332, 3162)) is None


def test_a_size_that_failed_is_not_proposed_again():
    points, tried = [point(100, CPU_WINS), point(200, GPU_WINS)], [100, 200]
    for _ in range(20):
        size = next_size(points, tried, RATIO)
        if size is None:
            break
        assert size not in tried
        assert 100 < size < 200
        tried.append(size)
    assert len(tried) < 22


def test_between_small_sizes_no_rounding_leads_back_to_one_that_was_tried():
    for low, undecided, high in combinations(range(1, 40), 3):
        points = [point(low, CPU_WINS), point(undecided, UNDECIDED), point(high, GPU_WINS)]
        size = next_size(points, (low, undecided, high), RATIO)
        assert size is None or (low < size < high and size != undecided)


@given(POINTS, st.sets(st.integers(1, 10**6)), st.floats(1.0, 3.0))
def test_whatever_is_known_a_choice_is_new_and_inside_the_bracket(points, others, ratio):
    tried = others | {p.size for p in points}
    size = next_size(points, tried, ratio)
    if size is None:
        return
    assert size not in tried
    assert any(each.low < size < each.high and each.high / each.low > ratio for each in changes_of(judged(points)))


# ------------------------------------------------------------------ enough, and hopeless


@pytest.mark.parametrize(
    ("comparison", "clear"),
    [
        (None, False),
        (Comparison(2.0, None, None, 3, TOO_FEW), False),
        (Comparison(2.0, 1.5, 2.5, 8, GPU_WINS), True),
        (Comparison(0.5, 0.4, 0.6, 8, CPU_WINS), True),
        (Comparison(1.0, 0.9, 1.1, 8, UNDECIDED), False),
        (Comparison(1.0, 0.985, 1.015, 8, TIE), False),
        (Comparison(1.02, 1.02 / (1 + NARROW / 2), 1.02 * (1 + NARROW / 2), 8, UNDECIDED), True),
        (Comparison(1.0, 0.995, 1.005, 8, TIE), True),
    ],
)
def test_a_winner_is_clear_and_so_is_an_interval_that_gets_no_narrower(comparison, clear):
    assert is_clear(comparison) is clear


@pytest.mark.parametrize(
    ("speedups", "hopeless"),
    [
        ([], False), ([500.0], False), ([21.0, 30.0], True), ([500.0, 600.0, 19.0], False),
        ([19.0, 21.0], False), ([0.5, 21.0, 30.0], True), ([HOPELESS, HOPELESS], False), ([30.0, 19.0], False),
    ],
)  # fmt: skip
def test_the_cpu_is_hopeless_after_two_sizes_in_a_row(speedups, hopeless):
    assert is_hopeless(speedups) is hopeless
