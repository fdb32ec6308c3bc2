"""Segments of a sweep, the changes between them, and its class, by a letter for each size."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.runs.planted_report import with_copies

from cpugpu_tui.decide.comparison import CPU_WINS, GPU_WINS, TIE, Comparison
from cpugpu_tui.decide.comparison import UNDECIDED as UNCLEAR
from cpugpu_tui.report import segments

MISMATCH = "mismatch"
KINDS = {
    "C": (segments.CPU, "", Comparison(1 / 8, 1 / 9, 1 / 7, 9, CPU_WINS)),
    "G": (segments.GPU, "", Comparison(8.0, 7.0, 9.0, 9, GPU_WINS)),
    "=": (segments.EQUAL, "", Comparison(1.0, 0.99, 1.01, 9, TIE)),
    "?": (segments.UNDECIDED, segments.NOISY, Comparison(1.2, 0.7, 2.0, 9, UNCLEAR)),
    "g": (
        segments.UNDECIDED,
        segments.NOISY,
        Comparison(1.2, 0.95, 1.5, 9, UNCLEAR),
    ),  # choosing the GPU costs at most 5 %
    "-": (segments.NOT_TIMED, segments.SKIPPED, None),
    "x": (segments.NOT_TIMED, MISMATCH, None),
}


def sizes(letters, step=2.0):
    """Sizes from 64 on, each `step` times the one before."""
    return [segments.Size(round(64 * step**place), *KINDS[letter]) for place, letter in enumerate(letters)]


def drawn(letters, step=2.0):
    """The segments of sizes, as `CPU 64-128 | GPU 256`."""
    return " | ".join(
        f"{part.judgement}{f' {part.reason}' if part.reason else ''} {part.first}"
        f"{f'-{part.last}' if part.last > part.first else ''}" for part in segments.segments_of(sizes(letters, step))
    )  # fmt: skip


@pytest.mark.parametrize(
    ("letters", "expected"),
    [
        ("", ""),
        ("CCGG", "CPU 64-128 | GPU 256-512"),
        ("C?G", "CPU 64 | undecided noise 128 | GPU 256"),
        ("G?G", "GPU 64 | undecided noise 128 | GPU 256"),
        ("GgG", "GPU 64-256"),
        ("G=G", "GPU 64-256"),
        ("G=gG", "GPU 64 | equal 128 | undecided noise 256 | GPU 512"),
        ("CgC", "CPU 64 | undecided noise 128 | CPU 256"),  # it would cost up to 50 % there
        ("Gg", "GPU 64 | undecided noise 128"),
        ("GgC", "GPU 64 | undecided noise 128 | CPU 256"),
        ("GxG", "GPU 64 | not timed mismatch 128 | GPU 256"),
        ("G-G", "GPU 64 | not timed skipped 128 | GPU 256"),  # the gap is wider than 2.5
        ("--", "not timed skipped 64-128"),
    ],
)
def test_segments(letters, expected):
    assert drawn(letters) == expected


def test_a_gap_wider_than_two_and_a_half_ends_a_segment():
    assert drawn("GG", segments.WIDEST_GAP) == "GPU 64-160"
    assert drawn("GG", segments.WIDEST_GAP + 0.1) == "GPU 64 | GPU 166"


@pytest.mark.parametrize("winner", [segments.CPU, segments.GPU])
@pytest.mark.parametrize(("leads", "is_one"), [((2.4, 2.4), True), ((2.3, 2.4), False), ((1.1, 5.2), True)])
def test_a_segment_ends_where_a_device_leads_by_too_little(leads, is_one, winner):
    """On simulated GPUs with tiles of 128 the CPU won by 25 % at 257, between sizes with 1.4× and 2.6×."""
    found = [
        segments.Size(
            64 * 2**place, winner, "", Comparison(each if winner == segments.GPU else 1 / each, None, None, 9, winner)
        )
        for place, each in enumerate(leads)
    ]
    assert (len(segments.segments_of(found)) == 1) == is_one


@pytest.mark.parametrize("winner", [segments.CPU, segments.GPU])
def test_a_device_that_is_faster_at_the_upper_size_than_the_other_at_the_lower_one_wins_between_them(winner):
    """Both leads are small, but times grow with size: no size between can take the other device less time."""

    def found(upper_ns):
        ends = [segments.Size(64, winner, "", Comparison(1.1, None, None, 9, winner), 110.0, 110.0),
                segments.Size(128, winner, "", Comparison(1.1, None, None, 9, winner), upper_ns, upper_ns)]  # fmt: skip
        return len(segments.segments_of(ends))

    assert (found(110.0), found(111.0)) == (1, 2)


def test_a_size_that_was_never_reached_does_not_split_what_is_near_enough():
    assert drawn("G-G", 1.5) == "GPU 64-144"
    assert drawn("GxG", 1.5) == "GPU 64 | not timed mismatch 96 | GPU 144"


def test_a_segment_carries_the_upper_bound_of_its_cost():
    (part,) = segments.segments_of(sizes("GgG"))
    assert (part.inside, part.cost) == ((128,), pytest.approx(1 / 0.95 - 1))
    (undecided,) = segments.segments_of(sizes("?"))
    assert undecided.cost == pytest.approx(1 / 0.7 - 1), "the better of both choices"
    (untimed,) = segments.segments_of(sizes("x"))
    assert untimed.cost == math.inf


@pytest.mark.parametrize(
    ("letters", "kind"),
    [
        ("", segments.NONE_TIMED), ("-x", segments.NONE_TIMED), ("??", segments.NOT_DECIDED), ("=?",
            segments.NOT_DECIDED), ("==", segments.ALL_EQUAL),
        ("GG", segments.ALWAYS), ("G-", segments.ALWAYS), ("CC", segments.NEVER), ("CGG", segments.FROM), ("?GG",
            segments.FROM), ("GgG", segments.FROM), ("C?G?G", segments.FROM),
        ("CG?", segments.WITHIN), ("G=", segments.WITHIN), ("G?", segments.WITHIN), ("CC?", segments.UP_TO), ("C?C",
            segments.UP_TO), ("?C", segments.UP_TO), ("C=", segments.UP_TO),
        ("GC", segments.FALLS), ("GC?", segments.FALLS), ("CGC", segments.SEVERAL), ("GCG", segments.SEVERAL),
        ("C?GCG?", segments.SEVERAL),
    ],
)  # fmt: skip
def test_each_sweep_has_one_class(letters, kind):
    assert segments.class_of(sizes(letters)) == kind


LETTERS = st.text("CG=?g-x", max_size=14)


@given(LETTERS, st.floats(1.1, 3.5))
def test_segments_hold_every_size_once_and_only_what_was_judged(letters, step):
    given_sizes = sizes(letters, step)
    found = segments.segments_of(given_sizes)
    known = {size.size: size for size in given_sizes}
    held = [size for part in found for size in part.sizes]
    assert held == sorted(set(held))
    assert set(known) - set(held) <= {size.size for size in given_sizes if size.reason == segments.SKIPPED}
    assert all(below.last < above.first for below, above in pairwise(found))
    for part in found:
        if part.judgement != segments.NOT_TIMED:
            assert all(above <= segments.WIDEST_GAP * below for below, above in pairwise(part.sizes))
        for size in (known[each] for each in part.sizes):
            assert size.judgement == part.judgement or (size.size in part.inside and size.winner is None)
            assert part.winner is None or size.cost(part.winner) <= segments.MOST_COST


@given(LETTERS)
def test_always_and_never_are_said_only_where_every_timed_size_was_judged_so(letters):
    kind, timed = segments.class_of(sizes(letters)), set(letters) - set("-x")
    assert kind in segments.CLASSES
    assert (kind == segments.ALWAYS) == (timed == {"G"})
    assert (kind == segments.NEVER) == (timed == {"C"})
    last = letters.rstrip("-x")[-1:]
    assert kind != segments.FROM or last == "G"


@pytest.mark.parametrize(
    ("moved", "bracket", "is_named"),
    [
        ("CCC~GG", (40, 160), True),
        ("CCCCCG", (160, 320), True),
        ("C~~GGG", (10, 160), False),  # its own would be 10 to 80
        ("C~~G~G", (10, 320), False),  # no winner at 160
        ("G~~GGG", None, False),
    ],
)
def test_a_crossover_with_copies_is_not_below_the_one_without(moved, bracket, is_named):
    """With copies `≈ 9` of 5 to 16 stood below `≈ 10` without. A point is named only where no size contradicts it.

    `from somewhere between 150 and 164; no winner at 150` was said, because 150 was the lower end without copies.
    """
    found = with_copies("CC~~GG", moved)
    change = found.with_copies.crossover
    assert (change[:2] if change is not None else None) == bracket
    if change is not None and found.resident.crossover is not None:
        assert change.point >= found.resident.crossover.point
        assert (change.gap is not None) == is_named


@pytest.mark.parametrize(
    ("resident", "is_named"), [("~~~GGG", False), ("~GGGGG", True), ("GGGGGG", True), ("CCCCCC", False)]
)
def test_a_crossover_with_copies_below_all_that_the_gpu_wins_without_has_no_point(resident, is_named):
    """`≈ 11` tokens with copies stood below `≤ 13` without: below 13 nothing was decided."""
    change = with_copies(resident, "CCGGGG").with_copies.crossover
    assert (change.gap is not None) == is_named
