"""How many starts a run has, how many sizes and rounds a search, and what a limit left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cpugpu_tui import model
from cpugpu_tui.decide.next_size import MOST_GRID
from cpugpu_tui.errors import EXIT_CASES_FAILED, UsageError
from cpugpu_tui.model.quantities import time_text
from cpugpu_tui.state.device_times import DeviceTimes
from cpugpu_tui.state.state import RunState
from cpugpu_tui.timing.warm_up import least_device_ns

STARTS, MOST_STARTS = 5, 20
"""Usual and most starts of the process in a run (method.md, "Starts"). A run of a series has one, and so has one of
commands, each call of which is a process."""

STARTS_VARIABLE = "CPUGPU_STARTS"


def usual_starts(environment: Mapping[str, str]) -> int:
    """Return the starts of a run that does not say: those of the environment, or else `STARTS`.

    Raises:
        UsageError: the variable holds no such number.
    """
    text = environment.get(STARTS_VARIABLE) or str(STARTS)
    try:
        count = int(text)
    except ValueError:
        count = 0
    if not 1 <= count <= MOST_STARTS:
        raise UsageError(f"Invalid {STARTS_VARIABLE} {text!r}.", f"Use a number from 1 to {MOST_STARTS}.")
    return count


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


def out_of_time(
    plan: model.Plan, finished: model.RunFinished, elapsed_s: float, state: RunState
) -> model.RunFinished:  # fmt: skip
    """Return the end of a run without results; if its time limit caused that, the run has failed."""
    if plan.max_seconds is None:
        return finished
    first = next(iter(state.rows.values()))
    calls_ns = [found for times in first.times.values() if (found := _call_ns(times)) is not None]
    devices = max(1, len(state.devices))
    if calls_ns:
        least_s = sum(least_device_ns(each, replace(plan, max_seconds=None)) for each in calls_ns) / 1e9
        least_s *= devices / len(calls_ns)
        why = f"A call takes {time_text(max(calls_ns))}"
    else:
        least_s, why = devices * plan.budget_s, f"A size takes up to {plan.budget_s:g} s on each device"
    remedy = f"{why}: allow {elapsed_s + least_s:.0f} s for a run."
    if not calls_ns and plan.times_commands:
        remedy = "The command's first run and the timing of its start-up did not end: allow several times as long."
    return replace(
        finished, exit_code=EXIT_CASES_FAILED, remedy=remedy,
        message=f"No size was timed within {plan.max_seconds:g} s (--max-seconds).",
    )  # fmt: skip


def _call_ns(times: DeviceTimes) -> float | None:
    """Return how long a call takes, ns: after warm-up, or else the first one; None if none has ended."""
    if times.calibrated is not None:
        return times.calibrated.estimate_ns
    return next(iter(times.samples.get(model.COLD_START, ())), None)


def starts_of(asked: int, search: model.Search | None) -> int:
    """Return the starts of a run that is no series: one for a survey, which takes 40 s a start."""
    return 1 if search is not None and search.is_survey else asked
