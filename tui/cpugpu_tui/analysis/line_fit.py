"""Copies as a start-up and a rate: time = alpha + bytes / beta (the cost model of every message, Hockney 1994)."""

from __future__ import annotations

from collections.abc import Sequence

from cpugpu_tui.model import Line


def fit_line(points: Sequence[tuple[float, float]]) -> Line:
    """Return the line through (bytes, ns) that is off least in relative terms: 4 B and 256 MiB count alike.

    Least squares of (alpha + slope · bytes) / ns - 1; a negative start-up is held at 0.

    Raises:
        ValueError: fewer than two different sizes.
    """
    if len({size for size, _ in points}) < 2:
        raise ValueError("a line needs two sizes")
    weights = [1.0 / ns**2 for _, ns in points]
    total = sum(weights)
    mean_size = sum(w * size for w, (size, _) in zip(weights, points, strict=True)) / total
    mean_ns = sum(w * ns for w, (_, ns) in zip(weights, points, strict=True)) / total
    spread = sum(w * (size - mean_size) ** 2 for w, (size, _) in zip(weights, points, strict=True))
    together = sum(w * (size - mean_size) * (ns - mean_ns) for w, (size, ns) in zip(weights, points, strict=True))
    largest_size, largest_ns = max(points)
    # What is noise alone must not become a negative or infinite rate.
    slope = max(together / spread, 0.1 * largest_ns / largest_size)
    return Line(max(mean_ns - slope * mean_size, 0.0), 1e9 / slope)
