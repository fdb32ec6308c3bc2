"""The time limit of a run, and the share of it that each sweep of a search gets."""

from __future__ import annotations

import math

from cpugpu_tui.model import Case, SweepKey
from cpugpu_tui.timing.timers import Stopwatch

GRACE = 0.25
"""Part of its share of the time for which a sweep may go on after it, until its cases have rounds for an interval."""


SHARE = 0.8
"""Part of the time that is shared equally. The rest goes to the widest brackets when every sweep has had its share."""


LAST = 0.02
"""Part of the time in which no further case starts, and the last ones end with a result."""


class TimeShares:
    """A time limit that begins now. In a search each sweep gets an equal share of the time that is left."""

    def __init__(self, limit_s: float, *, is_search: bool) -> None:
        self.sweep: SweepKey | None = None
        """The sweep whose share of the time it is; None without shares."""
        self.postponed: list[tuple[int, Case]] = []
        """Cases that a sweep's share of the time was too short for."""
        self._has_shares = is_search and limit_s < math.inf
        self._limit_s = self._ends_s = self._grace_ends_s = limit_s
        self._sweeps = 0
        """Number of sweeps."""
        self._watch = Stopwatch()

    @property
    def left_s(self) -> float:
        """Return the time until the limit, seconds; negative after it."""
        return self._limit_s - self._watch.elapsed_s()

    def begin(self, sweep: SweepKey | None, sweeps_left: int) -> None:
        """Begin the share of a sweep, the first of the `sweeps_left` that have not begun."""
        if self._has_shares:
            self._sweeps = self._sweeps or sweeps_left
            share_s = min(self.left_s / sweeps_left, SHARE * self._limit_s / self._sweeps)
            self.sweep, self._ends_s = sweep, self._watch.elapsed_s() + share_s
            self._grace_ends_s = self._ends_s + GRACE * share_s

    def begin_rest(self) -> list[tuple[int, Case]]:
        """End the last share; return the postponed cases, which get nearly all the time that is left."""
        cases, self.postponed, self.sweep = self.postponed, [], None
        self._ends_s, self._grace_ends_s = (1 - LAST) * self._limit_s, self._limit_s
        return cases

    @property
    def is_over(self) -> bool:
        """Return whether a sweep's share is over."""
        return self._has_shares and self._watch.elapsed_s() >= self._ends_s

    @property
    def is_grace_over(self) -> bool:
        """Return whether the time to complete rounds after the share is over, too."""
        return self._watch.elapsed_s() >= self._grace_ends_s
