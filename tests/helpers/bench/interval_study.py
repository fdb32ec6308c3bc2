"""Simulated rounds with known truth, and what intervals do on them.

Vectorised: one row of an array is one case, in order of time. The truth is the median of the law, because medians are
what the table shows.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

Array = Any
"""numpy's arrays; the types of the tests are not checked."""

RHOS = (0.0, 0.3, 0.8)
NOISE = 0.03
LEAST, MOST = 8, 40
"""Rounds of a case."""

# ------------------------------------------------------------------ rounds


def _normal(scores: Array, rng: Array) -> Array:
    return NOISE * scores


def _student_2(scores: Array, rng: Array) -> Array:
    """Student's t with 2 degrees: its variance is infinite."""
    a = 2 * ndtr(scores) - 1
    return 0.02 * a * np.sqrt(2 / (1 - a * a))


def _outliers(scores: Array, rng: Array) -> Array:
    """One round in ten is longer, by a factor that follows Pareto's law with index 2."""
    return NOISE * scores + (rng.random(scores.shape) < 0.1) * rng.exponential(0.5, scores.shape)


def _bimodal(scores: Array, rng: Array) -> Array:
    """Three rounds in ten take a fifth longer; with memory, one mode lasts for several rounds."""
    return 0.2 * (scores > ndtri(0.7)) + 0.01 * rng.standard_normal(scores.shape)


def _drift_in_noise(scores: Array, rng: Array) -> Array:
    """Half of the variance has the memory, half has none, as on the simulated machine."""
    return NOISE * (scores + rng.standard_normal(scores.shape)) / math.sqrt(2)


SHAPES: dict[str, Callable[[Array, Array], Array]] = {
    "normal": _normal, "Student t, 2": _student_2, "one-sided outliers": _outliers, "bimodal": _bimodal,
    "drift within noise": _drift_in_noise,
}  # fmt: skip


def rounds(shape: str, rho: float, cases: int, count: int, seed: int) -> Array:
    """Return ln(cpu/gpu) of cases × rounds with true median 0; neighbours of the underlying normal correlate by rho."""
    rng = np.random.default_rng([seed, round(10 * rho), list(SHAPES).index(shape)])
    scores = np.empty((cases, count))
    scores[:, 0] = rng.standard_normal(cases)
    for index in range(1, count):
        scores[:, index] = rho * scores[:, index - 1] + math.sqrt(1 - rho**2) * rng.standard_normal(cases)
    return SHAPES[shape](scores, rng) - _median(shape)


@lru_cache
def _median(shape: str) -> float:
    rng = np.random.default_rng(1)
    return float(np.median(SHAPES[shape](rng.standard_normal(2_000_000), rng)))


@dataclass(frozen=True)
class Result:
    """Of many cases."""

    coverage: float
    half_width: float
    """Median."""
    rounds: float
    """Median."""

    def text(self) -> str:
        """`95.1 % ± 1.02 %`; a dash where no interval exists."""
        return f"{100 * self.coverage:.1f} % ± {100 * self.half_width:.2f}" if math.isfinite(self.half_width) else "–"
