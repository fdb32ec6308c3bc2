"""Series of runs with planted changes, and the noise between fresh processes that an H200 server showed.

Used by the tests in small and by `make bench ONLY=compare` in full.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

from cpugpu_tui.analysis.compare import FASTER, SLOWER, Judged, Pair, judge
from cpugpu_tui.analysis.gating import gated, judge_slowdowns, verdict
from cpugpu_tui.model import DEVICE, LATENCY

NOISE = {
    64: {("CPU", LATENCY): 0.144, ("GPU", LATENCY): 0.149, ("GPU", DEVICE): 0.013},
    1024: {("CPU", LATENCY): 0.144, ("GPU", LATENCY): 0.039, ("GPU", DEVICE): 0.0031},
    2048: {("CPU", LATENCY): 0.144, ("GPU", LATENCY): 0.0105, ("GPU", DEVICE): 0.0022},
}
"""Size of a matrix multiplication → device and metric → standard deviation of ln(time) between fresh processes. The
kernels take 12, 63 and 345 µs; latencies on the GPU are 28, 73 and 359 µs."""

SWEEP = ("matmul", "default", "float32", 0)


def planted_pairs(
    random_: random.Random, runs: int, factors: Mapping[str, float], sizes: Sequence[int] = tuple(NOISE)
) -> list[Pair]:
    """Return cases of two series whose times differ by these factors; metric → factor of the GPU's time, 1 if missing.

    All noise is independent, so that as many verdicts as possible can be false.
    """

    def side(name: str, spread: float, factor: float) -> dict[str, float]:
        return {f"{name}{run}": 1e5 * factor * math.exp(random_.gauss(0.0, spread)) for run in range(runs)}

    return [
        Pair(f"matmul/default/{size}/float32/tall", device, side("base", spread, 1.0),
             side("new", spread, factors.get(metric, 1.0) if device == "GPU" else 1.0), SWEEP, size, metric=metric)
        for size in sizes for (device, metric), spread in NOISE[size].items()
    ]  # fmt: skip


def false_words(trials: int, runs: int = 5) -> int:
    """Return the number of comparisons of equal series with any word SLOWER or FASTER."""
    found = (judge(planted_pairs(random.Random(seed), runs, {})) for seed in range(trials))
    return sum(any(each.verdict in (SLOWER, FASTER) for each in judged) for judged in found)


def kernel_words(trials: int, factor: float, size: int, runs: int) -> list[Judged]:
    """Return the verdict on the kernel time of one case, in each comparison, if it takes `factor` times as long."""
    found = (judge(planted_pairs(random.Random(seed), runs, {DEVICE: factor}, (size,))) for seed in range(trials))
    return [next(each for each in judged if each.metric == DEVICE) for judged in found]


def gate_outcomes(trials: int, factor: float, limit: float, runs: int = 5) -> list[str]:
    """Return the result of each gate with this limit, if both times of the GPU become `factor` times as long."""
    limits, factors = dict.fromkeys((LATENCY, DEVICE), limit), dict.fromkeys((LATENCY, DEVICE), factor)
    pairs = (planted_pairs(random.Random(seed), runs, factors) for seed in range(trials))
    return [verdict(gated(judge_slowdowns(each, limits), limits)) for each in pairs]
