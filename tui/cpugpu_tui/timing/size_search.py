"""Crossover search: choose the next size, and the sizes at which the CPU need not be timed."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field, replace

from cpugpu_tui.decide.crossover import SweepPoint, crossover, is_hopeless, next_size
from cpugpu_tui.decide.verdict import TOO_FEW, Comparison, word
from cpugpu_tui.model import Case, Found, Search, SweepKey
from cpugpu_tui.timing.case_run import CaseRun

PATIENCE = 12
"""Rounds of an undecided size after which the search adds the next size; the undecided one continues meanwhile."""

END_ROUNDS = 12
"""Least rounds of the ends of a bracket. Five in a row may fall into one burst of another process: on a shared host
with 16 threads, a crossover at 250 was bracketed as 215 to 234."""


@dataclass
class _Tried:
    """State of the search in one sweep."""

    grid: int
    """Number of sizes at the start."""
    tried: dict[int, Case] = field(default_factory=dict)
    runs: dict[int, CaseRun] = field(default_factory=dict)
    """Cases of this process, active or finished."""
    found: dict[str, dict[int, Comparison]] = field(default_factory=lambda: defaultdict(dict))
    """GPU → results of a process that died."""
    estimates: dict[int, float] = field(default_factory=dict)
    """Size → speedup estimated by warm-up."""


class SizeSearch:
    """Tracks all cases of a search and proposes the next."""

    def __init__(self, search: Search, cases: tuple[Case, ...], gpus: tuple[str, ...]) -> None:
        """`gpus` are the names of the GPUs; each has its own crossover."""
        self._search = search
        self._gpus = gpus
        self._sweeps: dict[SweepKey, _Tried] = defaultdict(lambda: _Tried(0))
        for case in cases:
            self._sweeps[case.sweep].tried[case.size] = case
        for found in search.found:
            self._remember(found)
        for sweep in self._sweeps.values():
            sweep.grid = len(sweep.tried)

    def _remember(self, found: Found) -> None:
        sweep, size = self._sweeps[found.case.sweep], found.case.size
        sweep.tried[size] = found.case
        if found.speedup is None:
            return
        verdict = TOO_FEW
        if found.low is not None and found.high is not None:
            verdict = word(math.log(found.low), math.log(found.high))
        device = found.device or next(iter(self._gpus), "")
        sweep.found[device][size] = Comparison(found.speedup, found.low, found.high, found.rounds, verdict)
        sweep.estimates[size] = min(found.speedup, sweep.estimates.get(size, found.speedup))

    @property
    def most_left(self) -> int:
        """Return the number of cases that may still be added."""
        return sum(max(0, self._search.most_cases - len(sweep.tried)) for sweep in self._sweeps.values())

    def learn(self, case_run: CaseRun) -> None:
        """Record a case that has started."""
        sweep = self._sweeps[case_run.case.sweep]
        sweep.runs[case_run.case.size] = case_run
        estimate = case_run.estimated_speedup
        if estimate is not None:
            sweep.estimates[case_run.case.size] = estimate

    def is_left_out(self, case: Case) -> bool:
        """Return whether the CPU is certain to lose at this size, judged by the two largest sizes below it."""
        estimates = self._sweeps[case.sweep].estimates
        below = [estimates[size] for size in sorted(estimates) if size < case.size]
        return not self._search.full and is_hopeless(below)

    def keeps(self, case_run: CaseRun) -> bool:
        """Return whether a finished case gets further rounds, because it is an end of a bracket or inside one."""
        is_settled = case_run.is_starved or case_run.is_exhausted or case_run.rounds_complete >= END_ROUNDS
        if is_settled or not case_run.is_compared:
            return False
        sweep = self._sweeps[case_run.case.sweep]
        return any(
            self._brackets(self._points(sweep, gpu, moved=moved), case_run.case.size)
            for gpu in self._gpus
            for moved in (False, True)
        )

    def _brackets(self, points: list[SweepPoint], size: int) -> bool:
        """Return whether a size is within the current bracket of the crossover."""
        found = crossover(points)
        if found.low is not None and found.high is not None:
            return found.low <= size <= found.high
        decided = [p.size for p in found.points if p.comparison.winner is not None]
        return bool(decided) and size >= max(decided)

    def next_case(self) -> Case | None:
        """Return the next case, which narrows a crossover: first of resident data, then with copies.

        None while an active case may still decide the next size, and when the search is complete.
        """
        for sweep in self._sweeps.values():
            if not (sweep.runs or sweep.found) or any(self._is_open(case_run) for case_run in sweep.runs.values()):
                continue
            size = self._next_size(sweep)
            if size is not None:
                case = replace(next(iter(sweep.tried.values())), size=size)
                sweep.tried[size] = case
                return case
        return None

    def _is_open(self, case_run: CaseRun) -> bool:
        """Return whether further rounds of a case may decide the next size."""
        if case_run.is_over or not case_run.is_compared:
            return False
        return not (case_run.rounds_complete >= PATIENCE or case_run.is_clear)

    def _next_size(self, sweep: _Tried) -> int | None:
        tried, search = sweep.tried, self._search
        if len(tried) >= search.most_cases:
            return None
        resident = self._narrowing(sweep, moved=False)
        if resident is not None and len(tried) < sweep.grid + search.most_steps:
            return resident
        return self._narrowing(sweep, moved=True)

    def _narrowing(self, sweep: _Tried, *, moved: bool) -> int | None:
        """Return a size that narrows the crossover of the first GPU, or of the next one; equal GPUs share sizes."""
        proposed = (
            next_size(self._points(sweep, gpu, moved=moved), sweep.tried, self._search.ratio) for gpu in self._gpus
        )
        return next((size for size in proposed if size is not None), None)

    def _points(self, sweep: _Tried, gpu: str, *, moved: bool) -> list[SweepPoint]:
        points = []
        for size, case_run in sweep.runs.items():
            comparison = (case_run.moved_comparisons if moved else case_run.comparisons).get(gpu)
            if comparison is not None:
                points.append(SweepPoint(size, comparison))
        found = {} if moved else sweep.found.get(gpu, {})
        return points + [SweepPoint(size, comparison) for size, comparison in found.items()]
