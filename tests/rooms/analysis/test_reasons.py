"""Why the GPU does not win before, what would change that, and what a publication's clock shows, in exact sentences."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rooms.analysis.test_answer import AXIS
from tests.rooms.decide.test_crossover import POINTS, SIZES, point, sweep

from cpugpu_tui.analysis.answer import Evidence, Printed, verdict_sentence, where
from cpugpu_tui.analysis.costs import (
    END_TO_END,
    NO_LAUNCH,
    ONE_THREAD,
    PINNED,
    RESIDENT,
    WHAT_IFS,
    Decomposition,
    decompose,
)
from cpugpu_tui.analysis.explanation import cause_sentence, clock_sentence, counterfactual_sentence, sentences
from cpugpu_tui.decide.crossover import Crossover, SweepPoint, crossover
from cpugpu_tui.decide.verdict import (
    CPU_WINS,
    GPU_WINS,
    Comparison,
)

# ------------------------------------------------------------------ why not before

RESIDENT_CALL = decompose(20_000.0, 14_000.0, 2_000.0, 3_500.0)
MOVED_CALL = decompose(50_000.0, 14_000.0, 2_000.0, None, 28_000.0, 4_500.0)
UNEXPLAINED_CALL = decompose(40_000.0, 14_000.0, 2_000.0, 4_000.0)
OVERLAPPING_CALL = decompose(10_000.0, 8_000.0, 2_000.0, 3_500.0)


@pytest.mark.parametrize(
    ("resident", "moved", "says"),
    [
        (None, None, ""),
        (RESIDENT_CALL, None, "At 10 the GPU is 2.00× slower: launching takes 70 % of 20.0 us."),
        (
            RESIDENT_CALL, MOVED_CALL,
            "At 10 the GPU is 2.00× slower: launching takes 70 % of 20.0 us. "
            "Including copies, copying to the GPU takes 56 % of 50.0 us.",
        ),
        (
            None, MOVED_CALL,
            "Including copies, copying to the GPU takes 56 % of 50.0 us at 10.",
        ),
        (
            UNEXPLAINED_CALL, None,
            "At 10 the GPU is 2.00× slower: launching takes 35 % of 40.0 us (50 % unexplained).",
        ),
        (
            OVERLAPPING_CALL, None,
            "At 10 the GPU is 2.00× slower: launching takes 80 % of 10.0 us (timed apart, the parts make 115 %).",
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
        ((10e3, 1e3, 1e3, 7.5e3), "waiting for the GPU to answer takes 75 % of 10.0 us"),
        ((10e6, 1e3, 9.9e6, 8e3), "the GPU's own work takes 99 % of 10.0 ms"),
        ((10e6, 1e3, 1e3, 1e3, 3e6, 7e6), "copying back takes 70 % of 10.0 ms"),
    ],
)
def test_every_part_has_words(terms: Any, says: str) -> None:
    evidence = Evidence(crossover(sweep("GG")), 4, resident=decompose(*terms))
    assert cause_sentence(evidence) == f"At 10 the GPU is 2.00× faster: {says}."


# ------------------------------------------------------------------ what if


def counterfactual(letters: str, worlds: dict[str, str]) -> str:
    found = {key: crossover(sweep(world)) for key, world in worlds.items()}
    return counterfactual_sentence(Evidence(crossover(sweep(letters)), 4, found, axis=AXIS))


@pytest.mark.parametrize(
    ("letters", "worlds", "says"),
    [
        ("CCG", {}, ""),
        ("CCG", {RESIDENT: "CCG", END_TO_END: "CCC"}, ""),
        (
            "CCG", {NO_LAUNCH: "CGG"},
            "Without launch overhead the GPU would win from n ≈ 14 (10–20).",
        ),
        (
            "CCG", {NO_LAUNCH: "GGG", END_TO_END: "CCC", PINNED: "CCC", ONE_THREAD: "CGG"},
            "Without launch overhead the GPU would win at every size from 10 to 30. "
            "Even including copies from pinned memory the CPU would win up to n = 30. "
            "Against one CPU thread the GPU would win from n ≈ 14 (10–20).",
        ),
        ("CC", {NO_LAUNCH: "CC"}, "Even without launch overhead the CPU would win up to n = 20."),
        ("CCG", {NO_LAUNCH: "??", PINNED: "==", ONE_THREAD: "--"}, ""),
        ("GGG", {NO_LAUNCH: "GGG", ONE_THREAD: "GGG"}, ""),
        ("GGG", {END_TO_END: "GGG", PINNED: "GGG"}, ""),
        (
            "GGG", {END_TO_END: "CGG", PINNED: "GGG"},
            "Including copies from pinned memory the GPU would win at every size from 10 to 30.",
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
        (PRINTED[:1], "the GPU seems 2.00× slower at 100", "2.00× (at 100)"),
        (PRINTED[2:], "the GPU seems 1,634× faster at 9,951", "53.2× (at 9,951)"),
        (PRINTED, "the GPU seems to win from 1,000, 1,634× faster at 9,951", "53.2× (at 9,951)"),
        (
            (PRINTED[1], replace(PRINTED[0], size=2_000)),
            "the GPU seems 2.00× slower at 2,000", "4.00× (at 1,000)",
        ),
    ],
)  # fmt: skip
def test_what_the_publications_clock_would_have_claimed(printed: tuple[Printed, ...], claim: str, off: str) -> None:
    assert clock_sentence(printed) == f"Timed the paper's way, {claim}; the paper's error is up to {off}."


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
        ["The", "GPU", "wins", "from"], ["At", "10", "the", "GPU"], ["Without", "launch", "overhead", "the"],
        ["Timed", "the", "paper's", "way,"],
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
    axis=st.sampled_from(["", AXIS, "hidden units"]),
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


@given(EVIDENCE)
def test_the_answer_is_at_most_three_sentences(evidence: Evidence) -> None:
    text = verdict_sentence(evidence)
    assert len(re.findall(r"\.(?: |$)", text)) <= 3


@given(POINTS)
def test_a_win_from_a_size_on_is_never_against_a_larger_sizes_number(points: list[SweepPoint]) -> None:
    small = [point(1, CPU_WINS), point(2, GPU_WINS), point(3, GPU_WINS)]
    beyond = [each for each in points if each.size > 3 and each.comparison.verdict not in (CPU_WINS, GPU_WINS)]
    found = crossover([*small, *beyond])
    against = [each for each in found.points if each.size > 3 and each.comparison.speedup <= 1]
    first = verdict_sentence(Evidence(found, 16)).split(". ")[0]
    assert first.startswith("The GPU wins from 2")
    assert first.endswith(" to 3") or not against


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
        ((1, 2), (0.77, 1.5), "from 2"),
        ((1, 3), (0.77, 1.5), "from ≈ 2"),
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
