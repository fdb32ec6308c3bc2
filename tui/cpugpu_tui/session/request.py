"""What a person asks for, and what cannot be asked: settings out of range, sizes without a use."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from cpugpu_tui import model
from cpugpu_tui.config.parsing import FieldError, check_seconds
from cpugpu_tui.errors import EXIT_CASES_FAILED, UsageError
from cpugpu_tui.model.quantities import time_text
from cpugpu_tui.session.own_workloads import OwnWorkloads
from cpugpu_tui.state.value import Value

if TYPE_CHECKING:
    from cpugpu_tui.state.device_times import DeviceTimes
    from cpugpu_tui.state.reference import Found
    from cpugpu_tui.state.state import RunState


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


def most_first(limit_s: float | None) -> int:
    """Return the most first sizes of a workload in a preset with this time limit."""
    from cpugpu_tui.decide.next_size import MOST_GRID

    return SURVEY_GRID if limit_s is not None else MOST_GRID


def longer_s(plan: model.Plan, state: RunState) -> float:
    """Return a time limit for a run whose own was too short: twice as long, and enough for a first size."""
    limit_s, rows = plan.max_seconds or 0.0, state.rows.values()
    is_enough = not rows or any(row.status == "ok" for row in rows)
    return max(2 * limit_s, 0.0 if is_enough else math.ceil(limit_s + _first_size(plan, state)[1]))


def _first_size(plan: model.Plan, state: RunState) -> tuple[str, float]:
    """Return what is known of the first size, as the beginning of a sentence, and its time on all devices, seconds."""
    from cpugpu_tui.timing.warm_up import least_device_ns

    first = next(iter(state.rows.values()))
    calls_ns = [found for times in first.times.values() if (found := _call_ns(times)) is not None]
    devices = max(1, len(state.devices))
    if not calls_ns:
        return f"A size takes up to {plan.budget_s:g} s on each device", devices * plan.budget_s
    least_ns = sum(least_device_ns(each, replace(plan, max_seconds=None)) for each in calls_ns)
    return f"A call takes {time_text(max(calls_ns))}", least_ns / 1e9 * devices / len(calls_ns)


def out_of_time(plan: model.Plan, finished: model.RunFinished, state: RunState) -> model.RunFinished:
    """Return the end of a run without results; if its time limit caused that, the run has failed."""
    if plan.max_seconds is None:
        return finished
    first = next(iter(state.rows.values()))
    has_call = any(_call_ns(times) is not None for times in first.times.values())
    remedy = f"{_first_size(plan, state)[0]}: allow {longer_s(plan, state):g} s for a run."
    if not has_call and plan.times_commands:
        remedy = "The command's first run and the timing of its start-up did not end: allow several times as long."
    elif not has_call and first.failure is not None and first.failure.device:  # its step on this device did not end
        remedy = first.failure.remedy
    return replace(
        finished, exit_code=EXIT_CASES_FAILED, remedy=remedy,
        message=f"No size was timed within {plan.max_seconds:g} s (--max-seconds).",
    )  # fmt: skip


def _call_ns(times: DeviceTimes) -> float | None:
    """Return how long a call takes, ns: after warm-up, or else the first one; None if none has ended."""
    if times.calibrated is not None:
        return times.calibrated.estimate_ns
    return next(iter(times.samples.get(model.COLD_START, ())), None)


class PlanRequest(Value):
    """What a person asked for, as text where they typed text; None means the preset's default."""

    names: tuple[str, ...] = ("quick",)
    """Names of presets and workloads."""
    sizes: str | None = None
    """`1:10000:50` (start:stop:step, stop excluded as in Python) or `16,32,64`."""
    dtype: str | None = None
    threads: str | None = None
    """`all`, a number, or several separated by commas."""
    variant: str | None = None
    """One name, or several separated by commas."""
    devices: tuple[str, ...] = ("auto",)
    rounds: int | None = None
    max_seconds: float | None = None
    """Time limit of all runs of the series, which share it equally."""
    case_timeout_s: float | None = None
    repeat: int = 1
    """Number of runs in the series."""
    starts: int = 1  # of the process in a run, at most
    cache: str = "cold"
    scale: str = "full"
    mnist: str | None = None
    """Folder of MNIST's idx files; None uses CPUGPU_MNIST or, if that is unset, generated digits."""
    simulation: model.Simulation | None = None
    find_crossover: bool = False
    """Search for the crossover: choose sizes during the run, between the smallest and the largest."""
    max_size: str | None = None
    """Largest size of a search; None for the workload's own."""
    full: bool = False
    """Also time the CPU at sizes where it is certain to lose."""
    parallel: bool = False
    """Run an agent for each GPU, all at the same time."""
    gaps: bool = False
    """Leave gaps between blocks, in which a user interface may paint."""
    energy: bool = False
    """Also measure the joules of a call, which takes about 2 s more for each case and device."""
    only: tuple[str, ...] = ()
    """The workloads of the presets to run; empty for all."""
    pair: tuple[str, ...] = ()
    """`time` and the words that name both codes of a duet; those of `thresholds make` and `survey`."""
    against: tuple[model.OwnCode, ...] = ()
    """The code beside it, in the app."""
    host: str = ""
    """Another machine to run on, in the app; see `config.hosts.host_of`."""
    beside: str | None = None
    """Name or file of a reference: the CPU is timed here, and the GPU's times are recorded ones."""
    own: OwnWorkloads = OwnWorkloads()
    """A person's own presets and workloads."""


def reference_of(request: PlanRequest) -> Found | None:
    """Return the reference of a request, if it has one.

    Raises:
        FieldError: a GPU of this machine is to be timed too.
        UsageError: there is no such reference, or one of a simulated machine is to stand beside a measured CPU.
    """
    if request.beside is None:
        return None
    from cpugpu_tui.state.reference import find_for  # not before the app's first frame

    if {*request.devices} - {"auto", "cpu"} or request.parallel:
        raise FieldError(
            "devices", "--beside takes the GPU's times from a reference, so only the CPU is timed here.",
            "Leave --device and --parallel out. `cpugpu-tui machine --beside NAME` compares a GPU with a recorded one.",
        )  # fmt: skip
    return find_for(request.beside, is_simulated=request.simulation is not None)


def check_use_of_size(request: PlanRequest) -> None:
    """Raise FieldError if code uses n but has no sizes, or if a command has sizes but does not use them."""
    from cpugpu_tui.workloads.own_code import needs_size  # see `OwnWorkloads.infos`

    for code in request.own.codes:
        if request.sizes is None and code.name in request.names and needs_size(code):
            raise FieldError("sizes", "The code uses n, so it needs sizes.", "Add --n, for example --n 16:4096.")
        if request.sizes is not None and code.argv and not needs_size(code):
            raise FieldError("sizes", "The command does not use the size.", "Write {n} in it, or remove --n.")


def check_settings(request: PlanRequest) -> None:
    """Check the numbers, cache state, scale and simulation of a request.

    Raises:
        FieldError: one of them is out of range or unknown, or a command would be simulated.
    """
    from cpugpu_tui.decide.correlation import MIN_ROUNDS  # not before the first frame

    limits = ("rounds", "rounds", 1000), ("starts", "starts", MOST_STARTS), ("repeat", "runs", 1000)
    for name, noun, most in limits:
        count = getattr(request, name)
        if count is not None and not 1 <= count <= most:
            raise FieldError(name, f"Invalid number of {noun}: {count}.", f"Use a number from 1 to {most}.")
    for name in ("max_seconds", "case_timeout_s"):
        seconds = getattr(request, name)
        if seconds is not None:
            check_seconds(seconds, name)
    if request.find_crossover and request.rounds is not None and request.rounds < MIN_ROUNDS:
        raise FieldError(
            "rounds", f"A search needs {MIN_ROUNDS} rounds to judge a size, not {request.rounds}.",
            f"Use --rounds {MIN_ROUNDS} or more, or list the sizes, for example 16,64,256.",
        )  # fmt: skip
    if request.cache not in ("cold", "warm"):
        raise FieldError("cache", f"Invalid cache state {request.cache!r}.", "Use cold or warm.")
    if request.scale not in model.SCALES:
        raise FieldError("scale", f"Invalid scale {request.scale!r}.", "Use full or small.")
    if request.own.has_commands and request.simulation is not None:
        raise FieldError(
            "simulation", "A command cannot run on a simulated machine.", "Remove --simulate, or unset CPUGPU_SIMULATE."
        )
