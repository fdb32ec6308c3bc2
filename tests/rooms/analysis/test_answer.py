"""The answer as a person reads it: the exact sentence of each kind of sweep, and some sentence for any numbers."""

from __future__ import annotations

import math

import pytest
from tests.rooms.decide.test_crossover import point, sweep

from cpugpu_tui.analysis.answer import Evidence, not_judged, so_far, speedup_text, verdict_sentence, where
from cpugpu_tui.analysis.costs import END_TO_END
from cpugpu_tui.decide.crossover import SweepPoint, crossover
from cpugpu_tui.decide.verdict import (
    CPU_OBSERVED,
    CPU_WINS,
    GPU_OBSERVED,
    GPU_WINS,
    TIE,
    TOO_FEW,
    UNDECIDED,
    Comparison,
)

AXIS = "n of two n×n matrices"


def said(letters: str, threads: int = 4, **worlds: str) -> str:
    """The answer about a sweep, including copies as in `moved`."""
    found = {END_TO_END: crossover(sweep(worlds["moved"]))} if "moved" in worlds else {}
    return verdict_sentence(Evidence(crossover(sweep(letters)), threads, found, axis=AXIS))


# ------------------------------------------------------------------ who wins from where


@pytest.mark.parametrize(
    ("letters", "says"),
    [
        ("", "No size has been timed on both devices yet."),
        ("=", "At 10 the GPU is as fast as 4 CPU threads (within 2 %)."),
        ("==", "CPU and GPU are equally fast (within 2 %) at every size."),
        ("?", "At 10 CPU and GPU are too close to call (± 1.0 %)."),
        ("=?", "No size has a winner: equal within 2 % at 10; too close to call at 20."),
        ("G", "At 10 the GPU is 2.00× faster (± 1.0 %) than 4 CPU threads."),
        ("C", "At 10 the GPU is 2.00× slower (± 1.0 %) than 4 CPU threads."),
        ("GGG", "The GPU wins at every size from 10 to 30. At 30 it is 2.00× faster (± 1.0 %) than 4 CPU threads."),
        ("CC", "The CPU wins up to n = 20. At 20 the GPU is 2.00× slower (± 1.0 %) than 4 CPU threads."),
        ("?GG", "The GPU wins from 20 to 30. At 30 it is 2.00× faster (± 1.0 %) than 4 CPU threads."),
        ("?C=", "The CPU wins at 20. At 30 the GPU is as fast as 4 CPU threads (within 2 %)."),
        ("CCGG", "The GPU wins from n ≈ 24 (20–30). At 40 it is 2.00× faster (± 1.0 %) than 4 CPU threads."),
        ("C?GG", "The GPU wins from n ≈ 18 (10–30). At 40 it is 2.00× faster (± 1.0 %) than 4 CPU threads."),
        ("CCG?", "The GPU wins from n ≈ 24 (20–30) to 30. At 40 it is too close to call (± 1.0 %)."),
        (
            "CGG?G",
            "The GPU wins from n ≈ 14 (10–20), except at 40 (too close to call). "
            "At 50 it is 2.00× faster (± 1.0 %) than 4 CPU threads.",
        ),
        ("GC", "The GPU wins only up to n ≈ 14 (10–20). At 20 it is 2.00× slower (± 1.0 %) than 4 CPU threads."),
        ("CGGC", "The GPU wins only from 20 to 30. At 40 it is 2.00× slower (± 1.0 %) than 4 CPU threads."),
        ("CGCG", "The GPU wins at 20 and from n ≈ 35 (30–40). At 40 it is 2.00× faster (± 1.0 %) than 4 CPU threads."),
        (
            "CGCGCG",
            "The GPU wins in 3 ranges, the last from n ≈ 55 (50–60). "
            "At 60 it is 2.00× faster (± 1.0 %) than 4 CPU threads.",
        ),
    ],
)
def test_the_answer_says_who_wins_from_where(letters: str, says: str) -> None:
    assert said(letters) == says


def few(size: int, speedup: float, rounds: int, verdict: str = TOO_FEW) -> SweepPoint:
    """A size whose call is too long for an interval."""
    return SweepPoint(size, Comparison(speedup, None, None, rounds, verdict))


NOISY = SweepPoint(1000, Comparison(0.506, 0.3, 0.9, 8, UNDECIDED))


@pytest.mark.parametrize(
    ("largest", "end", "says"),
    [
        (few(1000, 29.0, 2, GPU_OBSERVED), "", "29.0× faster (2 rounds, no interval)"),
        (few(1000, 29.0, 1), "", "29.0× faster (1 round, not judged)"),
        (few(1000, 0.5, 1), " to 800", "2.00× slower (1 round, not judged)"),
        (few(1000, 0.5, 3, CPU_OBSERVED), " to 800", "2.00× slower (3 rounds, no interval)"),
        (NOISY, " to 800", "1.98× slower (± 73 %, not judged)"),
    ],
)
def test_a_win_from_a_size_on_ends_where_a_larger_size_says_otherwise(largest: SweepPoint, end: str, says: str) -> None:
    points = [point(20, CPU_WINS), point(30, GPU_WINS), point(800, GPU_WINS), largest]
    assert verdict_sentence(Evidence(crossover(points), 16, axis=AXIS)) == (
        f"The GPU wins from n ≈ 24 (20–30){end}. "
        f"At 800 it is 2.00× faster (± 1.0 %) than 16 CPU threads; at 1,000 it was {says}."
    )


def test_what_was_timed_in_few_rounds_alone_is_not_judged() -> None:
    one = Evidence(crossover([few(9951, 29.4, 2, GPU_OBSERVED)]), 16)
    assert verdict_sentence(one) == "At 9,951 the GPU was 29.4× faster (2 rounds, no interval) than 16 CPU threads."
    two = Evidence(crossover([few(5001, 20.0, 1), few(9951, 29.4, 1)]), 16)
    assert verdict_sentence(two) == (
        "No size was judged: each has fewer than 5 rounds. "
        "At 9,951 the GPU was 29.4× faster (1 round, not judged) than 16 CPU threads."
    )


def test_no_bracket_rests_on_an_observation() -> None:
    found = crossover([point(101, CPU_WINS), few(5001, 40.0, 4, GPU_OBSERVED), few(9951, 41.0, 2, GPU_OBSERVED)])
    assert (found.low, found.high, found.point) == (None, None, None)
    assert verdict_sentence(Evidence(found, 16, axis=AXIS)) == (
        "The CPU wins up to n = 101. At 101 the GPU is 2.00× slower (± 1.0 %) than 16 CPU threads; "
        "at 9,951 the GPU was 41.0× faster (2 rounds, no interval)."
    )


def test_a_wide_bracket_has_no_point() -> None:
    found = crossover([point(100, CPU_WINS), point(10**8, GPU_WINS, 95.4)])
    text = verdict_sentence(Evidence(found, 16, axis="elements of each vector"))
    assert text.startswith(
        "The GPU wins from somewhere between 100 and 100,000,000 elements. At 100,000,000 it is 95.4×"
    )


@pytest.mark.parametrize(
    ("letters", "moved", "says"),
    [
        ("CGG", "CCG", "it wins from n ≈ 24 (20–30); at 30 it is 2.00× faster."),
        ("CGG", "CCC", "the CPU wins up to n = 30; at 30 the GPU is 2.00× slower."),
        ("CGG", "GGG", "it wins at every size from 10 to 30; at 30 it is 2.00× faster."),
        ("GGG", "GCC", "it wins only up to n ≈ 14 (10–20); at 30 it is 2.00× slower."),
        ("CGG", "CGCG", "it wins at 20 and from n ≈ 35 (30–40); at 40 it is 2.00× faster."),
        ("CGG", "CC-", "the CPU wins up to n = 20; at 30 the GPU was 2.00× slower (1 round, not judged)."),
        ("GG", "==", "CPU and GPU are equally fast (within 2 %) at every size."),
        ("GG", "??", "no size has a winner: too close to call at 10 and 20."),
        ("G", "G", "at 10 it is 2.00× faster."),
        ("C", "CC", "the CPU wins up to n = 20; at 20 the GPU is 2.00× slower."),
        ("CC", "CC", "the CPU wins up to n = 20; at 20 the GPU is 2.00× slower."),
        ("CC", "CG", "the GPU wins from n ≈ 14 (10–20); at 20 it is 2.00× faster."),
    ],
)
def test_the_last_sentence_says_what_holds_including_copies(letters: str, moved: str, says: str) -> None:
    points = [few(p.size, 0.5, 1) if letter == "-" else p for letter, p in zip(moved, sweep(moved), strict=True)]
    evidence = Evidence(crossover(sweep(letters)), 4, {END_TO_END: crossover(points)}, axis=AXIS)
    assert verdict_sentence(evidence).endswith(f" Including copies, {says}")


def test_copies_that_were_not_timed_are_not_mentioned() -> None:
    assert "copies" not in said("GG", moved="")
    assert "copies" not in said("GG")


@pytest.mark.parametrize(("threads", "says"), [(1, " than 1 CPU thread."), (96, " than 96 CPU threads.")])
def test_threads_are_counted(threads: int, says: str) -> None:
    assert said("CG", threads).endswith(says)


@pytest.mark.parametrize("letters", ["?", "==", "--", "CG", "CC"])
def test_unknown_threads_are_not_mentioned(letters: str) -> None:
    assert "thread" not in said(letters, 0)


@pytest.mark.parametrize(
    ("axis", "says"),
    [
        ("n of two n×n matrices", "n ≈ 1,120,000"),
        ("batch b", "batch ≈ 1,120,000"),
        ("elements of each vector", "≈ 1,120,000 elements"),
        ("hidden units", "≈ 1,120,000 hidden units"),
        ("", "≈ 1,120,000"),
    ],
)
def test_a_size_has_the_name_of_its_axis(axis: str, says: str) -> None:
    found = crossover([point(1_000_000, CPU_WINS), point(2_000_000, GPU_WINS, 40.0)])
    text = verdict_sentence(Evidence(found, 16, axis=axis))
    assert text.startswith(f"The GPU wins from {says} (1,000,000–2,000,000). At 2,000,000 it is 40.0× faster")


def test_rounding_does_not_take_the_point_out_of_a_narrow_bracket() -> None:
    found = crossover([point(1234, CPU_WINS), point(1236, GPU_WINS)])
    assert "from n ≈ 1,235 (1,234–1,236)" in verdict_sentence(Evidence(found, 16, axis=AXIS))


def test_usual_answers_fit_on_three_lines_of_80() -> None:
    assert len(said("CCGG", 16, moved="CCCG")) <= 200


@pytest.mark.parametrize(
    ("sentence", "says"),
    [
        ("The GPU wins at 10.", "So far, the GPU wins at 10."),
        ("CPU and GPU are even.", "So far, CPU and GPU are even."),
        ("At 10 it is.", "So far, at 10 it is."),
    ],
)
def test_while_a_run_goes_on_the_answer_is_one_so_far(sentence: str, says: str) -> None:
    assert so_far(sentence) == says


@pytest.mark.parametrize(
    ("comparison", "says"),
    [
        (Comparison(47.2, 46.6, 47.8, 8, GPU_WINS), "47.2× ± 1.3 %"),
        (Comparison(47.2, None, None, 3, GPU_WINS), "47.2×"),
        (Comparison(2.0, math.nan, 3.0, 8, GPU_WINS), "2.00×"),
        (Comparison(2.0, 0.0, 3.0, 8, GPU_WINS), "2.00×"),
        (Comparison(2.0, 1e-300, 1e300, 8, GPU_WINS), "2.00×"),
        (Comparison(2.0, 1.0, math.inf, 8, GPU_WINS), "2.00×"),
    ],
)
def test_a_speedup_has_its_interval_where_that_is_one(comparison: Comparison, says: str) -> None:
    assert speedup_text(comparison) == says


@pytest.mark.parametrize(
    ("comparison", "reason"),
    [
        (Comparison(2.0, 1.9, 2.1, 8, GPU_WINS), ""),
        (Comparison(1.0, 0.99, 1.01, 8, TIE), ""),
        (Comparison(1.03, 0.96, 1.1, 8, UNDECIDED), ""),
        (Comparison(1.0, 0.8, 1.25, 8, UNDECIDED), "± 25 %"),
        (Comparison(1.5, 1.01, 2.25, 8, UNDECIDED), "± 49 %"),
        (Comparison(29.0, None, None, 1, TOO_FEW), "1 round"),
        (Comparison(29.0, None, None, 4, GPU_OBSERVED), "4 rounds"),
    ],
)
def test_too_close_to_call_takes_an_interval_close_to_1(comparison: Comparison, reason: str) -> None:
    assert not_judged(comparison) == reason


@pytest.mark.parametrize(
    ("letters", "says"),
    [
        ("CCG", "from ≈ 24"), ("GC", "only up to ≈ 14"), ("GCG", "up to 10 and from ≈ 24"),
        ("CGC", "only at 20"), ("?GG", "from 20 to 30"), ("CC?", "at no size up to 20"),
        ("GC?", "only up to ≈ 14"), ("==", "undecided"), ("--", "undecided"), ("", "undecided"),
    ],
)  # fmt: skip
def test_where_the_gpu_wins_in_a_few_words(letters: str, says: str) -> None:
    assert where(crossover(sweep(letters))) == says
