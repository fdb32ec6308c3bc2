"""A survey of many workloads: their order, who wins in which part of each axis, and what belongs on the GPU at all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from cpugpu_tui.analysis.answer import Evidence, where
from cpugpu_tui.analysis.costs import END_TO_END
from cpugpu_tui.decide.crossover import ALWAYS, NEVER, NOTHING, Crossover
from cpugpu_tui.decide.verdict import GPU_WINS
from cpugpu_tui.model.quantities import joined

CPU, OPEN, RESIDENT, BOTH = "cpu", "open", "resident", "both"
"""Parts of an axis: the CPU wins; the bracket, or no winner; the GPU wins with its inputs there; also with copies."""


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
        winner = _winner(found, low, high)
        kind = OPEN if winner is None else CPU
        if winner == GPU_WINS:
            kind = BOTH if _winner(moved, low, high) == GPU_WINS else RESIDENT
        start = merged.pop().start if merged and merged[-1].kind == kind else _share(low, found)
        merged.append(Part(start, _share(high, found), kind))
    return tuple(merged)


def _winner(found: Crossover, low: int, high: int) -> str | None:
    """Return the winner between two sizes; None if it changes there, or is not known."""
    decided = [(point.size, point.comparison.winner) for point in found.points if point.comparison.winner is not None]
    below = [winner for size, winner in decided if size <= low][-1:]
    above = [winner for size, winner in decided if size >= high][:1]
    return below[0] if below and below == above else None


def sentences(found: Sequence[tuple[str, Evidence]]) -> tuple[str, str, str]:
    """Return what always belongs on the GPU, what never does, and what depends on the size. Takes (name, evidence)."""
    always = [(name, copied(each)) for name, each in found if each.measured.kind == ALWAYS]
    never = [name for name, each in found if each.measured.kind == NEVER]
    first = f"Always faster on this GPU: {joined([name for name, _ in always])}{_with_copies(always)}" if always else (
        "No workload is faster on this GPU at every size"
    )  # fmt: skip
    second = f"Never faster on it: {joined(never)}" if never else "No workload is slower on it at every size"
    if lost := [name for name, each in found if name not in never and copied(each).kind == NEVER]:
        second += f"; including copies, never {joined(lost)}"
    sizes, unclear = [], []
    for name, each in found:
        if each.measured.kind == ALWAYS and copied(each).low is not None:
            sizes.append(f"{name} including copies {where(copied(each))}")
        elif each.measured.low is not None:
            sizes.append(f"{name} {where(each.measured)}")
        elif each.measured.kind not in (ALWAYS, NEVER):
            unclear.append(name)
    third = f"Depends on the size: {joined(sizes)}" if sizes else "Nothing depends on the size"
    return f"{first}.", f"{second}.", f"{third}{f'; no winner: {joined(unclear)}' if unclear else ''}."


def _with_copies(always: Sequence[tuple[str, Crossover]]) -> str:
    """Return which of these workloads the GPU wins at every size with copies too; empty if no copies were timed."""
    if not any(moved.points for _, moved in always):
        return ""
    won = [name for name, moved in always if moved.kind == ALWAYS]
    which = "all of them" if len(won) == len(always) else f"only {joined(won)}" if won else "none of them"
    return f"; including copies, {which}"
