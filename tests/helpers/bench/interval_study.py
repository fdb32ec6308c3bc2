"""Candidates for the interval of a case, on simulated rounds: how often each covers the truth, and how wide it is.

Vectorised: one row of an array is one case, in order of time. The truth is the median of the law, because medians are
what the table shows. `cpugpu_tui.decide` has the chosen candidate, in plain Python.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import stats

Array = Any
"""numpy's arrays; the types of the tests are not checked."""

RHOS = (0.0, 0.3, 0.8)
NOISE = 0.03
LEVEL = 0.05
LEAST, MOST = 8, 40
"""Rounds of a case."""

# ------------------------------------------------------------------ rounds


def _normal(scores: Array, rng: Array) -> Array:
    return NOISE * scores


def _student_2(scores: Array, rng: Array) -> Array:
    """Student's t with 2 degrees: its variance is infinite."""
    a = 2 * stats.norm.cdf(scores) - 1
    return 0.02 * a * np.sqrt(2 / (1 - a * a))


def _outliers(scores: Array, rng: Array) -> Array:
    """One round in ten is longer, by a factor that follows Pareto's law with index 2."""
    return NOISE * scores + (rng.random(scores.shape) < 0.1) * rng.exponential(0.5, scores.shape)


def _bimodal(scores: Array, rng: Array) -> Array:
    """Three rounds in ten take a fifth longer; with memory, one mode lasts for several rounds."""
    return 0.2 * (scores > stats.norm.ppf(0.7)) + 0.01 * rng.standard_normal(scores.shape)


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


# ------------------------------------------------------------------ intervals for independent rounds

Distances = tuple[Array, Array, Array]
"""Centre, and the distances down and up to the ends."""


def student(values: Array) -> Distances:
    """Mean and Student's t."""
    count = values.shape[1]
    half = stats.t.ppf(1 - LEVEL / 2, count - 1) * values.std(1, ddof=1) / math.sqrt(count)
    return values.mean(1), half, half


def winsorized(values: Array) -> Array:
    """Values with an eighth at each end, at least one, moved to the next one."""
    count = values.shape[1]
    cut = max(1, count // 8)
    ordered = np.sort(values, 1)
    return np.clip(values, ordered[:, cut : cut + 1], ordered[:, count - cut - 1 : count - cut])


def trimmed(values: Array) -> Distances:
    """Trimmed mean, with the error from the winsorised values."""
    count = values.shape[1]
    cut = max(1, count // 8)
    left = count - 2 * cut
    kept = np.sort(values, 1)[:, cut : count - cut]
    half = stats.t.ppf(1 - LEVEL / 2, left - 1) * winsorized(values).std(1, ddof=1) * math.sqrt(count) / left
    return kept.mean(1), half, half


def sign_test(values: Array) -> Distances:
    """Median and order statistics, interpolated (Hettmansperger and Sheather); None below 6 rounds is infinite."""
    count = values.shape[1]
    middle = np.median(values, 1)
    rank = 0
    while rank < count // 2 and stats.binom.cdf(rank, count, 0.5) <= LEVEL / 2:
        rank += 1
    if rank == 0:
        return middle, np.full(len(values), np.inf), np.full(len(values), np.inf)
    outer, inner = (1 - 2 * stats.binom.cdf(each - 1, count, 0.5) for each in (rank, rank + 1))
    share = (outer - (1 - LEVEL)) / (outer - inner)
    weight = (count - rank) * share / (rank + (count - 2 * rank) * share)
    ordered = np.sort(values, 1)
    low = (1 - weight) * ordered[:, rank - 1] + weight * ordered[:, rank]
    high = (1 - weight) * ordered[:, count - rank] + weight * ordered[:, count - rank - 1]
    return middle, middle - low, high - middle


def hodges_lehmann(values: Array) -> Distances:
    """Median of the means of all pairs, and the signed-rank interval."""
    count = values.shape[1]
    first, second = np.triu_indices(count)
    means = np.sort((values[:, first] + values[:, second]) / 2, 1)
    middle = np.median(means, 1)
    rank = int(np.searchsorted(_signed_rank_cdf(count), LEVEL / 2, side="right"))
    if rank == 0:
        return middle, np.full(len(values), np.inf), np.full(len(values), np.inf)
    return middle, middle - means[:, rank - 1], means[:, -rank] - middle


@lru_cache
def _signed_rank_cdf(count: int) -> Array:
    ways = np.zeros(count * (count + 1) // 2 + 1)
    ways[0] = 1
    for rank in range(1, count + 1):
        more = ways.copy()
        more[rank:] += ways[:-rank]
        ways = more
    return np.cumsum(ways) / 2.0**count


METHODS: dict[str, Callable[[Array], Distances]] = {
    "sign test": sign_test, "Hodges–Lehmann": hodges_lehmann, "trimmed mean": trimmed, "Student": student,
}  # fmt: skip

# ------------------------------------------------------------------ autocorrelation

NO_CORRECTION, OWN, POOLED = "none", "own", "pooled"
"""None; the case's own lag-1 correlation as it is; the cautious estimate of all cases that run together."""

MEMORY, MOST_CORRELATION, PRIOR_ROUNDS, ENOUGH = 0.8, 0.9, 10, 6


def correlations(values: Array) -> Array:
    """Lag-1 autocorrelation of each case, of the winsorised values."""
    offsets = winsorized(values)
    offsets = offsets - offsets.mean(1, keepdims=True)
    squares = (offsets**2).sum(1)
    return (offsets[:, 1:] * offsets[:, :-1]).sum(1) / np.where(squares > 0, squares, 1)


def estimates(found: Array, counts: Array, together: int) -> Array:
    """Cautious correlation of each group of `together` cases, without the bias (1 + 4ρ) / rounds."""
    products, rounds_ = ((each.reshape(-1, together).sum(1)) for each in (counts * found + 1, counts))
    weights = rounds_ - 4 * together + PRIOR_ROUNDS
    return np.repeat(np.clip((products + PRIOR_ROUNDS * MOST_CORRELATION) / weights, 0, MOST_CORRELATION), together)


@lru_cache
def _series(count: int, rho: float) -> tuple[float, float]:
    """Variance of the mean over its usual estimate, and degrees of freedom of that estimate, for an AR(1) series."""
    matrix = rho ** np.abs(np.subtract.outer(np.arange(count), np.arange(count)))
    centred = (np.eye(count) - 1 / count) @ matrix
    trace = np.trace(centred)
    return matrix.mean() * count * (count - 1) / trace, trace**2 / np.trace(centred @ centred)


GRID = np.linspace(0, MOST_CORRELATION, 37)


@lru_cache
def _scales(count: int) -> Array:
    scales = []
    for rho in GRID:
        memory = max(rho, MEMORY)
        inflation, degrees = _series(count, memory)
        share = rho / memory
        inflation, degrees = 1 + share * (inflation - 1), (count - 1) * (1 - share) + share * degrees
        wider = stats.t.ppf(1 - LEVEL / 2, degrees) / stats.t.ppf(1 - LEVEL / 2, count - 1)
        scales.append(math.sqrt(inflation) * wider)
    return np.array(scales)


def scale(correction: str, values: Array, found: Array, counts: Array, together: int) -> Array:
    """Factor on the distances of each case."""
    if correction == NO_CORRECTION:
        return np.ones(len(values))
    if correction == OWN:
        own = np.clip(correlations(values), 0, MOST_CORRELATION)
        return np.sqrt((1 + own) / (1 - own))
    return np.interp(estimates(found, counts, together), GRID, _scales(values.shape[1]))


# ------------------------------------------------------------------ a study


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


def study(
    shape: str, rho: float, method: str, correction: str, *, together: int, stops: Sequence[int] | None = None,
    cases: int = 2000, noise: float = 1.0,
) -> Result:  # fmt: skip
    """Time cases until their intervals are narrow (1 %), or for a fixed number of rounds (`stops` of one number)."""
    values = noise * rounds(shape, rho, cases, MOST, seed=19)
    looks = range(LEAST, MOST + 1) if stops is None else stops
    counts, found = np.zeros(cases), np.zeros(cases)
    active = np.ones(cases, dtype=bool)
    for count in looks:
        seen = values[:, :count]
        counts[active], found[active] = count, correlations(seen)[active]
        _, down, up = METHODS[method](seen)
        factor = scale(correction, seen, found, counts, together)
        rho = estimates(found, counts, together) if correction == POOLED else 0
        active &= ~(((down + up) / 2 * factor <= 0.01) & (count * (1 - rho) / (1 + rho) >= ENOUGH))
        if not active.any():
            break
    held, halves = np.zeros(cases, dtype=bool), np.zeros(cases)
    for count in np.unique(counts).astype(int):
        chosen = counts == count
        seen = values[:, :count]
        centre, down, up = METHODS[method](seen)
        factor = scale(correction, seen, found, counts, together)
        shown = np.median(seen, 1)  # an interval is stretched to contain the shown value
        low, high = np.minimum(centre - down * factor, shown), np.maximum(centre + up * factor, shown)
        held[chosen], halves[chosen] = ((low <= 0) & (high >= 0))[chosen], ((high - low) / 2)[chosen]
    return Result(float(held.mean()), float(np.median(halves)), float(np.median(counts)))


# ------------------------------------------------------------------ recorded rounds


def agreement(series: Sequence[Sequence[float]], method: str) -> tuple[int, int, float]:
    """Compare the halves of recorded series of ln(time): how many agree within both intervals, of how many, width.

    A recording has no known truth. The halves of a series that does not drift differ by more than the root of the sum
    of both squares in at most 5 %.
    """
    agreed, halves = 0, []
    for each in series:
        half = len(each) // 2
        first, second = (METHODS[method](np.array([part])) for part in (each[:half], each[half : 2 * half]))
        gap = float(first[0][0] - second[0][0])
        room = math.hypot(first[1][0], second[2][0]) if gap > 0 else math.hypot(first[2][0], second[1][0])
        agreed += abs(gap) <= room
        halves.append(float(first[1][0] + first[2][0]) / 2)
    return agreed, len(series), float(np.median(halves))
