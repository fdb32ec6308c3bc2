"""A survey of many workloads: their order, who wins in which part of each axis, and what belongs on the GPU at all."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from cpugpu_tui.analysis.answer import Evidence, against, contradicts, decided_points
from cpugpu_tui.analysis.costs import END_TO_END
from cpugpu_tui.decide.crossover import ALWAYS, NEVER, NOTHING, Crossover
from cpugpu_tui.decide.verdict import GPU_WINS

CPU, OPEN, RESIDENT, BOTH = "cpu", "open", "resident", "both"
"""Parts of an axis: the CPU wins; the bracket, or no winner; the GPU wins with its inputs there; also with copies."""

LEAST = 0.04
"""Width of a part that is known at the largest size alone."""

DEPENDS, UNCLEAR = "depends on size", "no winner"
"""Beside `ALWAYS` and `NEVER`, where the GPU wins: at some sizes, or no size has a winner."""


class Part(NamedTuple):
    """A part of the axis of a workload."""

    start: float
    """Where it begins, from 0 to 1 on the logarithmic axis."""
    end: float
    kind: str
    """One of the kinds above."""


def copied(evidence: Evidence) -> Crossover:
    """Return the crossover including copies; without points if copies were not timed."""
    return evidence.worlds.get(END_TO_END, Crossover(NOTHING))


def place(evidence: Evidence) -> tuple[int, float]:
    """Return the sort key of a workload: the earlier on its axis the GPU wins, the smaller."""
    found = evidence.measured
    speedups = [point.comparison.speedup for point in found.points]
    if found.kind == ALWAYS:
        return 0, -speedups[0]
    if found.kind == NEVER:
        return 4, -speedups[-1]
    if found.point is None:
        return 3, -speedups[-1]
    return 1 if found.rises else 2, _share(found.point, found)


def _share(size: float, found: Crossover) -> float:
    """Return where a size lies on the axis of the sizes that were timed on both devices."""
    first, last = found.points[0].size, found.points[-1].size
    return math.log(size / first) / math.log(last / first) if last > first else 0.0


def parts(evidence: Evidence) -> tuple[Part, ...]:
    """Return the axis of a workload in parts; empty if only one size was timed on both devices."""
    found, moved = evidence.measured, copied(evidence)
    merged: list[Part] = []
    for low, high in pairwise(point.size for point in found.points):
        kind = _kind(found, moved, low, high)
        start = merged.pop().start if merged and merged[-1].kind == kind else _share(low, found)
        merged.append(Part(start, _share(high, found), kind))
    if merged:
        *_, (start, end, kind) = merged
        largest = found.points[-1].size
        at_end = _kind(found, moved, largest, largest)
        if at_end not in (kind, OPEN):
            middle = max(end - LEAST, (start + end) / 2)
            merged[-1:] = [Part(start, middle, kind), Part(middle, end, at_end)]
    return tuple(merged)


def _kind(found: Crossover, moved: Crossover, low: int, high: int) -> str:
    """Return the kind of the part between two sizes, or at one."""
    winner = _winner(found, low, high)
    if winner != GPU_WINS:
        return OPEN if winner is None else CPU
    return BOTH if _winner(moved, low, high) == GPU_WINS else RESIDENT


def _winner(found: Crossover, low: int, high: int) -> str | None:
    """Return the winner between two sizes; None if it changes there, is not known, or an end contradicts it."""
    below = [point for point in decided_points(found) if point.size <= low][-1:]
    above = [point.comparison.winner for point in decided_points(found) if point.size >= high][:1]
    if not below or above != [below[0].comparison.winner]:
        return None
    ends = [point for point in found.points if point.size in (low, high) and point.comparison.winner is None]
    return None if any(contradicts(point, below[0]) for point in ends) else above[0]


def by_kind(found: Iterable[tuple[str, Crossover]]) -> dict[str, list[str]]:
    """Return the names of workloads by where the GPU wins. Those without a size on both devices are left out."""
    names: dict[str, list[str]] = {kind: [] for kind in (ALWAYS, NEVER, DEPENDS, UNCLEAR)}
    for name, each in found:
        if each.points:
            names[kind_of(each)].append(name)
    return names


def kind_of(found: Crossover) -> str:
    """Return where the GPU wins: `ALWAYS`, `NEVER`, `DEPENDS` or `UNCLEAR`."""
    if found.low is not None or against(found):
        return DEPENDS
    return found.kind if found.kind in (ALWAYS, NEVER) else UNCLEAR
