"""The progress of a run in words and as a bar."""

from __future__ import annotations

from cpugpu_tui.model import CALIBRATION
from cpugpu_tui.model.quantities import duration
from cpugpu_tui.state.state import RunState

BAR_CELLS = 10

SOON_S = 1.0
"""Shorter times left are not shown, to avoid "0:00 left" while cases are still to come."""


def most_cases_of(run: RunState) -> int:
    """Return the number of cases of the run, or the largest number that a search may reach."""
    search = run.plan.search
    if search is None or _is_over(run) or (run.devices and run.gpu is None):
        return len(run.rows)
    return max(search.most_cases * len(run.sweeps), len(run.rows))


def done_text(run: RunState) -> str:
    """Return `3 of 8 cases done`, during a search `3 of at most 20 cases done`, and at the end `14 cases`.

    Sizes take turns: `2 of at most 20 cases` stood above six rows with a winner, whose further rounds were to come.
    Cases that the end of the run skipped do not count: a survey stopped after 12 of 128 was called `128 cases`.
    """
    if _is_over(run):
        reached = run.settled - run.skipped
        done = f"{reached} of {len(run.rows)}" if reached < len(run.rows) else f"{reached}"
        return f"{done} case{'' if len(run.rows) == 1 else 's'}"
    most = most_cases_of(run)
    if run.plan.search is not None:
        return f"{run.settled} of at most {most} cases done"
    return f"{run.settled} of {most} case{'' if most == 1 else 's'} done"


def left_text(run: RunState, seconds_left: float | None) -> str:
    """Return `0:12 left`, during a search `at most 0:12 left`; empty if unknown."""
    if seconds_left is None or seconds_left < SOON_S or _is_over(run):
        return ""
    return f"{'at most ' if run.plan.search is not None else ''}{duration(seconds_left)} left"


def bar(run: RunState, full: str, rest: str) -> tuple[str, str]:
    """Return the bar's two parts, done and rest, of `BAR_CELLS` together."""
    cells = round(BAR_CELLS * run.settled / most_cases_of(run)) if run.rows else 0
    return full * cells, rest * (BAR_CELLS - cells)


def _is_over(run: RunState) -> bool:
    """Whether all cases are done: the run has ended, or calibrates the machine after its cases."""
    return run.finished is not None or (run.current is not None and run.current.phase == CALIBRATION)
