"""A survey of many workloads: their order, who wins in which part of each axis, and what belongs on the GPU at all."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from cpugpu_tui.analysis.answer import Evidence, contradicts, decided_points, exceptions, where
from cpugpu_tui.analysis.costs import END_TO_END
from cpugpu_tui.decide.crossover import ALWAYS, NEVER, NOTHING, Crossover
from cpugpu_tui.decide.verdict import GPU_WINS
from cpugpu_tui.model.quantities import joined, size_text

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
    if found.low is not None or exceptions(found):
        return DEPENDS
    return found.kind if found.kind in (ALWAYS, NEVER) else UNCLEAR


def _as_far_as(names: Sequence[str], found: Mapping[str, Crossover]) -> list[str]:
    """Return names of workloads with a winner, each with the largest size that has one if larger ones have none."""
    last = {name: decided_points(found[name])[-1].size for name in names}
    return [
        name if last[name] == found[name].points[-1].size else f"{name} up to {size_text(last[name])}" for name in names
    ]


def sentences(found: Sequence[tuple[str, Evidence]]) -> tuple[str, str, str]:
    """Return what always belongs on the GPU, what never does, and what depends on the size. Takes (name, evidence)."""
    resident_found = {name: each.measured for name, each in found}
    moved_found = {name: copied(each) for name, each in found}
    resident, moved = by_kind(resident_found.items()), by_kind(moved_found.items())
    first = "No workload is faster on this GPU at every size"
    if always := resident[ALWAYS]:
        first = f"Always faster on this GPU: {joined(_as_far_as(always, resident_found))}"
        untimed = [name for name in always if not moved_found[name].points]
        if untimed != always:
            won = [name for name in always if name in moved[ALWAYS]]
            which = "all of them" if won == always else f"only {joined(won)}" if won else "none of them"
            first += f"; including copies, {which}{f' (not timed: {joined(untimed)})' if untimed else ''}"
    never = resident[NEVER]
    second = "No workload is slower on it at every size"
    if never:
        second = f"Never faster on it: {joined(_as_far_as(never, resident_found))}"
    if lost := [name for name in moved[NEVER] if name not in never]:
        second += f"; never faster including copies: {joined(_as_far_as(lost, moved_found))}"
    sizes = [f"{name} {where(resident_found[name])}" for name in resident[DEPENDS]]
    later = [f"{name} {where(moved_found[name])}" for name in moved[DEPENDS] if name in always]
    third = f"Depends on the size: {joined(sizes)}" if sizes else "Nothing depends on the size"
    if later:
        third += f"; including copies, also {joined(later)}" if sizes else f", but including copies {joined(later)}"
    third += f"; no winner: {joined(resident[UNCLEAR])}" if resident[UNCLEAR] else ""
    return f"{first}.", f"{second}.", f"{third}."
