"""Ratios of two things measured in turn: the only way to a number on a machine whose speed drifts."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cpugpu_tui.analysis.stats import mean_interval, median


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
        return f"{100 * (self.value - 1):+.2f} % ± {self.half_width_pct:.2f} % ({self.pairs} pairs)"


def ratio_of(pairs: Iterable[tuple[float, float]]) -> Ratio:
    """Return the ratio first/second over pairs of neighbours in time."""
    logs = [math.log(a / b) for a, b in pairs]
    interval = mean_interval(logs)
    if interval is None:
        centre = math.exp(median(logs))
        return Ratio(centre, 0.0001, 10_000.0, len(logs))
    return Ratio(math.exp(interval.mean), math.exp(interval.low), math.exp(interval.high), len(logs))


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
        if len(pairs) >= 8:
            ratio = ratio_of(pairs)
            if ratio.half_width_pct <= half_width_pct:
                return ratio, True
            if time.monotonic() - started > cap_s:
                return ratio, False


def table(title: str, header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    """Print a Markdown table with a title."""
    print(f"\n### {title}\n")
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
