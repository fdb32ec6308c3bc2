"""Cases of two series whose runs have noise of a known size, and small questions about their verdicts."""

import math
import random
from collections.abc import Sequence

from cpugpu_tui.analysis.compare import BANDS, Gated, Judged, gated, judge_slowdowns
from cpugpu_tui.analysis.pairs import Pair

BASE = (100.0, 101.0, 99.0, 100.5, 99.5)
"""Runs of a case, ns."""

NOISE = 0.02
TRIALS = 200


def side(values: Sequence[float], name: str = "run") -> dict[str, float]:
    return {f"{name}{index}": value for index, value in enumerate(values)}


def pair(base: Sequence[float], new: Sequence[float], size: int = 64, device: str = "CPU", **more: object) -> Pair:
    sweep = ("matmul", "default", "float32", 0)
    return Pair(f"matmul/default/{size}/float32/tall", device, side(base), side(new, "new"), sweep, size, **more)  # type: ignore[arg-type]


def noisy(random_: random.Random, runs: int, factor: float = 1.0) -> list[float]:
    return [1e5 * factor * math.exp(random_.gauss(0.0, NOISE)) for _ in range(runs)]


def series(random_: random.Random, cases: int, runs: int, slower: Sequence[float], device: str = "CPU") -> list[Pair]:
    """A plan's cases in two series with this many runs; factors slow down the first cases of the second series."""
    factors = [*slower, *[1.0] * cases][:cases]
    return [pair(noisy(random_, runs), noisy(random_, runs, f), 2 + i, device) for i, f in enumerate(factors)]


def gate(pairs: Sequence[Pair], limit: float) -> tuple[Gated, ...]:
    limits = dict.fromkeys(BANDS, limit)
    return gated(judge_slowdowns(pairs, limits), limits)


def verdicts(judged: Sequence[Judged]) -> list[str]:
    return [each.verdict for each in judged]


def loud_runs(random_: random.Random, runs: int, noise: float, second_mode: float = 1.0) -> list[float]:
    """Runs of which three in ten take `second_mode` times as long."""
    return [
        1e5 * math.exp(random_.gauss(0.0, noise)) * (second_mode if random_.random() < 0.3 else 1.0)
        for _ in range(runs)
    ]
