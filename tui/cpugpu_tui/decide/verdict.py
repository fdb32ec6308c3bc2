"""Compare CPU and GPU: speedup, interval and verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from cpugpu_tui.decide import comparison
from cpugpu_tui.decide.correlation import NONE, Correlation, correlation
from cpugpu_tui.decide.interval import Interval, median_interval
from cpugpu_tui.decide.starts import NO_SPREAD, Spread, earlier_spread, starts_interval
from cpugpu_tui.decide.stats import median

Starts = Sequence[tuple[Mapping[int, float], Mapping[int, float]]]
"""For each start of the process, the rounds of both devices: round index → ns."""


def typical_ns(round_ns: Mapping[int, float], later: Sequence[Mapping[int, float]] = ()) -> float | None:
    """Return the median of a device's rounds, ns; None without rounds. With `later` starts, their geometric mean.

    Every time, speedup and interval that is shown comes from here and from `_interval`.
    """
    starts = [[ns for ns in rounds.values() if ns > 0] for rounds in (round_ns, *later)]
    medians = [median(usable) for usable in starts if usable]
    if len(medians) < 2:
        return medians[0] if medians else None
    return math.exp(math.fsum(map(math.log, medians)) / len(medians))


def _interval(logs: Sequence[float], center: float, others: Correlation) -> Interval | None:
    """Return the interval of ln(time) or ln(cpu/gpu), extended to contain `center`; None for too few values.

    It is that of the median of paired logarithms in order of time, in which drift of both devices cancels; in a
    quotient of medians it cancels only partly.
    """
    found = median_interval(logs, others)
    if found is None:
        return None
    return Interval(center, min(found.low, center), max(found.high, center))


def plus_minus(
    round_ns: Mapping[int, float], others: Correlation = NONE, later: Sequence[Mapping[int, float]] = (),
    earlier_ns: Sequence[float] = (),
) -> float | None:  # fmt: skip
    """Return the relative half-width of the 95 % interval of one device's time, 0.01 for ± 1 %; None if too few.

    With `later` or earlier starts it is that of the mean over starts.
    """
    known = [typical for each in (round_ns, *later) if (typical := typical_ns(each)) is not None]
    earlier = earlier_spread([math.log(ns) for ns in earlier_ns])
    over_starts = starts_interval([math.log(ns) for ns in known], earlier)
    interval = over_starts or _own_interval(round_ns, others)
    return math.expm1(interval.half_width) if interval is not None else None


def _own_interval(round_ns: Mapping[int, float], others: Correlation) -> Interval | None:
    typical = typical_ns(round_ns)
    return _interval(_logs(round_ns), math.log(typical), others) if typical else None


def _logs(round_ns: Mapping[int, float]) -> list[float]:
    return [math.log(round_ns[r]) for r in sorted(round_ns) if round_ns[r] > 0]


def case_correlation(round_ns: Sequence[Mapping[int, float]], *, is_compared: bool) -> Correlation:
    """Return the correlation of a case's rounds; one mapping of round index → ns for each device, CPU first.

    If devices are compared with the first, the CPU, it is that of their ratios, otherwise that of their times.
    """
    if is_compared:
        first, *gpus = round_ns
        series = [_paired(first, gpu) for gpu in gpus]
    else:
        series = [_logs(each) for each in round_ns]
    found = NONE
    for values in series:
        found = found.plus(correlation(values))
    return found


def compare(
    cpu_ns: Mapping[int, float], gpu_ns: Mapping[int, float], others: Correlation = NONE, later: Starts = (),
    earlier: Spread = NO_SPREAD,
) -> comparison.Comparison | None:  # fmt: skip
    """Compare two devices; each mapping is round index → median ns of that round.

    The speedup is the quotient of the shown times. Its interval comes from the rounds of both devices: the halves of a
    round follow each other, so that common drift cancels in ln(cpu/gpu). With `later` starts, or the spread of
    `earlier` ones, it is that of the mean over starts. None if no round has both devices.
    """
    starts = [pair for pair in ((cpu_ns, gpu_ns), *later) if _paired(*pair)]
    if not later and not earlier.degrees:
        return _within(cpu_ns, gpu_ns, others)
    within = _within(*starts[0], others) if starts else None
    if within is None or not (len(starts) > 1 or earlier.degrees):
        return within
    interval = starts_interval([median(_paired(*pair)) for pair in starts], earlier)
    assert interval is not None  # its variance has degrees of freedom
    log = math.fsum(math.log(typical_ns(cpu) or 1) - math.log(typical_ns(gpu) or 1) for cpu, gpu in starts)
    log /= len(starts)
    is_alone = len(starts) == 1
    return _judged(
        log, min(interval.low, log), max(interval.high, log), sum(len(_paired(*pair)) for pair in starts)
    )._replace(
        starts=len(starts), degrees=len(starts) - 1 + earlier.degrees,
        within_low=within.low if is_alone else None, within_high=within.high if is_alone else None,
    )  # fmt: skip


def compare_apart(
    cpu: Sequence[Mapping[int, float]], gpu: Sequence[Mapping[int, float]], others: Correlation = NONE,
    earlier_ns: Sequence[float] = (),
) -> comparison.Comparison | None:  # fmt: skip
    """Compare two devices that were timed at different times, from the rounds of each start of the process.

    Their rounds are no pairs, so the half-widths of both intervals add in squares. With Student's t in each of them
    that is a little wider than it must be. None if a device has no rounds.
    """
    counts = [[sum(ns > 0 for ns in rounds.values()) for rounds in starts] for starts in (cpu, gpu)]
    if not all(map(any, counts)):
        return None
    times = [typical_ns(first, later) or 1.0 for first, *later in (cpu, gpu)]
    log = math.log(times[0]) - math.log(times[1])
    widths = [plus_minus(cpu[0], others, cpu[1:], earlier_ns), plus_minus(gpu[0], NONE, gpu[1:])]
    rounds, starts = min(map(sum, counts)), min(sum(map(bool, each)) for each in counts)
    if widths[0] is None or widths[1] is None:
        return comparison.Comparison(ratio_of(log), None, None, rounds, _observed(cpu[0], gpu[0], log))
    half = math.hypot(*(math.log1p(width) for width in widths if width is not None))
    return _judged(log, log - half, log + half, rounds)._replace(starts=starts, degrees=starts - 1)


def start_logs(starts: Starts) -> list[float]:
    """Return the median of ln(cpu/gpu) of each start with both devices, which is what an interval over starts uses."""
    return [median(logs) for pair in starts if (logs := _paired(*pair))]


def _within(
    cpu_ns: Mapping[int, float], gpu_ns: Mapping[int, float], others: Correlation
) -> comparison.Comparison | None:
    """Compare two devices by the rounds of one start: by their interval, or where it decides nothing as observed.

    Six rounds of a case alone may all drift together, for all that is known, and their interval is wide: on an H200
    server the CPU took 4.9 to 6.5 s in each round and the GPU 11.7 to 13.5 s, between 0.07× and 1.4×.
    """
    logs = _paired(cpu_ns, gpu_ns)
    cpu, gpu = typical_ns(cpu_ns), typical_ns(gpu_ns)
    if not logs or cpu is None or gpu is None:
        return None
    log = math.log(cpu) - math.log(gpu)
    interval = _interval(logs, log, others)
    found = None if interval is None else _judged(log, interval.low, interval.high, len(logs))
    if found is not None and found.verdict != comparison.UNDECIDED:
        return found
    observed = _observed(cpu_ns, gpu_ns, log)
    if found is not None and observed == comparison.TOO_FEW:
        return found
    return comparison.Comparison(ratio_of(log), None, None, len(logs), observed)


def _judged(log: float, low: float, high: float, rounds: int) -> comparison.Comparison:
    """Return the comparison for an interval around `log`.

    The interval is extended to its half-width on both sides if that takes its winner, because faces show either: on an
    H200 `1.05× ± 11 %` was shown beside a winner.
    """
    half = (high - low) / 2
    if word(low, high) in (comparison.GPU_WINS, comparison.CPU_WINS) and word(log - half, log + half) != word(
        low, high
    ):
        low, high = min(low, log - half), max(high, log + half)
    return comparison.Comparison(ratio_of(log), ratio_of(low), ratio_of(high), rounds, word(low, high))


def _paired(cpu_ns: Mapping[int, float], gpu_ns: Mapping[int, float]) -> list[float]:
    """Return ln(cpu/gpu) of the rounds with both devices, in order of time."""
    common = [r for r in cpu_ns if cpu_ns[r] > 0 and gpu_ns.get(r, 0) > 0]
    return [math.log(cpu_ns[r]) - math.log(gpu_ns[r]) for r in sorted(common)]


def _observed(cpu_ns: Mapping[int, float], gpu_ns: Mapping[int, float], log: float) -> str:
    """Return the verdict without an interval: a device is observed as faster if all its rounds are shorter."""
    cpu, gpu = ([ns for ns in rounds.values() if ns > 0] for rounds in (cpu_ns, gpu_ns))
    if min(len(cpu), len(gpu)) < comparison.OBSERVED_ROUNDS or abs(log) < math.log(comparison.OBSERVED_RATIO):
        return comparison.TOO_FEW
    if max(gpu) < min(cpu):
        return comparison.GPU_OBSERVED
    return comparison.CPU_OBSERVED if max(cpu) < min(gpu) else comparison.TOO_FEW


NARROW = 0.01
"""Half-width of the interval of ln(cpu/gpu) at which the rounds end (method.md, step 7)."""

NARROW_SHARE = 0.1
"""The rounds also end at this share of |ln(cpu/gpu)|, because large speedups need less precision."""

ENOUGH = 6.0
"""Least rounds, counted as independent ones, before a narrow interval ends them: correlated rounds are at first too
close together. Without it intervals covered the truth in 91 to 94 % at a correlation of 0.8, with it in 94 to 99 %."""


def is_converged(round_ns: Sequence[Mapping[int, float]], others: Correlation = NONE) -> bool:
    """Whether the intervals are narrow enough to stop; one mapping of round index → ns for each device, CPU first.

    With one device, the half-width of its ln(time) must be within the margin of a tie. With several, the comparison of
    each with the first must be narrow.
    """
    first, *gpus = round_ns
    own = case_correlation(round_ns, is_compared=bool(gpus))
    rho = others.plus(own).estimate
    if own.series and min(len(each) for each in round_ns) * (1 - rho) / (1 + rho) < ENOUGH:
        return False
    if not gpus:
        interval = _own_interval(first, others)
        return interval is not None and interval.half_width <= comparison.EQUIVALENCE
    found = [compare(first, gpu, others) for gpu in gpus]
    return all(
        each is not None and each.half_width <= max(NARROW, NARROW_SHARE * abs(math.log(each.speedup)))
        for each in found
    )


def ratio_of(log: float) -> float:
    """Return e^log, clamped so that it is neither 0 nor infinite (10^±304)."""
    return math.exp(min(max(log, -700.0), 700.0))


def word(low: float, high: float) -> str:
    """Return the verdict for an interval [low, high] of ln(cpu/gpu)."""
    margin = math.log1p(comparison.EQUIVALENCE)
    if low > margin:
        return comparison.GPU_WINS
    if high < -margin:
        return comparison.CPU_WINS
    if low >= -margin and high <= margin:
        return comparison.TIE
    return comparison.UNDECIDED


USABLE_TIME = 0.1
"""Relative half-width at which the time of a single device is precise enough to compare with another machine."""


def is_usable(round_ns: Sequence[Mapping[int, float]], others: Correlation = NONE, *, is_compared: bool) -> bool:
    """Whether the rounds give a usable result; one mapping of round index → ns for each device.

    If devices are compared with the first, the CPU, each needs a winner or a tie. Otherwise each needs a known time.
    """
    if not is_compared:
        widths = [plus_minus(own, others) for own in round_ns]
        return all(width is not None and width <= USABLE_TIME for width in widths)
    first, *gpus = round_ns
    found = [compare(first, gpu, others) for gpu in gpus]
    return all(each is not None and (each.faster is not None or each.verdict == comparison.TIE) for each in found)
