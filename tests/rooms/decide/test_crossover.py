"""The crossover: kinds of sweeps, bracket and point, from planted verdicts and from any numbers."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.runs import crossovers

from cpugpu_tui.decide.comparison import (
    CPU_WINS,
    GPU_OBSERVED,
    GPU_WINS,
    TIE,
    TOO_FEW,
    UNDECIDED,
    Comparison,
    SweepPoint,
)
from cpugpu_tui.decide.crossover import changes_of, placed
from cpugpu_tui.decide.verdict import compare, word

LETTERS = {"C": CPU_WINS, "G": GPU_WINS, "=": TIE, "?": UNDECIDED, "-": TOO_FEW}


def point(size, verdict, speedup=None, rounds=8):
    """A size with a verdict and a matching speedup."""
    fitting = {CPU_WINS: 0.5, GPU_WINS: 2.0}.get(verdict, 1.0) if speedup is None else speedup
    if verdict == TOO_FEW:
        return SweepPoint(size, Comparison(fitting, None, None, rounds, verdict))
    return SweepPoint(size, Comparison(fitting, 0.99 * fitting, 1.01 * fitting, rounds, verdict))


def sweep(letters):
    """Sizes 10, 20, …: the CPU wins C, the GPU wins G, the others have no winner."""
    return [point(10 * index, LETTERS[letter]) for index, letter in enumerate(letters, 1)]


def between_sure(*points):
    """The points, and beyond both ends a size that the device of that end wins without doubt."""
    outer = point(1, points[0].comparison.verdict), point(10**15, points[-1].comparison.verdict)
    return [outer[0], *points, outer[1]]


# ------------------------------------------------------------------ kinds


@pytest.mark.parametrize(
    ("letters", "kind", "bracket", "first_win", "changes", "rises"),
    [
        ("", crossovers.NOTHING, (None, None), None, 0, False),
        ("---", crossovers.TOO_FEW_ROUNDS, (None, None), None, 0, False),
        ("==", crossovers.TIES, (None, None), None, 0, False),
        ("=?", crossovers.NO_WINNER, (None, None), None, 0, False),
        ("??-", crossovers.NO_WINNER, (None, None), None, 0, False),
        ("=-", crossovers.NO_WINNER, (None, None), None, 0, False),
        ("G", crossovers.ALWAYS, (None, None), 10, 0, True),
        ("C", crossovers.NEVER, (None, None), None, 0, False),
        ("GGG", crossovers.ALWAYS, (None, None), 10, 0, True),
        ("CCC", crossovers.NEVER, (None, None), None, 0, False),
        ("?=GG-", crossovers.ALWAYS, (None, None), 30, 0, True),
        ("-C=?", crossovers.NEVER, (None, None), None, 0, False),
        ("CCGG", crossovers.RISES, (20, 30), 30, 1, True),
        ("CG", crossovers.RISES, (10, 20), 20, 1, True),
        ("C?=-GG", crossovers.RISES, (10, 50), 50, 1, True),
        ("?C=G?", crossovers.RISES, (20, 40), 40, 1, True),
        ("CGGGG", crossovers.RISES, (10, 20), 20, 1, True),
        ("CCCCG", crossovers.RISES, (40, 50), 50, 1, True),
        ("GGCC", crossovers.FALLS, (20, 30), 10, 1, False),
        ("G??C", crossovers.FALLS, (10, 40), 10, 1, False),
        ("CGCG", crossovers.SEVERAL, (30, 40), 20, 3, True),
        ("CGC", crossovers.SEVERAL, (20, 30), 20, 2, False),
        ("GCG", crossovers.SEVERAL, (20, 30), 10, 2, True),
        ("GC?GC", crossovers.SEVERAL, (40, 50), 10, 3, False),
        ("CGCCC?GGG", crossovers.SEVERAL, (50, 70), 20, 3, True),
    ],
)
def test_every_sweep_has_one_kind_and_the_bracket_of_its_last_change(letters, kind, bracket, first_win, changes, rises):
    found = crossovers.crossover(sweep(letters))
    assert found.kind == kind
    assert (found.low, found.high) == bracket
    assert (found.first_win, found.changes, found.rises) == (first_win, changes, rises)
    assert (found.point is None) == (found.low is None) == (found.ratio is None)
    assert [p.size for p in found.points] == [p.size for p in sweep(letters)]


def test_the_ratio_of_a_bracket_is_upper_by_lower_end():
    assert crossovers.crossover(sweep("CCGG")).ratio == 1.5


# ------------------------------------------------------------------ a winner that no size is sure of


def near(size, verdict, speedup, rounds=24):
    """A size with an interval of ± 5 %."""
    return SweepPoint(size, Comparison(speedup, speedup / 1.05, speedup * 1.05, rounds, verdict))


def test_a_device_wins_nowhere_in_a_sweep_unless_one_size_is_sure_at_the_shared_level():
    """A winner by its own 95 % interval is wrong at one in twenty sizes of equal devices."""
    ties = [near(10 * index, UNDECIDED, 1.0) for index in range(1, 19)]
    doubtful = near(200, GPU_WINS, 1.08)
    found = crossovers.crossover([*ties, doubtful])
    assert found.kind == crossovers.NO_WINNER
    shown = found.points[-1].comparison
    assert (shown.speedup, shown.verdict) == (1.08, UNDECIDED)
    assert (shown.low or 9) < 1 < 1.08 * 1.05 < (shown.high or 0), "the interval that took its winner is shown"
    assert crossovers.crossover([doubtful]).kind == crossovers.ALWAYS, "one size alone shares its level with none"
    assert crossovers.crossover([*ties, near(200, GPU_WINS, 1.3)]).kind == crossovers.ALWAYS


def test_once_a_device_is_sure_its_other_winners_end_the_bracket():
    ends = near(200, CPU_WINS, 1 / 1.08), near(210, UNDECIDED, 1.0), near(220, GPU_WINS, 1.08)
    assert crossovers.crossover(ends).low is None
    found = crossovers.crossover([point(100, CPU_WINS), *ends, point(500, GPU_WINS)])
    assert (found.kind, found.low, found.high) == (crossovers.RISES, 200, 220)
    assert crossovers.crossover([point(100, CPU_WINS), *ends]).kind == crossovers.NEVER


@pytest.mark.parametrize(
    ("rounds", "speedup", "kind"),
    [(6, 2.0, crossovers.NO_WINNER), (7, 2.0, crossovers.ALWAYS), (6, 3.0, crossovers.ALWAYS)],
)
def test_few_rounds_are_sure_of_a_large_ratio_alone(rounds, speedup, kind):
    """Six rounds in one of two modes occurred in 15 % of simulated searches with equal devices."""
    assert crossovers.crossover([point(10, GPU_WINS, speedup, rounds), point(20, UNDECIDED)]).kind == kind


@pytest.mark.parametrize(("speedup", "kind"), [(2.9, crossovers.TOO_FEW_ROUNDS), (3.1, crossovers.ALWAYS)])
def test_an_observation_is_sure_of_a_large_ratio_alone(speedup, kind):
    observed = SweepPoint(20, Comparison(speedup, None, None, 3, GPU_OBSERVED))
    assert crossovers.crossover([point(10, TOO_FEW), observed]).kind == kind


# ------------------------------------------------------------------ the point


@pytest.mark.parametrize("crossing", [11.0, 20.0, 31.7, 399.0])
@pytest.mark.parametrize("exponent", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("rises", [True, False])
def test_between_two_sizes_of_a_power_law_the_point_is_exact(crossing, exponent, rises):
    """Speed-up = (size / crossing)^exponent is a straight line in ln over ln."""
    sign = exponent if rises else -exponent
    points = [
        point(size, GPU_WINS if ((size > crossing) == rises) else CPU_WINS, (size / crossing) ** sign)
        for size in (10, 400)
    ]
    found = crossovers.crossover(between_sure(*points))
    assert found.kind == (crossovers.RISES if rises else crossovers.FALLS)
    assert found.point == pytest.approx(crossing, rel=1e-9)


def test_undecided_sizes_within_the_bracket_help_to_find_the_point():
    sizes = {10: CPU_WINS, 90: UNDECIDED, 110: UNDECIDED, 1000: GPU_WINS}
    law = [point(size, verdict, size / 100) for size, verdict in sizes.items()]
    assert crossovers.crossover(law).point == pytest.approx(100.0, rel=1e-9)
    bent = [law[0], point(90, UNDECIDED, 1.0), point(110, UNDECIDED, 1.2), law[3]]
    found = crossovers.crossover(bent)
    assert 80 < found.point < 100


def test_sizes_outside_the_bracket_do_not_move_the_point():
    inner = [point(10, CPU_WINS, 0.5), point(40, GPU_WINS, 2.0)]
    outer = [point(1, CPU_WINS, 0.001), point(1000, GPU_WINS, 2.1)]
    assert crossovers.crossover([*inner, *outer]).point == crossovers.crossover(inner).point == pytest.approx(20.0)


def test_a_line_that_leans_the_wrong_way_leaves_what_the_ends_say():
    """Noise inside the bracket can reverse the slope."""
    points = [point(10, CPU_WINS, 0.97), point(11, UNDECIDED, 40.0), point(900, UNDECIDED, 0.1), point(1000, GPU_WINS)]
    ends = crossovers.crossover(between_sure(points[0], points[-1]))
    assert crossovers.crossover(between_sure(*points)).point == pytest.approx(ends.point)
    level = between_sure(point(10, CPU_WINS, 1.0), point(1000, GPU_WINS, 1.0))
    assert crossovers.crossover(level).point == pytest.approx(100.0)


def test_a_noisy_point_inside_the_bracket_hardly_moves_the_crossover():
    ends = [SweepPoint(957, Comparison(0.9, 0.89, 0.92, 12, CPU_WINS)),
            SweepPoint(1138, Comparison(1.07, 1.05, 1.09, 12, GPU_WINS))]  # fmt: skip
    noise = SweepPoint(1000, Comparison(1.19, 0.7, 2.1, 24, UNDECIDED))
    assert crossovers.crossover([*ends, noise]).point == pytest.approx(crossovers.crossover(ends).point, rel=0.01)


@pytest.mark.parametrize(
    ("inside", "gap"),
    [
        ((), (100, 1000)), ((0.859,), (200, 1000)), ((1.2,), (100, 200)), ((0.9, 1.1), (200, 400)),
        ((1.1, 0.9), None), ((0.9, 1.1, 0.95), None),
    ],
)  # fmt: skip
def test_the_point_that_is_shown_contradicts_no_size_inside_the_bracket(inside, gap):
    """On an H200 the GPU won "from n ≈ 179", and the row of 200 read 0.859×."""
    middle = [point(200 * 2**place, UNDECIDED, speedup) for place, speedup in enumerate(inside)]
    points = [point(100, CPU_WINS, 0.3), *middle, point(1000, GPU_WINS, 8.0)]
    (change,) = changes_of(points)
    found = placed(change, points)
    assert (found.low, found.high, found.gap) == (100, 1000, gap)
    if gap is not None:
        assert gap[0] < found.point < gap[1]
    mirrored = [point(p.size, {CPU_WINS: GPU_WINS, GPU_WINS: CPU_WINS}.get(p.comparison.verdict, UNDECIDED),
                      1 / p.comparison.speedup) for p in points]  # fmt: skip
    assert placed(changes_of(mirrored)[0], mirrored)._replace(rises=True) == found._replace(
        point=pytest.approx(found.point)
    )


@pytest.mark.parametrize(("speedups", "end"), [((1.5, 40.0), 10), ((0.01, 0.9), 1000)])
def test_a_line_that_is_level_outside_the_bracket_stops_at_its_end(speedups, end):
    """A verdict comes from the mean of all rounds, so a speedup on the wrong side of 1 is noise."""
    points = between_sure(point(10, CPU_WINS, speedups[0]), point(1000, GPU_WINS, speedups[1]))
    assert crossovers.crossover(points).point == pytest.approx(end)


def test_rounding_does_not_take_the_point_out_of_the_bracket():
    """exp(log(n)) is a little below or above n for most n."""
    for size in range(2, 2000):
        for speedups in ((1.0, 40.0), (0.01, 1.0)):
            ends = point(size, CPU_WINS, speedups[0]), point(size + 1, GPU_WINS, speedups[1])
            found = crossovers.crossover(between_sure(*ends))
            assert size <= found.point <= size + 1


# ------------------------------------------------------------------ odd input


def test_of_a_repeated_size_the_one_with_most_rounds_counts():
    few, many = point(20, CPU_WINS, rounds=8), point(20, GPU_WINS, rounds=40)
    for repeated in ([few, many], [many, few]):
        found = crossovers.crossover([point(10, CPU_WINS), *repeated, point(30, GPU_WINS)])
        assert (found.low, found.high) == (10, 20)
        assert [p.size for p in found.points] == [10, 20, 30]
        assert found.points[1] is many


@pytest.mark.parametrize("speedup", [math.nan, math.inf, -math.inf, 0.0, -2.0])
def test_a_speedup_that_is_no_number_is_no_point(speedup):
    found = crossovers.crossover([*sweep("CG"), point(15, GPU_WINS, speedup), point(30, CPU_WINS, speedup)])
    assert found == crossovers.crossover(sweep("CG"))
    assert crossovers.crossover([point(10, GPU_WINS, speedup)]) == crossovers.Crossover(crossovers.NOTHING)


@pytest.mark.parametrize("size", [0, -5])
def test_a_size_without_a_logarithm_is_no_point(size):
    assert crossovers.crossover([point(size, CPU_WINS), *sweep("GG")]).kind == crossovers.ALWAYS


def test_neighbours_at_the_far_end_of_the_numbers_have_a_point_between_them():
    """Neighbouring sizes whose logarithms are equal as floats."""
    found = crossovers.crossover([point(10**17, CPU_WINS), point(10**17 + 1, GPU_WINS)])
    assert (found.kind, found.point) == (crossovers.RISES, pytest.approx(1e17))


# ------------------------------------------------------------------ any numbers

COMPARISONS = st.builds(
    Comparison,
    speedup=st.floats() | st.floats(1e-3, 1e3),
    low=st.none() | st.floats(),
    high=st.none() | st.floats(),
    rounds=st.integers(-1, 60),
    verdict=st.sampled_from([GPU_WINS, CPU_WINS, GPU_WINS, CPU_WINS, TIE, UNDECIDED, TOO_FEW, "unheard of"]),
)
SIZES = st.integers(1, 60) | st.integers(-2, 10**15)
POINTS = st.lists(st.builds(SweepPoint, SIZES, COMPARISONS), max_size=30)


def decided(found):
    return [p for p in found.points if p.comparison.verdict in (CPU_WINS, GPU_WINS)]


@given(POINTS)
def test_no_points_break_it_and_the_point_lies_in_an_ordered_bracket(points):
    found = crossovers.crossover(points)
    sizes = [p.size for p in found.points]
    assert sizes == sorted(set(sizes))
    given = {(p.size, p.comparison.speedup): p.comparison.verdict for p in points}
    assert {(p.size, p.comparison.speedup) for p in found.points} <= set(given)
    if found.low is None or found.high is None or found.point is None:
        assert found.kind not in (crossovers.RISES, crossovers.FALLS, crossovers.SEVERAL)
        assert (found.low, found.high, found.point, found.changes) == (None, None, None, 0)
        return
    assert found.low < found.high
    assert found.low <= found.point <= found.high
    assert found.changes >= 1
    ends = [p.comparison.verdict for p in decided(found) if p.size in (found.low, found.high)]
    assert ends == ([CPU_WINS, GPU_WINS] if found.rises else [GPU_WINS, CPU_WINS])
    assert not [p for p in decided(found) if found.low < p.size < found.high]
    assert {p.comparison.verdict for p in decided(found) if p.size >= found.high} == {ends[1]}


@given(POINTS, st.randoms(use_true_random=False))
def test_the_order_of_the_points_does_not_matter(points, dice):
    shuffled = list(points)
    dice.shuffle(shuffled)
    assert repr(crossovers.crossover(shuffled)) == repr(crossovers.crossover(points))


ROUNDS = st.lists(st.tuples(st.floats(1.0, 1e9), st.floats(1.0, 1e9)), min_size=1, max_size=12)


def of_rounds(sizes, factor=1.0):
    """The crossover of sizes 10, 20, …, each with rounds of (CPU, GPU), ns."""
    points = []
    for index, rounds in enumerate(sizes, 1):
        cpu_ns, gpu_ns = ({r: factor * pair[place] for r, pair in enumerate(rounds)} for place in (0, 1))
        comparison = compare(cpu_ns, gpu_ns)
        assert comparison is not None
        points.append(SweepPoint(10 * index, comparison))
    return crossovers.crossover(points)


def is_at_a_margin(comparison):
    """Whether rounding errors alone may change the verdict."""
    if comparison.low is None or comparison.high is None:
        return False
    ends = math.log(comparison.low), math.log(comparison.high)
    return len({word(ends[0] + a, ends[1] + b) for a in (-1e-9, 0, 1e-9) for b in (-1e-9, 0, 1e-9)}) > 1


@given(st.lists(ROUNDS, max_size=6), st.floats(1e-3, 1e3))
def test_a_machine_that_is_slower_in_all_has_the_same_crossover(sizes, factor):
    before, after = of_rounds(sizes), of_rounds(sizes, factor)
    if any(is_at_a_margin(p.comparison) for p in before.points):
        return
    assert [p.comparison.verdict for p in after.points] == [p.comparison.verdict for p in before.points]
    assert (after.kind, after.low, after.high) == (before.kind, before.low, before.high)
    assert (after.first_win, after.changes, after.rises) == (before.first_win, before.changes, before.rises)
    if before.point is not None:
        assert after.point == pytest.approx(before.point, rel=1e-6)


@given(st.lists(ROUNDS.filter(lambda rounds: len(rounds) >= 5), min_size=1, max_size=6))
def test_with_the_devices_exchanged_the_bracket_stays_and_the_winner_changes(sizes):
    one, other = of_rounds(sizes), of_rounds([[(gpu, cpu) for cpu, gpu in rounds] for rounds in sizes])
    if any(is_at_a_margin(p.comparison) for p in one.points):
        return
    assert (other.low, other.high, other.changes) == (one.low, one.high, one.changes)
    if one.low is not None:
        assert other.rises != one.rises
