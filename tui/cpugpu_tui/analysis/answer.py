"""What an answer rests on: the numbers about a sweep, and which of its sizes have a winner."""

from __future__ import annotations

import math
from typing import NamedTuple

from cpugpu_tui.decide.crossover import Crossover, SweepPoint
from cpugpu_tui.decide.verdict import EQUIVALENCE, GPU_WINS, SURE_ROUNDS, TIE, UNDECIDED, Comparison
from cpugpu_tui.model.quantities import count_of, plus_minus

CLOSE = 1.1
"""An interval within 1/1.1 to 1.1 is too close to call; a wider one that contains 1 is too noisy to judge."""

WIDE = 10.0
"""A bracket whose ends differ by more than this factor is shown without a point inside it."""

UNTOLD = 1e3
"""Relative half-widths of this and more are not shown."""

WITHIN = f"within {EQUIVALENCE:.0%}".replace("%", " %")


class Printed(NamedTuple):
    """Times by the paper's clock at one size, and the GPU's when that clock waits for it; ns."""

    size: int
    cpu_ns: float
    gpu_ns: float
    gpu_waited_ns: float


# ------------------------------------------------------------------ one size


def not_judged(comparison: Comparison) -> str:
    """Return why a size was not judged, `1 round` or `± 40 %`; empty if it was judged."""
    spread = half_width(comparison)
    if spread is None:
        return count_of(comparison.rounds, "round")
    if comparison.verdict == UNDECIDED and not is_close(comparison):
        # Away from 1, a narrow interval is that of a winner that the sweep took back, because it had few rounds.
        is_few = spread < CLOSE - 1 and comparison.rounds < SURE_ROUNDS
        return count_of(comparison.rounds, "round") if is_few else plus_minus(spread)
    return ""


def is_close(comparison: Comparison) -> bool:
    """Whether the devices are equally fast or too close to call."""
    low, high = comparison.low or 0.0, comparison.high or math.inf
    return comparison.verdict == TIE or (comparison.verdict == UNDECIDED and low >= 1 / CLOSE and high <= CLOSE)


def half_width(comparison: Comparison) -> float | None:
    """Return the relative half-width of the interval; None without a usable one."""
    low, high = comparison.low, comparison.high
    if low is None or high is None or not 0 < low <= high < math.inf:
        return None
    spread = comparison.plus_minus
    return spread if spread is not None and spread < UNTOLD else None


# ------------------------------------------------------------------ where the GPU wins


def decided_points(found: Crossover) -> list[SweepPoint]:
    """Return the sizes that have a winner."""
    return [point for point in found.points if _has_winner(point)]


def _has_winner(point: SweepPoint) -> bool:
    return point.comparison.winner is not None


def is_wide(found: Crossover) -> bool:
    """Whether the bracket is too wide to name a point inside it."""
    return found.ratio is not None and found.ratio > WIDE


def contradicts(point: SweepPoint, decided: SweepPoint) -> bool:
    """Whether a size without a winner is too close to call, or points to the other device than `decided`."""
    same_side = (point.comparison.speedup > 1) == (decided.comparison.winner == GPU_WINS)
    return is_close(point.comparison) or not same_side
