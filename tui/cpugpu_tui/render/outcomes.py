"""What tells saved runs apart in a list: the answer of each in a few words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpugpu_tui.analysis.answer import decided_points, is_wide
from cpugpu_tui.decide.crossover import ALWAYS, NEVER, Crossover, SweepPoint, crossover
from cpugpu_tui.decide.verdict import CPU_WINS, GPU_WINS, compare, typical_ns
from cpugpu_tui.model import place
from cpugpu_tui.model.quantities import factor, size_text, time_text
from cpugpu_tui.render.crossover_words import place_text

if TYPE_CHECKING:
    from cpugpu_tui.store import RunSummary, Store
    from cpugpu_tui.store.reading import RoundTimes


MOST_CASES = 1_000
"""Cases of which a command reads the results: 1,000 take 0.15 s."""


@dataclass(frozen=True)
class Outcome:
    """The result of one saved run."""

    answer: str = ""
    """`GPU from ≈ 205`, `CPU 3.1× at 64`, `CPU 4.1 ms at 2,048`; of several workloads `GPU wins 18 of 20`; or empty."""
    sweeps: int = 0
    """Number of sweeps if the answer is only that of the first one with a winner."""


def affordable(runs: Sequence[RunSummary]) -> Sequence[RunSummary]:
    """Return the first of these runs, with at most `MOST_CASES` finished cases together."""
    cases = 0
    for index, run in enumerate(runs):
        cases += run.cases_ok
        if cases > MOST_CASES:
            return runs[:index]
    return runs


def outcomes(store: Store, runs: Sequence[RunSummary]) -> dict[int, Outcome]:
    """Return the outcomes of these runs, by number."""
    times = store.round_times(sorted(run.number for run in runs))
    return {run.number: outcome_of(times[run.number]) for run in runs}


def outcome_of(mine: RoundTimes) -> Outcome:
    """Return the outcome of a run with these times."""
    sweeps: dict[tuple[str, str, str], list[tuple[int, Mapping[str, Mapping[int, float]]]]] = {}
    for key, devices in mine.items():
        workload, size, dtype, threads = key.rsplit("/", 3)  # workload and variant
        sweeps.setdefault((workload, dtype, threads), []).append((int(size), devices))
    found = {sweep: _crossover_of(cases) for sweep, cases in sweeps.items()}
    told = {sweep: text for sweep, cases in sweeps.items() if (text := _answer(found[sweep], cases))}
    decided = (text for sweep, text in told.items() if (each := found[sweep]) is None or decided_points(each))
    first = next(decided, next(iter(told.values()), ""))
    if len({name.partition("/")[0] for name, _, _ in sweeps}) > 1:
        compared = [each for each in found.values() if each is not None]
        wins = sum(any(point.comparison.winner == GPU_WINS for point in each.points) for each in compared)
        return Outcome(f"GPU wins {wins} of {len(compared)}" if compared else first)
    return Outcome(first, len(sweeps))


def _crossover_of(cases: Sequence[tuple[int, Mapping[str, Mapping[int, float]]]]) -> Crossover | None:
    """Return the crossover of one sweep; None if no size was timed on both devices."""
    points = []
    for size, devices in cases:
        gpu = _gpu(devices)
        comparison = compare(devices["cpu"], devices[gpu]) if gpu and "cpu" in devices else None
        if comparison is not None:
            points.append(SweepPoint(size, comparison))
    return crossover(points) if points else None


def _answer(found: Crossover | None, cases: Sequence[tuple[int, Mapping[str, Mapping[int, float]]]]) -> str:
    """Return the answer of one sweep; empty without times."""
    if found is None:
        return _only_time(cases)
    if found.kind in (ALWAYS, NEVER):
        return _winner(found)
    if found.low is not None and found.high is not None and is_wide(found):
        return f"GPU {'above' if found.rises else 'up to'} {found.low:,}–{found.high:,}"
    return f"GPU {place_text(found)}" if decided_points(found) else "undecided"


def _winner(found: Crossover) -> str:
    """Return the device that wins at every decided size, with its speedup at the largest of them."""
    winner = GPU_WINS if found.kind == ALWAYS else CPU_WINS
    last = [point for point in found.points if point.comparison.winner == winner][-1]
    speedup = last.comparison.speedup
    return f"{winner} {factor(speedup if winner == GPU_WINS else 1 / speedup)} at {size_text(last.size)}"


def _only_time(cases: Sequence[tuple[int, Mapping[str, Mapping[int, float]]]]) -> str:
    """Return the time of the largest case of a run on one device; empty without times."""
    size, devices = max(cases, key=lambda case: case[0])
    for name, rounds in devices.items():
        typical = typical_ns(rounds)
        if typical is not None:
            return f"{'CPU' if name == 'cpu' else 'GPU'} {time_text(typical)} at {size_text(size)}"
    return ""


def _gpu(devices: Iterable[str]) -> str | None:
    """Return the GPU with the lowest number."""
    return min((name for name in devices if name != "cpu"), key=place, default=None)
