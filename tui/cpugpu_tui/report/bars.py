"""The axis of a sweep as a bar: which device wins in which part, on the logarithm of the sizes that were timed."""

from __future__ import annotations

import math
from bisect import bisect_right
from itertools import groupby, pairwise
from typing import NamedTuple

from cpugpu_tui.decide.comparison import WIDEST_GAP
from cpugpu_tui.report.conditions import Condition
from cpugpu_tui.report.report import SweepReport
from cpugpu_tui.report.segments import GPU, UNKNOWN, Segment, Size

CPU, RESIDENT, BOTH, OPEN, GAP = "cpu", "resident", "both", "open", "gap"
"""Kinds of a part: the CPU wins; the GPU wins with its inputs there; also with copies; a size has no winner there or
the winner changes; nothing can be said of the sizes between two, or not whether copies matter there: they are too far
apart, by themselves or for their leads."""

LEAST = 0.04
"""Width of a part that is known at one size alone."""


class Part(NamedTuple):
    """A part of the axis."""

    start: float
    """Where it begins, from 0 to 1."""
    end: float
    kind: str
    """One of the kinds above."""


class _Axis:
    """The sizes of a sweep from the smallest to the largest timed one, with the segments of both conditions."""

    def __init__(self, found: SweepReport) -> None:
        timed = found.resident.timed
        first, last = (timed[end].size for end in (0, -1)) if timed else (1, 1)
        self.sizes = [
            size for size in found.resident.sizes if size.reason not in UNKNOWN and first <= size.size <= last
        ]  # fmt: skip
        self._resident, self._moved = _Holder(found.resident), _Holder(found.with_copies)
        self._with_copies = {size.size for size in found.with_copies.decided if size.winner == GPU}
        self._first, self._length = math.log(first), math.log(last / first)

    def place(self, size: Size) -> float:
        """Return where a size lies, from 0 to 1."""
        if size.size == self.sizes[-1].size:  # exactly 1, whatever the logarithms are
            return 1.0
        return (math.log(size.size) - self._first) / self._length

    def at(self, size: Size) -> str:
        """Return the kind of one size: its own judgement."""
        if size.winner is None:
            return OPEN
        return CPU if size.winner != GPU else BOTH if size.size in self._with_copies else RESIDENT

    def between(self, low: Size, high: Size) -> str:
        """Return the kind between two neighbouring sizes."""
        part = self._resident.holding(low, high)
        if part is None:
            is_change = low.winner != high.winner if low.winner and high.winner else high.size <= WIDEST_GAP * low.size
            return OPEN if is_change else GAP
        if part.winner is None:
            return OPEN
        if part.winner != GPU:
            return CPU
        if not self._with_copies >= {low.size, high.size}:
            return RESIDENT
        return BOTH if self._moved.holding(low, high) is not None else GAP


class _Holder:
    """Finds the segment of a condition that holds two sizes."""

    def __init__(self, condition: Condition) -> None:
        self._segments = condition.segments
        self._firsts = [part.first for part in self._segments]

    def holding(self, low: Size, high: Size) -> Segment | None:
        """Return the segment that holds both sizes."""
        place = bisect_right(self._firsts, low.size)
        part = self._segments[place - 1] if place else None
        return part if part is not None and part.last >= high.size else None


def parts_of(found: SweepReport) -> tuple[Part, ...]:
    """Return the axis of a sweep in parts, from end to end; empty if only one size was timed on both devices."""
    axis = _Axis(found)
    parts: list[Part] = []
    for low, high in pairwise(axis.sizes):
        start, end = axis.place(low), axis.place(high)
        width = min(LEAST / 2, (end - start) / 3)  # a size is seen even if no neighbour shares its judgement
        parts += [
            Part(start, start + width, axis.at(low)),
            Part(start + width, end - width, axis.between(low, high)),
            Part(end - width, end, axis.at(high)),
        ]
    merged = (list(group) for _, group in groupby(parts, lambda part: part.kind))
    return tuple(Part(group[0].start, group[-1].end, group[0].kind) for group in merged)


def cells_of(found: SweepReport, count: int) -> tuple[str, ...]:
    """Return the kinds of `count` equal cells of the axis; empty if only one size was timed on both devices.

    A cell with sizes of several kinds is open, so that a bracket is seen however narrow it is. If the GPU wins at all
    of them, and at some not with copies, it is `RESIDENT`.
    """
    axis = _Axis(found)
    if len(axis.sizes) < 2:
        return ()
    inside: list[set[str]] = [set() for _ in range(count)]
    for size in axis.sizes:
        inside[min(int(axis.place(size) * count), count - 1)].add(axis.at(size))
    starts = [axis.place(size) for size in axis.sizes]
    found_kinds = []
    for cell, kinds in enumerate(inside):
        if kinds:
            found_kinds.append(kinds.pop() if len(kinds) == 1 else RESIDENT if kinds == {RESIDENT, BOTH} else OPEN)
            continue
        above = min(max(bisect_right(starts, (cell + 0.5) / count), 1), len(starts) - 1)
        found_kinds.append(axis.between(axis.sizes[above - 1], axis.sizes[above]))
    return tuple(found_kinds)
