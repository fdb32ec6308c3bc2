"""The looks of a duet: fixed, few, and together no more than one level."""

from __future__ import annotations

import math

from cpugpu_tui.analysis.compare import FIRST_LOOK, LOOKS, MOST_PAIRS, VISITS, first_word


def test_the_looks_spend_one_level_together_and_end_after_40_visits() -> None:
    assert math.isclose(sum(LOOKS.values()), 1.0)
    assert list(LOOKS) == sorted(LOOKS)
    assert VISITS * MOST_PAIRS == 40
    assert next(iter(LOOKS)) == FIRST_LOOK


def test_the_first_look_that_decides_is_the_last_one() -> None:
    asked: list[tuple[int, float]] = []

    def judge(count: int, share: float) -> str:
        asked.append((count, share))
        return "clear" if count >= 7 else "open"

    assert first_word(10, judge, lambda word: word == "open") == "clear"
    assert asked == [(5, LOOKS[5]), (7, LOOKS[7])]


def test_without_a_decision_the_last_look_that_was_reached_counts() -> None:
    assert first_word(9, lambda count, _share: count, lambda _count: True) == 7
