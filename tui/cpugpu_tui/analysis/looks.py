"""The sequential rule of a duet: after how many pairs of agents to look, and what each look may spend of a level.

A verdict that is tried again and again as pairs come in is false more often than its level says. So the looks are fixed
beforehand and share the level (alpha spending with Bonferroni's inequality, which needs nothing about how looks depend
on each other). The last look gets most of it, because small changes are found there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")

LOOKS = {5: 0.05, 7: 0.15, 10: 0.8}
"""Number of pairs at a look → its share of the level. Together 1."""

VISITS = 4
"""Visits to each agent of a pair, in each case: A B B A A B B A. Slow drift of the machine cancels within a pair."""

FIRST_LOOK, MOST_PAIRS = min(LOOKS), max(LOOKS)
"""Least and most pairs of agents: at most 40 visits to each side."""


def first_word(pairs: int, judge: Callable[[int, float], Found], is_open: Callable[[Found], bool]) -> Found:
    """Return the result of the first look that is not open, or of the last look, with at least `FIRST_LOOK` pairs.

    `judge` is called with the number of pairs to judge, in order of time, and with the look's share of the level. So
    pairs that come after a decision never change it.
    """
    looks = [(count, share) for count, share in LOOKS.items() if count <= pairs]
    for count, share in looks[:-1]:
        found = judge(count, share)
        if not is_open(found):
            return found
    return judge(*looks[-1])
