"""The answer in one sentence, from the verdicts of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from cpugpu_tui.analysis.stats import MIN_ROUNDS
from cpugpu_tui.analysis.verdict import CPU_WINS, GPU_WINS, TIE, TOO_FEW, Comparison


@dataclass(frozen=True)
class SweepPoint:
    """One size of a sweep with its comparison."""

    size: int
    comparison: Comparison


def answer(points: Sequence[SweepPoint], threads: int) -> str:
    """Return one sentence: from which size the GPU wins, or why that cannot be said.

    The bracket runs from the largest size whose interval says CPU to the smallest size above it
    whose interval says GPU, with every decided size beyond it saying GPU too.
    """
    decided = sorted((p for p in points if p.comparison.verdict in (CPU_WINS, GPU_WINS)), key=lambda p: p.size)
    against = f"against {threads} CPU thread{'s' if threads != 1 else ''}"
    if not points:
        return "No size has been timed on both devices yet."
    if not decided:
        return _undecided({point.comparison.verdict for point in points}, against)
    changes = sum(a.comparison.verdict != b.comparison.verdict for a, b in pairwise(decided))
    first, last = decided[0], decided[-1]
    speedup = last.comparison.speedup
    times = f"×{speedup:,.0f}" if speedup >= 1000 else f"×{speedup:.3g}"
    gain = f"{times} at {last.size:,}"
    if len(points) == 1:
        return f"At {last.size:,} the {last.comparison.verdict} is faster, {times}, {against}."
    if changes == 0 and first.comparison.verdict == GPU_WINS:
        return f"The GPU is faster at every decided size from {first.size:,} on, {gain}, {against}."
    if changes == 0:
        return f"The CPU is faster up to {last.size:,}: no crossover found, {gain}, {against}."
    if changes == 1 and last.comparison.verdict == GPU_WINS:
        low = max(p.size for p in decided if p.comparison.verdict == CPU_WINS)
        high = min(p.size for p in decided if p.comparison.verdict == GPU_WINS)
        return f"The GPU is faster from between {low:,} and {high:,} on, {gain}, {against} (inputs on the device)."
    if changes == 1:
        high = max(p.size for p in decided if p.comparison.verdict == GPU_WINS)
        return f"The GPU is faster up to {high:,} and slower above, {gain}, {against}."
    return f"The lead changes {changes} times between {first.size:,} and {last.size:,}, {gain}, {against}."


def _undecided(verdicts: set[str], against: str) -> str:
    """Return the sentence for a sweep in which no size has a winner."""
    if verdicts == {TOO_FEW}:
        return f"Too few rounds for an answer {against}: it takes {MIN_ROUNDS} at least."
    if verdicts == {TIE}:
        return f"A tie {against}: CPU and GPU differ by less than 2 % at every size."
    return f"Undecided {against}: no size differs by more than the noise."
