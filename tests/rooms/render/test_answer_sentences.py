"""The answer: the sentence of each kind of sweep, and properties for any numbers."""

import pytest
from tests.helpers.golden import assert_golden, paragraphs
from tests.helpers.runs.crossovers import crossover
from tests.helpers.runs.planted_report import AXIS, planted, sweep
from tests.rooms.decide.test_crossover import point

from cpugpu_tui.analysis.costs import END_TO_END
from cpugpu_tui.decide.comparison import (
    CPU_OBSERVED,
    CPU_WINS,
    GPU_OBSERVED,
    GPU_WINS,
    TOO_FEW,
    UNDECIDED,
    Comparison,
    SweepPoint,
)
from cpugpu_tui.decide.verdict import plus_minus
from cpugpu_tui.render.answer_sentences import at_text, so_far, verdict_sentence
from cpugpu_tui.render.columns import time_interval
from cpugpu_tui.render.crossover_words import speedup_text, where
from cpugpu_tui.report.segments import ALL_EQUAL, GPU, NONE_TIMED, Size
from cpugpu_tui.state.device_times import DeviceTimes


def said(letters, threads=4, **worlds):
    """The answer about a sweep, including copies as in `moved`."""
    return verdict_sentence(planted(letters, {END_TO_END: worlds["moved"]} if "moved" in worlds else {}, threads))


# ------------------------------------------------------------------ who wins from where


SWEEPS = ("", "=", "==", "?", "=?", "G", "C", "GGG", "CC", "?GG", "?C=", "CCGG", "C?GG", "CCG?", "CGG?G", "C?CGG",
          "C~GG", "CCG~", "CGG~G",
          "GC", "CGGC", "CGCG", "CGCGCG")  # fmt: skip
"""Letters of sizes 10, 20, 40, …, as in `planted_report`."""


def few(size, speedup, rounds, verdict=TOO_FEW):
    """A size whose call is too long for an interval."""
    return SweepPoint(size, Comparison(speedup, None, None, rounds, verdict))


NOISY = SweepPoint(1000, Comparison(0.506, 0.3, 0.9, 8, UNDECIDED))


LAST = {
    "29 times in 2 rounds": few(1000, 29.0, 2, GPU_OBSERVED), "29 times in 1 round": few(1000, 29.0, 1),
    "half in 1 round": few(1000, 0.5, 1), "half in 3 rounds": few(1000, 0.5, 3, CPU_OBSERVED), "half, noisy": NOISY,
}  # fmt: skip
"""Results of a larger size that follows a win."""

MOVED = (("CGG", "CCG"), ("CGG", "CCC"), ("CGG", "GGG"), ("GGG", "GCC"), ("CGG", "CGCG"), ("CGG", "CC-"), ("GG", "=="),
         ("GG", "??"), ("G", "G"), ("C", "CC"), ("CC", "CC"), ("CC", "CG"))  # fmt: skip
"""Sweeps, each with the same sweep including copies; - is a single round."""

AXES = ("n of two n×n matrices", "batch b", "elements of each vector", "hidden units", "")


def with_copies(letters, moved):
    points = [few(p.size, 0.5, 1) if letter == "-" else p for letter, p in zip(moved, sweep(moved), strict=True)]
    return verdict_sentence(planted(letters, {END_TO_END: points}))


def answered(*points, threads=16, axis=AXIS):
    return verdict_sentence(planted(points, None, threads, axis))


def test_golden_answers():
    told = {f"{letters or 'nothing'}": said(letters) for letters in SWEEPS}
    win = point(20, CPU_WINS), point(30, GPU_WINS), point(800, GPU_WINS)
    told |= {f"a win, then {name}": answered(*win, last) for name, last in LAST.items()}
    told["one size in few rounds"] = answered(few(9951, 29.4, 2, GPU_OBSERVED))
    told["two sizes in few rounds"] = answered(few(5001, 20.0, 1), few(9951, 29.4, 1))
    observed = few(5001, 40.0, 4, GPU_OBSERVED), few(9951, 41.0, 2, GPU_OBSERVED)
    told["observed alone above"] = answered(point(101, CPU_WINS), *observed)
    wide = point(100, CPU_WINS), point(10**8, GPU_WINS, 95.4)
    told["a wide bracket"] = answered(*wide, axis="elements of each vector")
    told["a narrow bracket"] = answered(point(1234, CPU_WINS), point(1236, GPU_WINS))
    large = point(1_000_000, CPU_WINS), point(2_000_000, GPU_WINS, 40.0)
    told |= {f"axis {axis or 'unknown'}": answered(*large, axis=axis) for axis in AXES}
    told |= {f"{count} threads": said("CG", count) for count in (0, 1, 96)}
    told |= {f"{letters} including copies {moved}": with_copies(letters, moved) for letters, moved in MOVED}
    assert_golden("answers", paragraphs(told))


def test_a_bracket_rests_on_an_observation_in_three_rounds_but_not_in_two():
    """Two rounds of equal devices were observed as different in up to 12 %, three in at most 2 %."""
    sizes = point(101, CPU_WINS), few(5001, 40.0, 2, GPU_OBSERVED), few(9951, 41.0, 3, GPU_OBSERVED)
    found = crossover(sizes)
    assert (found.low, found.high) == (101, 9951)
    assert crossover(sizes[:2]).high is None


def test_usual_answers_fit_on_three_lines_of_80():
    assert len(said("CCGG", 16, moved="CCCG")) <= 240


@pytest.mark.parametrize(
    ("sentence", "says"),
    [
        ("The GPU wins at 10.", "the GPU wins at 10."),
        ("CPU and GPU are even.", "CPU and GPU are even."),
        ("At 10 it is.", "at 10 it is."),
    ],
)
def test_while_a_run_goes_on_the_answer_is_one_so_far(sentence, says):
    assert so_far(sentence) == f"So far, {says}"


@pytest.mark.parametrize(
    ("comparison", "says"),
    [
        (Comparison(47.2, 46.6, 47.8, 8, GPU_WINS), "47.2× ± 1.3 %"),
        (Comparison(1.0, 0.91, 1.099, 8, UNDECIDED), "1.00× ± 9.9 %"),
        (Comparison(10.4, 7.41, 14.6, 8, GPU_WINS), "10.4× (7.41–14.6×)"),
        (Comparison(1.24, 1.14, 1.3, 8, GPU_WINS), "1.24× (1.14–1.30×)"),
        (Comparison(47.2, None, None, 3, GPU_WINS), "47.2×"),
    ],
)
def test_a_speedup_has_its_interval_and_both_ends_of_a_wide_or_uneven_one(comparison, says):
    assert speedup_text(comparison) == says


@pytest.mark.parametrize(("longest_ns", "says"), [(101.0, "± 3.0 %"), (120.0, "64.0–189 ns"), (200.0, "6 rounds")])
def test_a_time_whose_interval_spans_a_factor_of_ten_has_the_number_of_its_rounds(longest_ns, says):
    times = DeviceTimes("cpu", round_ns=dict(enumerate((100.0, longest_ns) * 3)))
    share = plus_minus(times.round_ns)
    assert share is not None
    assert time_interval(times, share) == says


def test_few_rounds_show_their_range():
    size = Size(10, GPU, "", Comparison(38.0, None, None, 3, GPU_OBSERVED), 38e6, 1e6, (34.0, 40.1))
    assert speedup_text(size.comparison, size.rounds) == "34.0–40.1× in 3 rounds"
    assert at_text(size, "it", "4 CPU threads") == "at 10 it was 34.0–40.1× faster than 4 CPU threads in 3 rounds"


@pytest.mark.parametrize(
    ("letters", "says"),
    [
        ("CCG", "from ≈ 28"), ("GC", "up to ≈ 14"), ("GCG", "up to ≈ 14 and from ≈ 28"),
        ("CGC", "from ≈ 14 to ≈ 28"), ("?GG", "from ≤ 20"), ("CC?", "not up to 20"), ("GG?", "up to 20, unclear above"),
        ("GC?", "up to ≈ 14"), ("==", ALL_EQUAL), ("--", "unclear"), ("", NONE_TIMED),
        ("GG", "at every size timed (10–20)"), ("CC", "at no size timed (10–20)"),
    ],
)  # fmt: skip
def test_where_the_gpu_wins_in_a_few_words(letters, says):
    assert where(planted(letters).resident) == says
