"""How far a run is, in words that stay true: a search chooses its points as it goes, so their number is a limit."""

from __future__ import annotations

from cpugpu_tui.model import CALIBRATION
from cpugpu_tui.model.quantities import duration
from cpugpu_tui.state.state import RunState

BAR_CELLS = 10

SOON_S = 1.0
"""Below this time left nothing is said: "0:00 left" would stand beside points that are still to come."""


def most_points(run: RunState) -> int:
    """Return how many points the run has, or of a search how many it can have at most."""
    plan = run.run.plan if run.run is not None else None
    if plan is None or plan.search is None or _is_over(run):
        return len(run.rows)
    return max(plan.search.most_cases * len(run.sweeps), len(run.rows))


def points_text(run: RunState) -> str:
    """Return `3 of 8 points`; of a search that goes on `3 of at most 20 points`; at the end `14 points`."""
    if _is_over(run):
        done = f"{run.settled} of {len(run.rows)}" if run.settled < len(run.rows) else f"{run.settled}"
        return f"{done} point{'' if len(run.rows) == 1 else 's'}"
    most = most_points(run)
    if _is_search(run):
        return f"{run.settled} of at most {most} points"
    return f"{run.settled} of {most} point{'' if most == 1 else 's'}"


def left_text(run: RunState, seconds_left: float | None) -> str:
    """Return `0:12 left`; of a search the most that can be left. Empty where nothing true can be said."""
    if seconds_left is None or seconds_left < SOON_S or _is_over(run):
        return ""
    return f"{'at most ' if _is_search(run) else ''}{duration(seconds_left)} left"


def bar(run: RunState, full: str, rest: str) -> tuple[str, str]:
    """Return the bar's two parts: the share of points that are done, and what is left of `BAR_CELLS`."""
    cells = round(BAR_CELLS * run.settled / most_points(run)) if run.rows else 0
    return full * cells, rest * (BAR_CELLS - cells)


def _is_search(run: RunState) -> bool:
    return run.run is not None and run.run.plan.search is not None


def _is_over(run: RunState) -> bool:
    """Whether no point is to come: the run has ended, or measures the machine after its cases."""
    return run.finished is not None or (run.current is not None and run.current.phase == CALIBRATION)
