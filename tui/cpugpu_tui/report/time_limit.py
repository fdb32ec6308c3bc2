"""What the time limit of a crossover search left undone, for the sentence about it and for `run --resume`."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from cpugpu_tui import model
from cpugpu_tui.analysis.costs import END_TO_END, RESIDENT
from cpugpu_tui.decide.comparison import Change
from cpugpu_tui.report.report import sweep_in
from cpugpu_tui.state.folding import once
from cpugpu_tui.state.state import RunState

LIMIT_REACHED = 0.8
"""Share of its time limit after which a search leaves out sizes that would take too long."""


class WideBracket(NamedTuple):
    """A bracket that a search would have narrowed further, had it had the time."""

    sweep: model.SweepKey
    condition: str
    """`RESIDENT` or `END_TO_END`."""
    change: Change


@once
def wide_brackets(run: RunState) -> tuple[WideBracket, ...]:
    """Return the brackets that the time limit of a finished search left wide."""
    search = run.plan.search
    if search is None or run.status != "done" or run.plan.beside or not _reached_limit(run, search):
        return ()
    found = []
    for sweep in run.sweeps:
        report, start = sweep_in(run, sweep), sum(case.sweep == sweep for case in run.plan.cases)
        tried = [row.case.size for row in report.rows]
        for key in (RESIDENT, END_TO_END):
            most = search.most_cases if key == END_TO_END else min(search.most_cases, start + search.most_steps)
            judged = report.under(key)
            if len(tried) < most and judged.can_be_narrowed(tried, search.ratio):
                found.append(WideBracket(sweep, key, max(judged.changes, key=lambda change: change.ratio)))
    return tuple(found)


def _reached_limit(run: RunState, search: model.Search) -> bool:
    """Whether a finished run took about as long as it was allowed to. A search also ends when its sizes are decided.

    Of a resumed run only the last part counts. One that was resumed within its limit looks like a single part.
    """
    limits = [each for each in (run.plan.max_seconds, search.limit_s) if each is not None]
    if not limits or run.run is None or run.finished is None:
        return False
    limit_ns, begun_ns, ended_ns = 1e9 * min(limits), run.run.wall_ns, run.finished.wall_ns
    starts_ns = sorted(row.started.wall_ns for row in run.rows.values() if row.started is not None)
    starts_ns = [start_ns for start_ns in starts_ns if start_ns <= ended_ns]  # a wall clock may be set back
    for before_ns, start_ns in pairwise((begun_ns, *starts_ns)):
        if start_ns - before_ns > limit_ns:  # no case takes longer, so the run was resumed
            begun_ns = start_ns
    return ended_ns - begun_ns >= LIMIT_REACHED * limit_ns
