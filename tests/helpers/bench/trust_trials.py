"""Trials of the product's intervals and words on simulated rounds, whose truth is known."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from scipy.stats import beta
from tests.helpers.bench.interval_study import LEAST, MOST, Result, rounds
from tests.helpers.runs.crossovers import crossover

from cpugpu_tui.decide.comparison import CPU_OBSERVED, GPU_OBSERVED, Comparison, SweepPoint
from cpugpu_tui.decide.correlation import MIN_ROUNDS, Pool
from cpugpu_tui.decide.next_size import is_clear
from cpugpu_tui.decide.stats import median
from cpugpu_tui.decide.verdict import case_correlation, compare, is_converged

SEARCH_ROUNDS = 24


def clopper_pearson(count: int, trials: int) -> tuple[float, float]:
    """Return the exact 95 % interval of a probability of which `count` of `trials` came true."""
    low = beta.ppf(0.025, count, trials - count + 1) if count else 0.0
    high = beta.ppf(0.975, count + 1, trials - count) if count < trials else 1.0
    return float(low), float(high)


def coverage(
    shape: str, rho: float, *, together: int, cases: int, noise: float = 1.0, speedup: float = 1.0, seed: int = 19
) -> Result:  # fmt: skip
    """Time `cases` in runs of `together`, each until its interval is narrow or 40 rounds are over."""
    logs = noise * rounds(shape, rho, cases, MOST, seed)
    held, halves, counts = 0, [], []
    for start in range(0, cases, together):
        for found, count in _run(logs[start : start + together], speedup):
            assert found.low is not None, "a winner was observed in spite of a wide interval"
            held += found.low <= speedup <= found.high
            halves.append(math.log(found.high / found.low) / 2)
            counts.append(count)
    return Result(held / len(counts), median(halves), median(counts))


def _run(logs: Any, speedup: float) -> list[tuple[Comparison, int]]:
    """Time the cases of one run in turn; return the comparison and the rounds of each when the run has ended."""
    pool = Pool()
    counts = [LEAST] * len(logs)
    active = set(range(len(logs)))
    while active:
        for case in sorted(active):
            cpu_ns, gpu_ns = _times(logs[case], counts[case], speedup)
            own = case_correlation([cpu_ns, gpu_ns], is_compared=True)
            others = pool.others(str(case), own)
            if counts[case] == MOST or is_converged([cpu_ns, gpu_ns], others):
                active.discard(case)
            else:
                counts[case] += 1
    ended = []
    for case, count in enumerate(counts):
        times = _times(logs[case], count, speedup)
        others = pool.others(str(case), case_correlation(times, is_compared=True))
        found = compare(*times, others)
        assert found is not None
        ended.append((found, count))
    return ended


def _times(logs: Any, count: int, speedup: float) -> tuple[Mapping[int, float], Mapping[int, float]]:
    """Return the first rounds of a CPU with these logarithms of noise, and of a GPU without noise."""
    cpu_ns = {index: 1e6 * speedup * math.exp(log) for index, log in enumerate(logs[:count])}
    return cpu_ns, dict.fromkeys(cpu_ns, 1e6)


def false_winners(
    shape: str, rho: float, *, sizes: int, searches: int = 400, noise: float = 1.0, seed: int = 20
) -> int:
    """Return how many of `searches` name a winner although both devices are equal at all of `sizes` sizes."""
    logs = noise * rounds(shape, rho, sizes * searches, SEARCH_ROUNDS, seed)
    return sum(_names_winner(logs[start : start + sizes]) for start in range(0, len(logs), sizes))


def _names_winner(logs: Sequence[Any]) -> bool:
    """Time each size until it is clear, with a look after every round from the sixth on, as a search does."""
    pool, counts = Pool(), dict.fromkeys(range(len(logs)), SEARCH_ROUNDS)
    active = set(counts)
    for count in range(MIN_ROUNDS, SEARCH_ROUNDS + 1):
        for size in sorted(active):
            times = _times(logs[size], count, 1.0)
            if is_clear(compare(*times, pool.others(str(size), case_correlation(times, is_compared=True)))):
                active.discard(size)
                counts[size] = count
    points = []
    for size, count in counts.items():
        times = _times(logs[size], count, 1.0)
        found = compare(*times, pool.others(str(size), case_correlation(times, is_compared=True)))
        assert found is not None
        points.append(SweepPoint(size + 1, found))
    return any(point.comparison.winner is not None for point in crossover(points).points)


def wrongly_observed(
    shape: str, rho: float, *, count: int, trials: int = 10_000, noise: float = 1.0, seed: int = 21
) -> float:
    """Return the share of pairs of equal devices, `count` rounds each, of which one is observed as faster."""
    one, other = (noise * rounds(shape, rho, trials, count, each) for each in (seed, seed + 1))
    return sum(observed(first, second) for first, second in zip(one, other, strict=True)) / trials


def observed(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether few rounds, as logarithms of time, show a winner without an interval."""
    times = ({index: 1e6 * math.exp(log) for index, log in enumerate(each)} for each in (one, other))
    found = compare(*times)
    return found is not None and found.verdict in (CPU_OBSERVED, GPU_OBSERVED)
