"""Series of runs with planted changes, and the noise between fresh processes that an H200 server showed.

Used by the tests in small and by `make bench ONLY=compare` in full.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence

from cpugpu_tui.analysis.compare import (
    DUET_BANDS,
    FASTER,
    MOST_PAIRS,
    SLOWER,
    VISITS,
    Judged,
    gated,
    judge,
    judge_slowdowns,
    verdict,
)
from cpugpu_tui.analysis.pairs import Pair
from cpugpu_tui.decide.stats import median
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


# ------------------------------------------------------------------ duets


TOGETHER = {
    64: {("CPU", LATENCY): (0.125, 0.052), ("GPU", LATENCY): (0.13, 0.029), ("GPU", DEVICE): (0.047, 0.014)},
    1024: {("CPU", LATENCY): (0.125, 0.052), ("GPU", LATENCY): (0.038, 0.016), ("GPU", DEVICE): (0.0023, 0.0012)},
    2048: {("CPU", LATENCY): (0.125, 0.052), ("GPU", LATENCY): (0.012, 0.0036), ("GPU", DEVICE): (0.0024, 0.0007)},
}
"""The same as `NOISE` within a process, and between processes that live together, after ten visits to each in turn."""

DRIFT_RHO = 0.9
"""Correlation of the drift of the machine between one visit and the next, to either agent. Its deviation is `NOISE`."""


def duet_pairs(random_: random.Random, factors: Mapping[str, float], sizes: Sequence[int] = tuple(NOISE)) -> list[Pair]:
    """Return cases of a duet; arguments as for `planted_pairs`.

    Each process has a bias, each visit has noise of its own, and the machine drifts for both sides.
    """
    found = []
    for size in sizes:
        for (device, metric), (within, together) in TOGETHER[size].items():
            factor = factors.get(metric, 1.0) if device == "GPU" else 1.0
            drift = NOISE[size][device, metric]
            logs = [_agents(random_, within, together, drift, is_flipped=bool(pair % 2)) for pair in range(MOST_PAIRS)]
            base, new = ({f"pair{pair}": scale * math.exp(each[side]) for pair, each in enumerate(logs)}
                         for side, scale in ((0, 1e5), (1, 1e5 * factor)))  # fmt: skip
            case = f"matmul/default/{size}/float32/tall"
            found.append(Pair(case, device, base, new, SWEEP, size, metric=metric))
    return found


def _agents(
    random_: random.Random, within: float, together: float, drift: float, *, is_flipped: bool
) -> tuple[float, float]:
    """Return the ln(time) of both agents of a pair: the median of their visits."""
    visit = min(within, together * math.sqrt(10))
    process = math.sqrt(max(0.0, together**2 - visit**2 / 10))
    biases = [random_.gauss(0.0, process) for _ in range(2)]
    seen: tuple[list[float], list[float]] = ([], [])
    level = random_.gauss(0.0, drift)
    for index in range(VISITS):
        for side in (0, 1) if (index % 2 == 0) != is_flipped else (1, 0):
            level = DRIFT_RHO * level + random_.gauss(0.0, drift * math.sqrt(1 - DRIFT_RHO**2))
            seen[side].append(biases[side] + level + random_.gauss(0.0, visit))
    return median(seen[0]), median(seen[1])


def false_duets(trials: int) -> int:
    """Return the number of duets of equal sides with any word SLOWER or FASTER, at any look."""
    found = (judge(duet_pairs(random.Random(seed), {}), DUET_BANDS) for seed in range(trials))
    return sum(any(each.verdict in (SLOWER, FASTER) for each in judged) for judged in found)


def duet_words(trials: int, metric: str, factor: float, size: int) -> list[Judged]:
    """Return the verdict on one time of the GPU in each duet of one case, if this time takes `factor` times as long."""
    duets = (judge(duet_pairs(random.Random(seed), {metric: factor}, (size,)), DUET_BANDS) for seed in range(trials))
    return [next(each for each in judged if (each.label[:3], each.metric) == ("GPU", metric)) for judged in duets]


def exact_bounds(count: int, trials: int, level: float = 0.05) -> tuple[float, float]:
    """Return the Clopper-Pearson interval of a share."""

    def tail(share: float, counts: range) -> float:
        return sum(math.comb(trials, k) * share**k * (1 - share) ** (trials - k) for k in counts)

    def solved(is_low: Callable[[float], bool]) -> float:
        low, high = 0.0, 1.0
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if is_low(middle) else (low, middle)
        return low

    least = solved(lambda share: tail(share, range(count, trials + 1)) < level / 2) if count else 0.0
    most = solved(lambda share: tail(share, range(count + 1)) > level / 2) if count < trials else 1.0
    return least, most


# ------------------------------------------------------------------ many cases


CASES = 25
FRESH = 10_000
"""First seed of comparisons of many cases. The rule of moderation was chosen with smaller ones."""
EQUAL, UNEQUAL, MODES = "equal noise", "noise from 0.5 to 4 times as large", "2× in 30 % of runs"
"""How the noise of the cases of a comparison differs. With modes, each case of a run is slow by itself."""


def many_pairs(
    random_: random.Random, runs: int, noise: float, kind: str, factor: float = 1.0, metric: str = LATENCY
) -> list[Pair]:
    """Return `CASES` cases of two series with this noise, of which the first takes `factor` times as long."""

    def side(name: str, spread: float, times: float) -> dict[str, float]:
        slow = (2.0 if kind == MODES and random_.random() < 0.3 else 1.0 for _ in range(runs))
        return {f"{name}{run}": 1e5 * times * mode * math.exp(random_.gauss(0.0, spread))
                for run, mode in enumerate(slow)}  # fmt: skip

    found = []
    for index in range(CASES):
        spread = noise * (0.5 * 8 ** (index / (CASES - 1)) if kind == UNEQUAL else 1.0)
        base, new = side("base", spread, 1.0), side("new", spread, 1.0 if index else factor)
        # Each its own sweep: cases of one are judged together if they are many.
        found.append(Pair(f"work{index}/default/64/float32/tall", "GPU", base, new,
                          (f"work{index}", "default", "float32", 0), 64, metric=metric))  # fmt: skip
    return found


def words_of_equal(trials: int, runs: int, noise: float, kind: str) -> int:
    """Return the number of comparisons of `CASES` equal cases with any word SLOWER or FASTER."""
    found = (judge(many_pairs(random.Random(FRESH + seed), runs, noise, kind)) for seed in range(trials))
    return sum(any(each.verdict in (SLOWER, FASTER) for each in judged) for judged in found)


def found_among_many(trials: int, runs: int, noise: float, factor: float, metric: str) -> int:
    """Return in how many comparisons the one changed case of `CASES` is called SLOWER."""
    trials_ = (random.Random(FRESH + seed) for seed in range(trials))
    found = (judge(many_pairs(each, runs, noise, EQUAL, factor, metric)) for each in trials_)
    return sum(judged[0].verdict == SLOWER for judged in found)
