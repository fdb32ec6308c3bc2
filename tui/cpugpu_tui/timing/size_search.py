"""The choices of an adaptive sweep: which case next, and where the CPU need not be timed any more."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field, replace

from cpugpu_tui.decide.crossover import SweepPoint, crossover, is_hopeless, next_size
from cpugpu_tui.decide.verdict import CPU_WINS, GPU_WINS, TOO_FEW, Comparison, word
from cpugpu_tui.model import Case, Found, Search, SweepKey
from cpugpu_tui.timing.case_run import CaseRun

PATIENCE = 12
"""Rounds after which a search goes on beside a size that is still undecided, which keeps getting rounds meanwhile."""


END_ROUNDS = 12
"""Rounds that the ends of a bracket get at least: five in a row lie within one burst of a neighbour's load, and on a
shared host with 16 threads a crossover at 250 was bracketed as 215 to 234."""


@dataclass
class _Tried:
    """What is known of the sizes of one sweep."""

    grid: int
    """Sizes that it started with."""
    tried: dict[int, Case] = field(default_factory=dict)
    runs: dict[int, CaseRun] = field(default_factory=dict)
    """Those of this process, active or finished."""
    found: dict[str, dict[int, Comparison]] = field(default_factory=lambda: defaultdict(dict))
    """Those of a process that died, for each GPU."""
    estimates: dict[int, float] = field(default_factory=dict)
    """Size → speed-up as far as warm-up could tell."""


class SizeSearch:
    """Knows all cases of a search, and proposes the next."""

    def __init__(self, search: Search, cases: tuple[Case, ...], gpus: tuple[str, ...]) -> None:
        """`gpus` are the names of those that the CPU is compared with: each has a crossover of its own to narrow."""
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
        """How many cases may still be chosen."""
        return sum(max(0, self._search.most_cases - len(sweep.tried)) for sweep in self._sweeps.values())

    def learn(self, case_run: CaseRun) -> None:
        """Take note of a case that has begun."""
        sweep = self._sweeps[case_run.case.sweep]
        sweep.runs[case_run.case.size] = case_run
        estimate = case_run.estimated_speedup
        if estimate is not None:
            sweep.estimates[case_run.case.size] = estimate

    def is_left_out(self, case: Case) -> bool:
        """Whether the CPU is hopelessly behind at this size, from the two largest sizes below it."""
        estimates = self._sweeps[case.sweep].estimates
        below = [estimates[size] for size in sorted(estimates) if size < case.size]
        return not self._search.full and is_hopeless(below)

    def keeps(self, case_run: CaseRun) -> bool:
        """Whether a case that is done goes on beside the next ones: as long as it is an end of a bracket, or inside."""
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
        """Whether a size is one of those between which the lead changes, as far as is known by now."""
        found = crossover(points)
        if found.low is not None and found.high is not None:
            return found.low <= size <= found.high
        decided = [p.size for p in found.points if p.comparison.verdict in (CPU_WINS, GPU_WINS)]
        return bool(decided) and size >= max(decided)

    def next_case(self) -> Case | None:
        """Return the case to go on with: one that narrows a crossover, resident first, end to end then.

        None while what is active has yet to say something, and when nothing is left to find.
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
        """Whether the next rounds of a case may decide what comes next."""
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
        """Return the size that narrows the first GPU's crossover, or else the next one's; GPUs alike share them."""
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
