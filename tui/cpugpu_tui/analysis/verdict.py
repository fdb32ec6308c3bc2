"""Who is faster, by how much, and whether that can be said."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cpugpu_tui.analysis.stats import median, series_interval

EQUIVALENCE = 0.02
"""Differences inside ±2 % are a tie (METHOD.md, step 8)."""

GPU_WINS, CPU_WINS, TIE, UNDECIDED, TOO_FEW = "GPU", "CPU", "tie", "undecided", "too few rounds"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Speed-up of the GPU over the CPU: time(CPU) / time(GPU)."""

    speedup: float
    """Above 1 the GPU is faster."""
    low: float | None
    """Lower end of the 95 % interval; None with too few rounds."""
    high: float | None
    """Upper end of the 95 % interval."""
    rounds: int
    """Rounds in which both devices were timed."""
    verdict: str
    """One of `GPU`, `CPU`, `tie`, `undecided`, `too few rounds`."""

    @property
    def plus_minus(self) -> float | None:
        """Relative half-width of the interval, 0.01 for ±1 %."""
        if self.low is None or self.high is None:
            return None
        return math.sqrt(self.high / self.low) - 1


def compare(cpu_ns: Mapping[int, float], gpu_ns: Mapping[int, float]) -> Comparison | None:
    """Compare two devices round by round: each mapping holds round index → median ns of that round.

    A round's halves are neighbours in time, so drift that both share cancels in ln(cpu/gpu).
    Returns None when no round has both.
    """
    common = [r for r in cpu_ns if r in gpu_ns and cpu_ns[r] > 0 and gpu_ns[r] > 0]
    if not common:
        return None
    logs = [math.log(cpu_ns[r]) - math.log(gpu_ns[r]) for r in sorted(common)]
    interval = series_interval(logs)
    if interval is None:
        return Comparison(_ratio(median(logs)), None, None, len(logs), TOO_FEW)
    return Comparison(
        _ratio(interval.mean),
        _ratio(interval.low),
        _ratio(interval.high),
        len(logs),
        word(interval.low, interval.high),
    )


NARROW = 0.01
"""A half-width of the interval of ln(cpu/gpu) that ends the rounds (METHOD.md, step 7)."""

NARROW_SHARE = 0.1
"""So does this share of its mean: nobody needs 1 % of a factor of 50."""


def is_converged(round_ns: Sequence[Mapping[int, float]]) -> bool:
    """Whether more rounds would say nothing new; one mapping of round index → ns for each device, the CPU's first.

    With one device the interval of its own ln(time) must be within the margin of a tie, for it decides nothing;
    with several, each one's against the first must be narrow.
    """
    first, *others = round_ns
    pairs = [[math.log(first[r] / other[r]) for r in first if other.get(r)] for other in others]
    for logs in pairs or [[math.log(value) for value in first.values() if value > 0]]:
        interval = series_interval(logs)
        if interval is None:
            return False
        enough = max(NARROW, NARROW_SHARE * abs(interval.mean)) if others else EQUIVALENCE
        if interval.half_width > enough:
            return False
    return True


def _ratio(log: float) -> float:
    """Return e^log, held inside what a float can tell from 0 and infinity (10^±304)."""
    return math.exp(min(max(log, -700.0), 700.0))


def word(low: float, high: float) -> str:
    """Return the verdict for an interval [low, high] of ln(cpu/gpu)."""
    margin = math.log1p(EQUIVALENCE)
    if low > margin:
        return GPU_WINS
    if high < -margin:
        return CPU_WINS
    if low >= -margin and high <= margin:
        return TIE
    return UNDECIDED
