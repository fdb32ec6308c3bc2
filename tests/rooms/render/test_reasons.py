"""Sentences about causes, counterfactuals and the paper's clock."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.golden import assert_golden, paragraphs
from tests.helpers.runs.planted_report import AXIS, planted
from tests.rooms.decide.test_crossover import POINTS, SIZES

from cpugpu_tui.analysis.costs import END_TO_END, NO_LAUNCH, ONE_THREAD, PINNED, RESIDENT, WHAT_IFS, decompose
from cpugpu_tui.decide.comparison import CPU_WINS, GPU_WINS, Comparison, SweepPoint
from cpugpu_tui.render.answer_sentences import cause_sentence, clock_sentence, counterfactual_sentence, sentences
from cpugpu_tui.render.crossover_words import where
from cpugpu_tui.report.report import Printed

# ------------------------------------------------------------------ why not before

RESIDENT_CALL = decompose(20_000.0, 14_000.0, 2_000.0, 3_500.0)
MOVED_CALL = decompose(50_000.0, 14_000.0, 2_000.0, None, 28_000.0, 4_500.0)
UNEXPLAINED_CALL = decompose(40_000.0, 14_000.0, 2_000.0, 4_000.0)
OVERLAPPING_CALL = decompose(10_000.0, 8_000.0, 2_000.0, 3_500.0)


CALLS = {
    "resident": (RESIDENT_CALL, None), "both": (RESIDENT_CALL, MOVED_CALL), "moved alone": (None, MOVED_CALL),
    "half unexplained": (UNEXPLAINED_CALL, None), "parts overlap": (OVERLAPPING_CALL, None),
    "waiting": (decompose(10e3, 1e3, 1e3, 7.5e3), None), "own work": (decompose(10e6, 1e3, 9.9e6, 8e3), None),
    "copying back": (decompose(10e6, 1e3, 1e3, 1e3, 3e6, 7e6), None),
}  # fmt: skip
"""Decompositions of a resident call and of a call with copies."""


def cause(resident, moved):
    report = planted("CCG", calls=(resident, moved))
    found = cause_sentence(report)
    assert (found in sentences(report)) == bool(found)
    return found


def test_a_call_that_was_not_taken_apart_has_no_cause():
    assert cause(None, None) == ""


# ------------------------------------------------------------------ what if


def counterfactual(letters, worlds):
    return counterfactual_sentence(planted(letters, worlds))


TOLD_WORLDS: dict[str, tuple[str, dict[str, str]]] = {
    "no launch": ("CCG", {NO_LAUNCH: "CGG"}),
    "three worlds": ("CCG", {NO_LAUNCH: "GGG", END_TO_END: "CCC", PINNED: "CCC", ONE_THREAD: "CGG"}),
    "never, even so": ("CC", {NO_LAUNCH: "CC"}),
    "pinned is better": ("GGG", {END_TO_END: "CGG", PINNED: "GGG"}),
}


@pytest.mark.parametrize(
    ("letters", "worlds"),
    [
        ("CCG", {}),
        ("CCG", {RESIDENT: "CCG", END_TO_END: "CCC"}),
        ("CCG", {NO_LAUNCH: "??", PINNED: "==", ONE_THREAD: "--"}),
        ("GGG", {NO_LAUNCH: "GGG", ONE_THREAD: "GGG"}),
        ("GGG", {END_TO_END: "GGG", PINNED: "GGG"}),
    ],
)
def test_a_world_that_says_nothing_new_is_not_told(letters, worlds):
    assert counterfactual(letters, worlds) == ""


# ------------------------------------------------------------------ the publication's clock

PRINTED = (
    Printed(100, 5_000.0, 10_000.0, 20_000.0), Printed(1_000, 50_000.0, 10_000.0, 40_000.0),
    Printed(9_951, 1_193e6, 0.73e6, 38.8e6),
)  # fmt: skip


CLOCKS = {
    "too small": PRINTED[:1],
    "too large": PRINTED[2:],
    "a crossover": PRINTED,
    "slower in the end": (PRINTED[1], PRINTED[0]._replace(size=2_000)),
}


def test_golden_reasons():
    told = {f"cause, {name}": cause(*calls) for name, calls in CALLS.items()}
    told |= {f"what if, {name}": counterfactual(*worlds) for name, worlds in TOLD_WORLDS.items()}
    told |= {f"paper's clock, {name}": clock_sentence(printed) for name, printed in CLOCKS.items()}
    assert_golden("reasons", paragraphs(told))


@pytest.mark.parametrize(
    "printed",
    [
        (),
        (Printed(10, 5.0, 10.0, 19.9),),
        (Printed(10, 5.0, math.nan, 20.0), Printed(20, 0.0, 1.0, 5.0), Printed(30, 5.0, 1.0, math.inf)),
    ],
)
def test_a_clock_that_is_right_within_a_factor_of_two_is_not_mentioned(printed):
    assert clock_sentence(printed) == ""


# ------------------------------------------------------------------ all of it


def test_the_verdict_comes_first_then_cause_worlds_and_clock():
    worlds = {END_TO_END: "CCC", NO_LAUNCH: "GGG"}
    lines = sentences(planted("CCG", worlds, calls=(RESIDENT_CALL, MOVED_CALL), clock=PRINTED))
    assert [line.split(" ")[:4] for line in lines] == [
        ["The", "GPU", "wins", "from"], ["At", "10", "the", "GPU"], ["Without", "launch", "and", "wait"],
        ["Timed", "the", "paper's", "way,"],
    ]  # fmt: skip
    assert all(len(line) < 240 for line in lines)


ANY_NS = st.none() | st.floats() | st.floats(1.0, 1e9)
ANY_CALL = st.builds(decompose, ANY_NS, ANY_NS, ANY_NS, ANY_NS, ANY_NS, ANY_NS)
REPORTS = st.builds(
    planted,
    POINTS,
    st.dictionaries(st.sampled_from([what_if.key for what_if in WHAT_IFS if what_if.key != RESIDENT]), POINTS),
    st.integers(0, 4096),
    st.sampled_from(["", AXIS, "hidden units"]),
    st.tuples(ANY_CALL, ANY_CALL),
    st.lists(st.builds(Printed, SIZES, st.floats(), st.floats(), st.floats()), max_size=5).map(tuple),
)


@given(REPORTS)
def test_any_evidence_has_an_answer_in_whole_sentences(report):
    lines = sentences(report)
    assert lines
    for line in lines:
        assert line.endswith(".")
        assert len(line) > 10
        assert "\n" not in line
        assert not re.search(r"\bnan\b|\bNone\b", line)


@pytest.mark.parametrize(
    ("sizes", "speedups", "said"),
    [((1, 2), (0.77, 1.5), "from 2"), ((1, 3), (0.77, 1.5), "from ≈ 2"), ((5, 6), (1.5, 0.7), "up to 5")],
)
def test_a_point_is_never_a_size_at_which_the_other_one_wins(sizes, speedups, said):
    points = [
        SweepPoint(size, Comparison(speedup, 0.99 * speedup, 1.01 * speedup, 8, GPU_WINS if speedup > 1 else CPU_WINS))
        for size, speedup in zip(sizes, speedups, strict=True)
    ]
    assert where(planted(points).resident) == said
