"""The answer as a person reads it: the exact sentence of each kind of sweep, and some sentence for any numbers."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_crossover import POINTS, SIZES, point, sweep

from cpugpu_tui.analysis.answer import (
    Evidence,
    Printed,
    cause_sentence,
    clock_sentence,
    counterfactual_sentence,
    sentences,
    speedup_text,
    verdict_sentence,
    where,
)
from cpugpu_tui.analysis.costs import Decomposition, decompose
from cpugpu_tui.analysis.crossover import Crossover, SweepPoint, crossover
from cpugpu_tui.analysis.verdict import CPU_WINS, GPU_WINS, Comparison
from cpugpu_tui.analysis.what_if import END_TO_END, NO_LAUNCH, ONE_THREAD, PINNED, RESIDENT, WHAT_IFS


def said(letters: str, threads: int = 4, **worlds: str) -> str:
    """The first sentence about a sweep, end to end as in `moved`."""
    found = {END_TO_END: crossover(sweep(worlds["moved"]))} if "moved" in worlds else {}
    return verdict_sentence(Evidence(crossover(sweep(letters)), threads, found))


# ------------------------------------------------------------------ who wins from where


@pytest.mark.parametrize(
    ("letters", "says"),
    [
        ("", "No size has been timed on both devices yet."),
        ("--", "Undecided against 4 CPU threads: a verdict takes at least 5 rounds."),
        ("=", "A tie against 4 CPU threads: CPU and GPU differ by less than 2% at 10."),
        ("==", "A tie against 4 CPU threads: CPU and GPU differ by less than 2% at every size."),
        ("?", "Undecided against 4 CPU threads: neither is clearly 2% faster at 10 (±1.0%)."),
        ("=?-", "Undecided against 4 CPU threads: neither is clearly 2% faster at any size (±1.0% at best)."),
        ("G", "At 10 the GPU is faster, ×2.00 ±1.0% against 4 CPU threads."),
        ("C", "At 10 the CPU is faster, GPU ×0.500 ±1.0% against 4 CPU threads."),
        ("GGG", "The GPU is faster at every size from 10 to 30, ×2.00 ±1.0% at 30 against 4 CPU threads."),
        ("CC", "The CPU is faster at every size from 10 to 20, GPU ×0.500 ±1.0% at 20 against 4 CPU threads."),
        (
            "?GG-",
            "The GPU is faster at every size from 20 to 30, no clear winner below 20 and above 30, ×1.00 at 40"
            " against 4 CPU threads.",
        ),
        (
            "?C=",
            "The CPU is faster at 20, no clear winner below 20 and above 20, ×1.00 ±1.0% at 30 against 4 CPU threads.",
        ),
        ("CCGG", "The GPU is faster from about 24 on (20 to 30), ×2.00 ±1.0% at 40 against 4 CPU threads."),
        ("C?GG", "The GPU is faster from about 18 on (10 to 30), ×2.00 ±1.0% at 40 against 4 CPU threads."),
        ("GC", "The GPU is faster only up to about 14 (10 to 20), GPU ×0.500 ±1.0% at 20 against 4 CPU threads."),
        (
            "CGCG",
            "The GPU is faster from about 35 on (30 to 40, the last of 3 changes; the GPU first ahead at 20), "
            "×2.00 ±1.0% at 40 against 4 CPU threads.",
        ),
        (
            "CGC",
            "The CPU is faster from about 24 on (20 to 30, the last of 2 changes; the GPU first ahead at 20), "
            "GPU ×0.500 ±1.0% at 30 against 4 CPU threads.",
        ),
    ],
)
def test_the_answer_says_who_wins_from_where(letters: str, says: str) -> None:
    assert said(letters) == says


@pytest.mark.parametrize(
    ("letters", "moved", "says"),
    [
        ("CGG", "CCG", "×2.00 ±1.0% at 30 against 4 CPU threads; end to end from about 24 on (20 to 30), ×2.00 ±1.0%."),
        ("CGG", "CCC", "against 4 CPU threads; end to end at no size up to 30, ×0.500 ±1.0%."),
        ("CGG", "GGG", "against 4 CPU threads; end to end at every size from 10 to 30, ×2.00 ±1.0%."),
        ("GGG", "GCC", "against 4 CPU threads; end to end only up to about 14 (10 to 20), ×0.500 ±1.0%."),
        ("CGG", "CGCG", "against 4 CPU threads; end to end from about 35 on (30 to 40), ×2.00 ±1.0%."),
        ("GGG", "CGC", "against 4 CPU threads; end to end last up to about 24 (20 to 30), ×0.500 ±1.0%."),
        ("GG", "==", "against 4 CPU threads; end to end a tie, ×1.00 ±1.0%."),
        ("GG", "??", "against 4 CPU threads; end to end undecided, ×1.00 ±1.0%."),
        ("GG", "--", "against 4 CPU threads; end to end undecided, ×1.00."),
        ("GG", "", "×2.00 ±1.0% at 20 against 4 CPU threads."),
    ],
)
def test_the_answer_says_what_moving_the_data_changes(letters: str, moved: str, says: str) -> None:
    assert said(letters, moved=moved).endswith(says)


@pytest.mark.parametrize("letters", ["C", "CC", "?C=", "CGC", "=", "??"])
def test_after_words_about_the_cpu_it_is_said_that_end_to_end_means_the_gpu(letters: str) -> None:
    """ "The CPU is faster …; end to end nowhere" would be read as the CPU being faster nowhere."""
    assert said(letters, moved="CC").endswith("; end to end the GPU is faster at no size up to 20, ×0.500 ±1.0%.")


@pytest.mark.parametrize(("threads", "says"), [(1, " against 1 CPU thread."), (96, " against 96 CPU threads.")])
def test_threads_are_counted(threads: int, says: str) -> None:
    assert said("CG", threads).endswith(says)


@pytest.mark.parametrize("letters", ["?", "==", "--", "CG", "CC"])
def test_unknown_threads_are_not_mentioned(letters: str) -> None:
    assert "thread" not in said(letters, 0)


def test_large_sizes_are_rounded_and_have_separators() -> None:
    found = crossover([point(1_000_000, CPU_WINS), point(2_000_000, GPU_WINS, 40.0)])
    text = verdict_sentence(Evidence(found, 16))
    assert text.startswith("The GPU is faster from about 1,120,000 on (1,000,000 to 2,000,000), ×40.0")


def test_rounding_does_not_take_the_point_out_of_a_narrow_bracket() -> None:
    found = crossover([point(1234, CPU_WINS), point(1236, GPU_WINS)])
    assert "from about 1,235 on (1,234 to 1,236)" in verdict_sentence(Evidence(found, 16))


def test_usual_answers_fit_on_two_lines_of_80() -> None:
    found, moved = crossover(sweep("CCGG")), crossover(sweep("CCCG"))
    assert len(verdict_sentence(Evidence(found, 16, {END_TO_END: moved}))) <= 160


@pytest.mark.parametrize(
    ("comparison", "says"),
    [
        (Comparison(47.2, 46.6, 47.8, 8, GPU_WINS), "×47.2 ±1.3%"),
        (Comparison(47.2, None, None, 3, GPU_WINS), "×47.2"),
        (Comparison(2.0, math.nan, 3.0, 8, GPU_WINS), "×2.00"),
        (Comparison(2.0, 0.0, 3.0, 8, GPU_WINS), "×2.00"),
        (Comparison(2.0, 1e-300, 1e300, 8, GPU_WINS), "×2.00"),
        (Comparison(2.0, 1.0, math.inf, 8, GPU_WINS), "×2.00"),
    ],
)
def test_a_speedup_has_its_interval_where_that_is_one(comparison: Comparison, says: str) -> None:
    assert speedup_text(comparison) == says


@pytest.mark.parametrize(
    ("letters", "says"),
    [
        ("CCG", "from about 24 on"), ("GC", "only up to about 14"), ("GCG", "from about 24 on"),
        ("CGC", "last up to about 24"), ("?GG", "at every size from 20 to 30, no clear winner below 20"),
        ("CC?", "at no size up to 20, no clear winner above 20"),
        ("GC?", "only up to about 14, no clear winner above 20"),
        ("==", "a tie"), ("=?", "undecided"), ("--", "undecided"), ("", "undecided"),
    ],
)  # fmt: skip
def test_where_the_gpu_wins_in_a_few_words(letters: str, says: str) -> None:
    assert where(crossover(sweep(letters))) == says


# ------------------------------------------------------------------ why not before

RESIDENT_CALL = decompose(20_000.0, 14_000.0, 2_000.0, 3_500.0)
MOVED_CALL = decompose(50_000.0, 14_000.0, 2_000.0, None, 28_000.0, 4_500.0)
UNEXPLAINED_CALL = decompose(40_000.0, 14_000.0, 2_000.0, 4_000.0)
OVERLAPPING_CALL = decompose(10_000.0, 8_000.0, 2_000.0, 3_500.0)


@pytest.mark.parametrize(
    ("resident", "moved", "says"),
    [
        (None, None, ""),
        (RESIDENT_CALL, None, "At 10 the GPU takes ×2.00 as long as the CPU: launching is 70% of 20.0 us."),
        (
            RESIDENT_CALL, MOVED_CALL,
            "At 10 the GPU takes ×2.00 as long as the CPU: launching is 70% of 20.0 us; "
            "copying to the GPU is 56% of 50.0 us end to end.",
        ),
        (
            None, MOVED_CALL,
            "At 10 the GPU takes ×2.00 as long as the CPU: copying to the GPU is 56% of 50.0 us end to end.",
        ),
        (
            UNEXPLAINED_CALL, None,
            "At 10 the GPU takes ×2.00 as long as the CPU: launching is 35% of 40.0 us (50% unexplained).",
        ),
        (
            OVERLAPPING_CALL, None,
            "At 10 the GPU takes ×2.00 as long as the CPU: launching is 80% of 10.0 us"
            " (timed apart, the parts make 115%).",
        ),
    ],
)  # fmt: skip
def test_the_cause_is_the_largest_part_at_the_smallest_size(
    resident: Decomposition | None, moved: Decomposition | None, says: str
) -> None:
    evidence = Evidence(crossover(sweep("CCG")), 4, resident=resident, moved=moved)
    assert cause_sentence(evidence) == says
    assert (says in sentences(evidence)) == bool(says)


@pytest.mark.parametrize(
    ("terms", "says"),
    [
        ((10e3, 1e3, 1e3, 7.5e3), "waiting for the GPU to answer is 75% of 10.0 us"),
        ((10e6, 1e3, 9.9e6, 8e3), "the GPU's own work is 99% of 10.0 ms"),
        ((10e6, 1e3, 1e3, 1e3, 3e6, 7e6), "copying back is 70% of 10.0 ms"),
    ],
)
def test_every_part_has_words(terms: Any, says: str) -> None:
    evidence = Evidence(crossover(sweep("GG")), 4, resident=decompose(*terms))
    assert cause_sentence(evidence) == f"At 10 the GPU is ×2.00 as fast as the CPU: {says}."


# ------------------------------------------------------------------ what if


def counterfactual(letters: str, worlds: dict[str, str]) -> str:
    found = {key: crossover(sweep(world)) for key, world in worlds.items()}
    return counterfactual_sentence(Evidence(crossover(sweep(letters)), 4, found))


@pytest.mark.parametrize(
    ("letters", "worlds", "says"),
    [
        ("CCG", {}, ""),
        ("CCG", {RESIDENT: "CCG", END_TO_END: "CCC"}, ""),
        (
            "CCG", {NO_LAUNCH: "CGG"},
            "The GPU would be faster from about 14 on if launching and waiting cost nothing.",
        ),
        (
            "CCG", {NO_LAUNCH: "GGG", PINNED: "CCC", ONE_THREAD: "CGG"},
            "The GPU would be faster at every size from 10 to 30 if launching and waiting cost nothing; "
            "at no size up to 30 end to end with pinned memory; from about 14 on against one CPU thread.",
        ),
        ("CCG", {NO_LAUNCH: "??", PINNED: "==", ONE_THREAD: "--"}, ""),
        ("GGG", {NO_LAUNCH: "GGG", ONE_THREAD: "GGG"}, ""),
        ("GGG", {END_TO_END: "GGG", PINNED: "GGG"}, ""),
        (
            "GGG", {END_TO_END: "CGG", PINNED: "GGG"},
            "The GPU would be faster at every size from 10 to 30 end to end with pinned memory.",
        ),
    ],
)  # fmt: skip
def test_a_world_is_told_where_it_says_something_new(letters: str, worlds: dict[str, str], says: str) -> None:
    assert counterfactual(letters, worlds) == says


# ------------------------------------------------------------------ the publication's clock

PRINTED = (
    Printed(100, 5_000.0, 10_000.0, 20_000.0), Printed(1_000, 50_000.0, 10_000.0, 40_000.0),
    Printed(9_951, 1_193e6, 0.73e6, 38.8e6),
)  # fmt: skip


@pytest.mark.parametrize(
    ("printed", "claim", "off"),
    [
        (PRINTED[:1], "the CPU would be faster at 100, GPU ×0.500", "×2.00 (at 100)"),
        (PRINTED[2:], "the GPU would be faster at 9,951, ×1,634", "×53.2 (at 9,951)"),
        (PRINTED, "the GPU would be faster from 1,000 on, ×1,634 at 9,951", "×53.2 (at 9,951)"),
        (
            (PRINTED[1], replace(PRINTED[0], size=2_000)),
            "the CPU would be faster at 2,000, GPU ×0.500", "×4.00 (at 1,000)",
        ),
    ],
)  # fmt: skip
def test_what_the_publications_clock_would_have_claimed(printed: tuple[Printed, ...], claim: str, off: str) -> None:
    assert clock_sentence(printed) == f"By the publication's clock {claim}; that clock is off by up to {off}."


@pytest.mark.parametrize(
    "printed",
    [
        (),
        (Printed(10, 5.0, 10.0, 19.9),),
        (Printed(10, 5.0, math.nan, 20.0), Printed(20, 0.0, 1.0, 5.0), Printed(30, 5.0, 1.0, math.inf)),
    ],
)
def test_a_clock_that_is_right_within_a_factor_of_two_is_not_mentioned(printed: tuple[Printed, ...]) -> None:
    assert clock_sentence(printed) == ""


# ------------------------------------------------------------------ all of it


def test_the_verdict_comes_first_then_cause_worlds_and_clock() -> None:
    worlds = {END_TO_END: crossover(sweep("CCC")), NO_LAUNCH: crossover(sweep("GGG"))}
    lines = sentences(Evidence(crossover(sweep("CCG")), 4, worlds, RESIDENT_CALL, MOVED_CALL, PRINTED))
    assert [line.split(" ")[:4] for line in lines] == [
        ["The", "GPU", "is", "faster"], ["At", "10", "the", "GPU"], ["The", "GPU", "would", "be"],
        ["By", "the", "publication's", "clock"],
    ]  # fmt: skip
    assert all(len(line) < 200 for line in lines)


def test_of_nothing_nothing_more_is_said() -> None:
    nothing = Evidence(Crossover("nothing timed"), 4, {}, RESIDENT_CALL, MOVED_CALL, PRINTED)
    assert sentences(nothing) == ("No size has been timed on both devices yet.",)


ANY_NS = st.none() | st.floats() | st.floats(1.0, 1e9)
CALLS = st.builds(decompose, ANY_NS, ANY_NS, ANY_NS, ANY_NS, ANY_NS, ANY_NS)
EVIDENCE = st.builds(
    Evidence,
    measured=POINTS.map(crossover),
    threads=st.integers(0, 4096),
    worlds=st.dictionaries(
        st.sampled_from([*(what_if.key for what_if in WHAT_IFS), "another world"]), POINTS.map(crossover)
    ),
    resident=CALLS,
    moved=CALLS,
    printed=st.lists(st.builds(Printed, SIZES, st.floats(), st.floats(), st.floats()), max_size=5).map(tuple),
)


@given(EVIDENCE)
def test_any_evidence_has_an_answer_in_whole_sentences(evidence: Evidence) -> None:
    lines = sentences(evidence)
    assert lines
    for line in lines:
        assert line.endswith(".")
        assert len(line) > 10
        assert "\n" not in line
        assert not re.search(r"\bnan\b|\bNone\b", line)


@given(st.lists(st.builds(SweepPoint, SIZES, st.just(Comparison(2.0, 1.9, 2.1, 8, GPU_WINS))), max_size=9))
def test_where_always_wins_from_the_first_win(points: list[SweepPoint]) -> None:
    found = crossover(points)
    sizes = [point.size for point in found.points]
    if not sizes:
        assert where(found) == "undecided"
    elif len(sizes) == 1:
        assert where(found) == f"at {sizes[0]:,}"
    else:
        assert where(found) == f"at every size from {sizes[0]:,} to {sizes[-1]:,}"


@pytest.mark.parametrize(
    ("sizes", "speedups", "said"),
    [
        ((1, 2), (0.77, 1.5), "from 2 on"),
        ((1, 3), (0.77, 1.5), "from about 2 on"),
        ((5, 6), (1.5, 0.7), "only up to 5"),
    ],
)
def test_a_point_is_never_a_size_at_which_the_other_one_wins(
    sizes: tuple[int, int], speedups: tuple[float, float], said: str
) -> None:
    points = [
        SweepPoint(size, Comparison(speedup, 0.99 * speedup, 1.01 * speedup, 8, GPU_WINS if speedup > 1 else CPU_WINS))
        for size, speedup in zip(sizes, speedups, strict=True)
    ]
    assert where(crossover(points)) == said
