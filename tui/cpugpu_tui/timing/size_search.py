"""Crossover search: choose the next size, and the sizes at which the CPU need not be timed."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise, product
from typing import Any

from cpugpu_tui.decide.comparison import SURE_RATIO, Comparison, SweepPoint
from cpugpu_tui.decide.crossover import changes_of, judged, shared
from cpugpu_tui.decide.next_size import WORTH, is_hopeless, next_size, size_above, unanswered_size, unsure_sizes
from cpugpu_tui.model import Case, Found, Search, SweepKey
from cpugpu_tui.timing.case_run import CaseRun

PATIENCE, SURVEY_PATIENCE = 12, 36
"""Rounds of an undecided size after which a search, or a survey, adds the next size. The undecided one continues
meanwhile. With 12, the share of a workload ended before its sizes were decided."""

END_ROUNDS = 12
"""Least rounds of the ends of a bracket. Five in a row may fall into one burst of another process: on a shared host
with 16 threads, a crossover at 250 was bracketed as 215 to 234."""

MOST_CHECKED = 2
"""Most sizes added above a crossover. On an H200 `solve` had a second change of the winner between the third and the
fifth size above its first."""

NARROW_GAP = 1.6
"""Gaps up to this ratio get no size in their middle when the changes of winner are narrow: each of 1-2-5 gets one."""

WIDE = 0.05
"""Relative half-width of an interval from which a case waits for the spare seconds of a search."""

SPARE_NS = 1.5e9
"""Most spare time of a sweep, ns: `quick` has to end within seconds."""


@dataclass
class _Tried:
    """State of the search in one sweep."""

    grid: int
    """Number of sizes at the start."""
    checked: list[int] = field(default_factory=list)
    """Sizes added above a crossover."""
    tried: dict[int, Case] = field(default_factory=dict)
    runs: dict[int, CaseRun] = field(default_factory=dict)
    """Cases of this process, active or finished."""
    found: dict[tuple[str, bool], dict[int, Comparison]] = field(default_factory=lambda: defaultdict(dict))
    """GPU and whether with copies → results of an earlier process."""
    estimates: dict[int, float] = field(default_factory=dict)
    """Size → speedup estimated by warm-up."""
    _state: tuple[int, int] = (0, 0)
    _answers: dict[Hashable, Any] = field(default_factory=dict)

    def once(self, question: Hashable, answer: Callable[[], Any]) -> Any:
        """Return the answer, which is computed again only after a further size or a further judgement.

        A survey asks all sweeps after each pass. On an H100 that took 13 of 277 s.
        """
        state = len(self.tried), sum(each.judgements for each in self.runs.values())
        if state != self._state:
            self._state, self._answers = state, {}
        if question not in self._answers:
            self._answers[question] = answer()
        return self._answers[question]


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
        device = found.device or next(iter(self._gpus), "")
        comparison = Comparison(found.speedup, found.low, found.high, found.rounds, found.verdict)
        sweep.found[device, found.moved][size] = comparison
        if not found.moved:
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
        """Return whether the CPU is certain to lose at this size, judged by the two largest sizes below it.

        A survey times it anyway: with copies it may win. The sizes of other searches can make its calls very long.
        """
        if self._search.full or self._search.is_survey:
            return False
        estimates = self._sweeps[case.sweep].estimates
        below = [estimates[size] for size in sorted(estimates) if size < case.size]
        return is_hopeless(below)

    def keeps(self, case_run: CaseRun) -> bool:
        """Return whether a finished case gets further rounds, because it is an end of a bracket or inside one."""
        if case_run.is_starved or case_run.is_exhausted or not case_run.is_compared:
            return False
        if case_run.rounds_complete >= END_ROUNDS:
            return case_run.rounds_complete < SURVEY_PATIENCE and self._is_unsure_end(case_run)
        found = (*case_run.comparisons.values(), *case_run.moved_comparisons.values())
        if self._search.full and any(1 / SURE_RATIO < each.speedup < SURE_RATIO for each in found):
            return True  # a few rounds may all lie in one mode of the machine
        return self._is_bracketed(case_run)

    def _is_bracketed(self, case_run: CaseRun) -> bool:
        """Return whether a size is within a bracket or may become an end of one, with or without copies."""
        sweep = self._sweeps[case_run.case.sweep]
        return any(
            self._brackets(self._points(sweep, gpu, moved=moved), usable, case_run.case.size)
            for gpu, moved, usable in self._judged(sweep)
        )

    def _is_unsure_end(self, case_run: CaseRun) -> bool:
        """Return whether an end of a survey's axis has a winner that a sweep of all its sizes could not name.

        Each further size asks more of it. Of simulated surveys every second one lost the CPU of `attention`, 1.6 times
        faster at 16 tokens in 12 rounds, when 25 sizes were timed, and the crossover with it.
        """
        tried, found = self._sweeps[case_run.case.sweep].tried, case_run.comparisons.values()
        is_end = self._search.is_survey and case_run.case.size in (min(tried), max(tried))
        return is_end and any(each.faster != shared(each, self._search.most_cases).faster for each in found)

    def is_wide(self, case_run: CaseRun) -> bool:
        """Return whether a finished case has a wide interval that further rounds may narrow."""
        return plus_minus(case_run) > WIDE

    def widest(self, waiting: Sequence[CaseRun], spare_ns: float) -> CaseRun | None:
        """Return the waiting case with the widest interval whose next round fits; None if none fits.

        Without intervals the case with the shortest round comes first.
        """
        fits = [case_run for case_run in waiting if self.is_wide(case_run) and next_round_ns(case_run) <= spare_ns]
        fits.sort(key=lambda case_run: (-plus_minus(case_run), next_round_ns(case_run)))
        return next((each for each in fits if not self._search.is_survey or self._is_bracketed(each)), None)

    def unsure(self, waiting: Sequence[CaseRun]) -> CaseRun | None:
        """Return the waiting case of a full search whose wide interval leaves the widest gap open; None without one."""
        if not self._search.full:
            return None
        for sweep in self._by_width():
            sizes = sweep.once("unsure", partial(self._unsure_sizes, sweep))
            runs = (sweep.runs[size] for size in sizes if size in sweep.runs)
            found = next((run for run in runs if run in waiting and self.is_wide(run)), None)
            if found is not None:
                return found
        return None

    def _unsure_sizes(self, sweep: _Tried) -> list[int]:
        points = (self._points(sweep, gpu, moved=moved) for moved in (False, True) for gpu in self._gpus)
        return [size for each in points for size in unsure_sizes(each)]

    def _brackets(self, points: list[SweepPoint], usable: Sequence[SweepPoint], size: int) -> bool:
        """Return whether a size is within the bracket of a change of the winner, or may become an end of one.

        A winner that its few rounds do not make sure may. Without more rounds, a CPU that was 2 times faster at both
        smallest sizes, six rounds each, left the search with a GPU that won at every size.
        """
        if changes := changes_of(usable):
            return any(change.low <= size <= change.high for change in changes)
        decided = [p.size for p in usable if p.comparison.winner is not None]
        is_unsure = size not in decided and any(p.size == size and p.comparison.winner is not None for p in points)
        return is_unsure or (bool(decided) and size >= max(decided))

    def next_case(self, only: SweepKey | None) -> Case | None:
        """Return the next case, which narrows a crossover: first of resident data, then with copies.

        None while an active case may still decide the next size, and when the search is complete. `only` is the sweep
        whose share of the time it is; None for all.
        """
        is_rest = only is None and self._search.is_survey
        worth = 0.0 if is_rest else WORTH
        ways: dict[Hashable, Callable[[_Tried], int | None]] = {worth: partial(self._next_size, worth=worth)}
        ways |= {"unanswered": self._unanswered} if is_rest and self._search.full else {}
        sweeps = [each for each in (self._by_width() if only is None else [self._sweeps[only]])
                  if (each.runs or each.found) and not any(map(self._is_open, each.runs.values()))]  # fmt: skip
        for way, sweep in product(ways, sweeps):
            size = sweep.once(way, partial(ways[way], sweep))
            if size is not None:
                return self._added(sweep, size)
        return None

    def middle_case(self, only: SweepKey | None) -> Case | None:
        """Return the middle of the widest gap between two sizes of a full survey; None if all are narrow.

        The winner may change twice in a gap: on an H100 and an H200 a convolution of 141×141 pixels took the GPU twice
        as long as the CPU, and half as long at 100 and 200. `thresholds verify` times these sizes next. `only` is the
        sweep whose share of the time it is; None for all.
        """
        search = self._search
        if not (search.is_survey and search.full):
            return None
        middles = (
            (high / low, middle, sweep)
            for sweep in (self._sweeps.values() if only is None else [self._sweeps[only]])
            if len(sweep.tried) < search.most_cases and self._is_compared(sweep)
            for low, high in pairwise(sorted(sweep.tried))
            if high > NARROW_GAP * low and low < (middle := round(math.sqrt(low * high))) < high
        )  # fmt: skip
        _, size, widest = max(middles, key=lambda each: each[0], default=(0.0, 0, None))
        return self._added(widest, size) if widest is not None else None

    def _is_compared(self, sweep: _Tried) -> bool:
        return bool(sweep.found) or any(each.comparisons for each in sweep.runs.values())

    def _added(self, sweep: _Tried, size: int) -> Case:
        """Return a case of a sweep with a new size, which now counts as tried."""
        case = replace(next(iter(sweep.tried.values())), size=size)
        sweep.tried[size] = case
        return case

    def judge_again(self) -> None:
        """Judge every case again by what the others have shown since.

        On an H100 the first cases of a survey, judged when the correlation of its rounds was hardly known, had wider
        intervals than its report. Nothing seemed to be left to narrow 68 of 460 s before the end.
        """
        for sweep in self._sweeps.values():
            for case_run in filter(lambda each: each.is_compared, sweep.runs.values()):
                case_run.judge_again()

    def _by_width(self) -> list[_Tried]:
        """Return the sweeps, those with the widest bracket first."""
        return sorted(self._sweeps.values(), key=self._width, reverse=True)

    def _width(self, sweep: _Tried) -> float:
        """Return the ratio of the ends of a sweep's widest bracket, with or without copies."""
        changes = (change for *_, usable in self._judged(sweep) for change in changes_of(usable))
        width: float = sweep.once("width", lambda: max((change.ratio for change in changes), default=1.0))
        return width

    def _judged(self, sweep: _Tried) -> list[tuple[str, bool, tuple[SweepPoint, ...]]]:
        """Return the judged points of a sweep for each GPU, without and with copies."""
        found: list[tuple[str, bool, tuple[SweepPoint, ...]]] = sweep.once("judged", lambda: [
            (gpu, moved, judged(self._points(sweep, gpu, moved=moved))) for gpu in self._gpus for moved in (False, True)
        ])  # fmt: skip
        return found

    def _is_open(self, case_run: CaseRun) -> bool:
        """Return whether further rounds of a case may decide the next size."""
        if case_run.is_over or case_run.done or case_run.is_cut or not case_run.is_compared:
            return False
        patience = SURVEY_PATIENCE if self._search.is_survey else PATIENCE
        return not (case_run.rounds_complete >= patience or case_run.is_clear)

    def _next_size(self, sweep: _Tried, worth: float) -> int | None:
        tried, search = sweep.tried, self._search
        if len(tried) >= search.most_cases:
            return None
        if len(tried) < sweep.grid + search.most_steps + len(sweep.checked):
            resident = self._narrowing(sweep, worth, moved=False)
            if resident is not None:
                return resident
            points = (self._points(sweep, gpu, moved=False) for gpu in self._gpus)
            above = self._first(size_above(each, tried, sweep.checked) for each in points)
            if above is not None and len(sweep.checked) < MOST_CHECKED:
                sweep.checked.append(above)
                return above
        return self._narrowing(sweep, worth, moved=True)

    def _unanswered(self, sweep: _Tried) -> int | None:
        """Return a size in a gap that a file of thresholds would leave open."""
        if len(sweep.tried) >= self._search.most_cases:
            return None
        points = (self._points(sweep, gpu, moved=moved) for moved in (False, True) for gpu in self._gpus)
        return self._first(unanswered_size(each, sweep.tried, self._search.ratio) for each in points)

    def _narrowing(self, sweep: _Tried, worth: float, *, moved: bool) -> int | None:
        """Return a size that narrows the crossover of the first GPU, or of the next one; equal GPUs share sizes."""
        points = (self._points(sweep, gpu, moved=moved) for gpu in self._gpus)
        return self._first(next_size(each, sweep.tried, self._search.ratio, worth) for each in points)

    def _first(self, proposed: Iterable[int | None]) -> int | None:
        return next((size for size in proposed if size is not None), None)

    def _points(self, sweep: _Tried, gpu: str, *, moved: bool) -> list[SweepPoint]:
        points = []
        for size, case_run in sweep.runs.items():
            comparison = (case_run.moved_comparisons if moved else case_run.comparisons).get(gpu)
            if comparison is not None:
                points.append(SweepPoint(size, comparison))
        found = sweep.found.get((gpu, moved), {})
        return points + [SweepPoint(size, comparison) for size, comparison in found.items()]


# ------------------------------------------------------------------ spare time


def plus_minus(case_run: CaseRun) -> float:
    """Return the relative half-width of a case's widest interval; infinite without one, 0 if no round can narrow it."""
    at_most = any(len(run.round_ns) >= run.max_rounds for run in case_run.runs)
    if not case_run.is_compared or case_run.is_starved or at_most:
        return 0.0
    found = [case_run.comparisons.get(gpu.name) for gpu in case_run.runs[1:]]
    widths = [each.plus_minus if each is not None else None for each in found]
    return max(math.inf if width is None else width for width in widths)


def left_ns(case_run: CaseRun, budget_ns: float) -> float:
    """Return what a case has left of the plan's budget for each device, all together, ns; negative if overspent."""
    return sum(budget_ns - run.spent_ns for run in case_run.runs)


def next_round_ns(case_run: CaseRun) -> float:
    """Return the expected time of another round, ns."""
    return sum(run.spent_ns / len(run.round_ns) for run in case_run.runs if run.round_ns)


def grant_rounds(case_run: CaseRun, spare_ns: float) -> float:
    """Give a case up to half as many rounds again as it had, as many as fit; return their expected time, ns.

    Not one by one: an interval that is looked at after every round stops when it is narrow by chance.
    """
    had, round_ns = case_run.rounds_complete, next_round_ns(case_run)
    rounds = max(1, min(had // 2, int(spare_ns / round_ns)))
    for run in case_run.runs:
        run.rounds = min(len(run.round_ns) + rounds, run.max_rounds)
    return rounds * round_ns
