"""Copies as a start-up and a rate: time = alpha + bytes / beta (the cost model of every message, Hockney 1994)."""

from __future__ import annotations

from collections.abc import Sequence

from cpugpu_tui.decide.stats import median
from cpugpu_tui.model import Line

LARGE = 1 / 16
"""The rate is taken from sizes within this factor of the largest: in between a copy from pageable memory changes its
way (through a staging buffer, piece by piece), and would bend both constants."""

SMALL = 0.5
"""The start-up is taken from sizes that the rate explains at most this share of."""

TURNS = 4
"""Each constant needs the other; with sizes from 4 B to 256 MiB they stand still after two turns."""


def fit_line(points: Sequence[tuple[float, float]]) -> Line:
    """Return start-up and rate of copies from (bytes, ns).

    The start-up is the median of what small copies take beyond the rate, the rate the median of large copies less
    the start-up: one disturbed size moves neither. A start-up below nothing is held at 0.

    Raises:
        ValueError: fewer than two different sizes, or larger copies take no longer.
    """
    if len({size for size, _ in points}) < 2:
        raise ValueError("a line needs two sizes")
    smallest, (largest, largest_ns) = min(points), max(points)
    large = [(size, ns) for size, ns in points if size >= LARGE * largest and size > smallest[0]]
    alpha_ns, ns_per_byte = 0.0, largest_ns / largest
    for _ in range(TURNS):
        small = [(size, ns) for size, ns in points if ns_per_byte * size <= SMALL * ns] or [smallest]
        alpha_ns = max(0.0, median([ns - ns_per_byte * size for size, ns in small]))
        ns_per_byte = median([(ns - alpha_ns) / size for size, ns in large])
        if ns_per_byte <= 0.0:
            raise ValueError("larger copies take no longer")
    return Line(alpha_ns, 1e9 / ns_per_byte)
