"""Ratios of two things measured in turn: the only way to a number on a machine whose speed drifts."""

import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from cpugpu_tui.decide.stats import median

LEAST_PAIRS = 8
"""Fewer pairs give no interval by order statistics."""


@dataclass(frozen=True)
class Ratio:
    """How much larger the first of two things is, with its 95 % interval."""

    value: float
    low: float
    high: float
    pairs: int

    @property
    def half_width_pct(self) -> float:
        """Half-width of the interval in percent of the value."""
        return 100 * (math.sqrt(self.high / self.low) - 1)

    def text(self) -> str:
        """`+0.42 % ± 0.31 % (40 pairs)`."""
        if self.pairs < LEAST_PAIRS:
            return f"{100 * (self.value - 1):+.2f} % ({self.pairs} pairs, too few for an interval)"
        return f"{100 * (self.value - 1):+.2f} % ± {self.half_width_pct:.2f} % ({self.pairs} pairs)"


def ratio_of(pairs: Iterable[tuple[float, float]]) -> Ratio:
    """Return the median ratio first/second over pairs of neighbours in time, with its sign-test interval.

    Order statistics need no law of the noise: on shared machines single pairs are off by 50 %, and one
    of them would double a t-interval.
    """
    logs = sorted(math.log(a / b) for a, b in pairs)
    count = len(logs)
    if count < LEAST_PAIRS:
        return Ratio(math.exp(median(logs)) if logs else 1.0, 1e-4, 1e4, count)
    rank = max(0, math.floor((count - 1.96 * math.sqrt(count)) / 2))
    return Ratio(math.exp(median(logs)), math.exp(logs[rank]), math.exp(logs[count - 1 - rank]), count)


def alternate(
    first: Callable[[], float], second: Callable[[], float], *, half_width_pct: float, cap_s: float
) -> tuple[Ratio, bool]:
    """Measure both in turn, order flipped each time, until the ratio is known; return it and whether it is."""
    pairs: list[tuple[float, float]] = []
    started = time.monotonic()
    while True:
        if len(pairs) % 2:
            b = second()
            a = first()
        else:
            a = first()
            b = second()
        pairs.append((a, b))
        if len(pairs) >= LEAST_PAIRS:
            ratio = ratio_of(pairs)
            if ratio.half_width_pct <= half_width_pct:
                return ratio, True
            if time.monotonic() - started > cap_s:
                return ratio, False


def range_text(ratios: Sequence[Ratio]) -> str:
    """`−3.6 to +4.8 %, each ± 0.3 to 2.6 %`."""
    percents = [100 * (ratio.value - 1) for ratio in ratios]
    widths = [ratio.half_width_pct for ratio in ratios]
    return (
        (f"{min(percents):+.1f} to {max(percents):+.1f} %, each ± {min(widths):.1f} to {max(widths):.1f} %")
        .replace("-", "−")
        .replace("−0.0", "0.0")
    )


@dataclass(frozen=True)
class SideBySide:
    """Two ways to measure the same thing."""

    ours: float
    """Median over the pairs, in the unit of the two callables; so is `theirs`."""
    theirs: float
    ratio: Ratio
    known: bool
    """Whether the ratio is known as narrowly as was asked for."""

    def holds(self, allowed_pct: float | None) -> str:
        """`yes` or `no` if the whole interval is inside or outside the promise, `open` if it is on both sides."""
        if allowed_pct is None:
            return "–"
        low, high = -math.log1p(allowed_pct / 100), math.log1p(allowed_pct / 100)
        least, most = math.log(self.ratio.low), math.log(self.ratio.high)
        if low <= least and most <= high:
            return "yes"
        return "no" if most < low or least > high else "open"


def side_by_side(
    ours: Callable[[], float], theirs: Callable[[], float], *, half_width_pct: float, cap_s: float
) -> SideBySide:
    """Measure both in turn as `alternate` does, and keep what was measured."""
    seen: tuple[list[float], list[float]] = ([], [])

    def kept(measure: Callable[[], float], values: list[float]) -> Callable[[], float]:
        def call() -> float:
            values.append(measure())
            return values[-1]

        return call

    ratio, known = alternate(kept(ours, seen[0]), kept(theirs, seen[1]), half_width_pct=half_width_pct, cap_s=cap_s)
    return SideBySide(median(seen[0]), median(seen[1]), ratio, known)


def cap_seconds(usual: float) -> float:
    """Return how long a part may take: BENCH_SECONDS, or what is usual for it."""
    return float(os.environ.get("BENCH_SECONDS", usual))


def table(title: str, header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    """Print a Markdown table with a title."""
    print(f"\n### {title}\n")
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
