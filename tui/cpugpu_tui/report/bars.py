"""The axis of a sweep as a bar: which device wins in which part, on the logarithm of the sizes that were timed."""

from __future__ import annotations

import math
from bisect import bisect_right
from itertools import groupby, pairwise
from typing import NamedTuple

from cpugpu_tui.report.conditions import Condition
from cpugpu_tui.report.report import SweepReport
from cpugpu_tui.report.segments import GPU, Segment, Size

CPU, RESIDENT, BOTH, OPEN, GAP = "cpu", "resident", "both", "open", "gap"
"""Kinds of a part: the CPU wins; the GPU wins with its inputs there; also with copies; nothing was decided; between two
sizes that are too far apart to say anything about those between them, or whether copies matter there."""

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
    """The timed sizes of a sweep with the segments that hold them, for both conditions."""

    def __init__(self, found: SweepReport) -> None:
        self.timed = found.resident.timed
        self._resident, self._moved = _Holder(found.resident), _Holder(found.with_copies)
        first, last = (self.timed[end].size for end in (0, -1)) if self.timed else (1, 1)
        self._first, self._length = math.log(first), math.log(last / first)

    def place(self, size: Size) -> float:
        """Return where a size lies, from 0 to 1."""
        if size.size == self.timed[-1].size:  # exactly 1, whatever the logarithms are
            return 1.0
        return (math.log(size.size) - self._first) / self._length

    def kind(self, low: Size, high: Size) -> str:
        """Return the kind between two neighbouring sizes, or at one size."""
        part = self._resident.holding(low, high)
        if part is None or part.winner is None:
            is_open = part is not None or low.winner is None or high.winner is None or low.winner != high.winner
            return OPEN if is_open else GAP
        if part.winner != GPU:
            return CPU
        ends = [self._moved.holding(size, size) for size in (low, high)]
        if any(moved is None or moved.winner != GPU for moved in ends):
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
    for low, high in pairwise(axis.timed):
        start, end, kind = axis.place(low), axis.place(high), axis.kind(low, high)
        width = min(LEAST / 2, (end - start) / 3)  # a size is seen even if no neighbour shares its judgement
        first, last = axis.kind(low, low), axis.kind(high, high)
        parts += [
            Part(start, start + width, first),
            Part(start + width, end - width, kind),
            Part(end - width, end, last),
        ]
    merged = (list(group) for _, group in groupby(parts, lambda part: part.kind))
    return tuple(Part(group[0].start, group[-1].end, group[0].kind) for group in merged)


def cells_of(found: SweepReport, count: int) -> tuple[str, ...]:
    """Return the kinds of `count` equal cells of the axis; empty if only one size was timed on both devices.

    A cell with sizes of several kinds is open, so that a bracket is seen however narrow it is. If the GPU wins at all
    of them, and at some not with copies, it is `RESIDENT`.
    """
    axis = _Axis(found)
    if len(axis.timed) < 2:
        return ()
    inside: list[set[str]] = [set() for _ in range(count)]
    for size in axis.timed:
        inside[min(int(axis.place(size) * count), count - 1)].add(axis.kind(size, size))
    starts = [axis.place(size) for size in axis.timed]
    found_kinds = []
    for cell, kinds in enumerate(inside):
        if kinds:
            found_kinds.append(kinds.pop() if len(kinds) == 1 else RESIDENT if kinds == {RESIDENT, BOTH} else OPEN)
            continue
        place = bisect_right(starts, (cell + 0.5) / count)
        low = axis.timed[min(max(place, 1), len(starts) - 1) - 1]
        high = axis.timed[min(max(place, 1), len(starts) - 1)]
        found_kinds.append(axis.kind(low, high))
    return tuple(found_kinds)
