"""How many starts a run has, how many sizes and rounds a search, and what a limit left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cpugpu_tui import model
from cpugpu_tui.decide.next_size import MOST_GRID
from cpugpu_tui.errors import EXIT_CASES_FAILED

STARTS, MOST_STARTS = 5, 20
"""Usual and most starts of the process in a run (method.md, "Starts"). A run of a series has one, and so has one of
commands, each call of which is a process."""

STARTS_VARIABLE = "CPUGPU_STARTS"


def usual_starts(environment: Mapping[str, str]) -> int:
    """Return the starts of a run that does not say: those of the environment, or else `STARTS`."""
    text = environment.get(STARTS_VARIABLE, "")
    return min(int(text), MOST_STARTS) if text.isascii() and text.isdigit() and int(text) else STARTS


SEARCH_BUDGET_S = 1.5
"""Time for a case on one device in a search: 40 rounds of a short operation take 0.8 s."""

QUICK_CASES = 14
"""Cases of `quick`, to end within 10 s on a GPU server: seven first sizes, and seven to narrow the bracket."""

SURVEY_GRID = 8
"""Most first sizes of a workload in a preset that searches several: more would leave its share of the time no rest."""

SEARCH_ROUNDS = 24
"""Most rounds of a case in a search: a size that is still undecided then lies within the bracket."""

SURVEY_ROUNDS, SURVEY_CASES, SURVEY_STEPS = 120, 40, 28
"""Most rounds of a case, most sizes of a workload and most sizes for inputs on the GPU in a survey: its time ends it.
With 60, 24 and 12, surveys that were simulated with the noise and the curves of an H200 had U/L ≤ 1.7 in 56 instead of
76 % of the crossovers, and ended 40 s before their time."""

SEARCH_BLOCKS = 3
"""Blocks in a half-round of a search: few, because its noise is between rounds rather than within."""

SEARCH_METRICS = (model.LATENCY, model.DEVICE, model.END_TO_END, model.COLD_START)
"""Metrics of a search: only those that its answer needs. Loading the profiler alone takes 4 s on an H200."""


def search_of(limit_s: float | None, *, is_asked: bool, full: bool) -> model.Search:
    """Return a search: a survey if it has a time limit, one that a person asked for, or that of `quick`."""
    if full or limit_s is not None:
        return model.Search(SURVEY_CASES, SURVEY_STEPS, full=full, limit_s=limit_s)
    return model.Search(model.Search.most_cases if is_asked else QUICK_CASES)


def most_rounds(search: model.Search) -> int:
    """Return the most rounds of a case."""
    return SURVEY_ROUNDS if search.is_survey or search.full else SEARCH_ROUNDS


def most_first(limit_s: float | None) -> int:
    """Return the most first sizes of a workload in a preset with this time limit."""
    return SURVEY_GRID if limit_s is not None else MOST_GRID


def out_of_time(plan: model.Plan, finished: model.RunFinished, elapsed_s: float) -> model.RunFinished:
    """Return the end of a run without results; if its time limit caused that, the run has failed."""
    if plan.max_seconds is None:
        return finished
    devices = 1 if plan.devices == ("cpu",) else 2
    needed_s = elapsed_s + devices * plan.budget_s
    return replace(
        finished, exit_code=EXIT_CASES_FAILED,
        message=f"No size was timed within {plan.max_seconds:g} s (--max-seconds).",
        remedy=f"A size takes up to {plan.budget_s:g} s on each device: allow {needed_s:.0f} s.",
    )  # fmt: skip


def starts_of(asked: int, search: model.Search | None) -> int:
    """Return the starts of a run that is no series: one for a survey, which takes 40 s a start."""
    return 1 if search is not None and search.is_survey else asked
