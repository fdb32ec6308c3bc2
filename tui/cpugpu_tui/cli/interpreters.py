"""`cpugpu-tui run --python A --python B`: interpreters in turn, run by run, and what that says of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from cpugpu_tui.cli.compare import show_comparison
from cpugpu_tui.cli.export import Outputs
from cpugpu_tui.cli.listing import print_json
from cpugpu_tui.cli.options import RunOptions
from cpugpu_tui.cli.own import with_own
from cpugpu_tui.cli.run import print_answer, print_event, writable_store
from cpugpu_tui.cli.series import Also, RanOnce, new_session, run_quietly, turns
from cpugpu_tui.errors import EXIT_OK, UsageError
from cpugpu_tui.model import Event, Plan, RunFinished
from cpugpu_tui.runs.comparison import Series, compare_series
from cpugpu_tui.runs.comparison_data import comparison_data
from cpugpu_tui.runs.launch import Agents
from cpugpu_tui.runs.measured import MeasuredRun
from cpugpu_tui.runs.parallel import named
from cpugpu_tui.runs.planning import PlanRequest, build_plan, nth_plan
from cpugpu_tui.runs.saving import new_id
from cpugpu_tui.runs.state import RunState
from cpugpu_tui.runs.store import Store

USUAL_RUNS = 5
"""Runs of each interpreter where --repeat does not say: with three, 10 % among 25 cases is found in 28 % of trials."""


def run_in_turn(
    request: PlanRequest, options: RunOptions, pythons: tuple[str, ...], outputs: Outputs, *, as_json: bool
) -> int:
    """Run a plan in several interpreters, run by run in turn, then compare each with the first; return the exit code.

    Raises:
        CpuGpuError: the request cannot be run at all, or an interpreter is named twice.
    """
    if len(set(pythons)) < len(pythons):
        raise UsageError("An interpreter is named twice.", "Name each once; --repeat makes more runs.")
    if options.worker != "process":
        raise UsageError("Several interpreters need a process each.", "Leave --worker thread out.")
    request = with_own(request, options.workloads, pythons[0])
    plan = build_plan(request)
    if plan.search is not None:
        # A search chooses other sizes every time: what is to be compared must be the same.
        plan = replace(plan, search=None)
    outputs.check()
    store, notice = writable_store(options)
    agents = [
        Agents(python, simulated=plan.simulation is not None, own=request.own.words()) for python in pythons
    ]  # fmt: skip
    repeat = request.repeat if request.repeat > 1 else USUAL_RUNS
    try:
        plan = named(plan, agents[0])
        runs, code = _take_turns(plan, agents, store, repeat, request.case_timeout_s, _also(outputs, as_json=as_json))
    finally:
        for each in agents:
            each.close()
        if store is not None:
            store.close()
    for line in (notice, *outputs.write()):
        if line:
            print(line, file=sys.stderr)
    _compare(pythons, runs, as_json=as_json)
    return code or outputs.exit_code


def _also(outputs: Outputs, *, as_json: bool) -> Also:
    def see(state: RunState, event: Event) -> None:
        outputs.see(state, event)
        if as_json:
            if isinstance(event, RunFinished):
                print_answer(state)
            print_event(event)

    return see


def _take_turns(
    plan: Plan, agents: Sequence[Agents], store: Store | None, repeat: int, case_timeout_s: float | None, also: Also
) -> tuple[list[list[MeasuredRun]], int]:
    """Return the runs of each interpreter, and the worst exit code."""
    series_ids, code = [new_id() for _ in agents], EXIT_OK
    runs: list[list[MeasuredRun]] = [[] for _ in agents]
    for number, turn in enumerate(turns(len(agents), repeat)):
        each = nth_plan(plan, number + 1)
        session = new_session(each, agents[turn], store, series_ids[turn], case_timeout_s)
        label = f"{plan.name}: run {number // len(agents) + 1} of {repeat} in {agents[turn].python}"
        ran = run_quietly(session, agents[turn], each, label, also)
        code = max(code, ran.exit_code)
        _say(ran)
        if ran.run is not None and ran.run.has_times:
            runs[turn].append(ran.run)
        if ran.is_over:
            break
    return runs, code


def _say(ran: RanOnce) -> None:
    """Say why a run is not saved, or has no result."""
    failure = f"cpugpu-tui: {ran.finished.message} {ran.finished.remedy}" if ran.finished.status == "failed" else ""
    for line in (ran.notice, failure.strip()):
        if line:
            print(line, file=sys.stderr)


def _compare(pythons: tuple[str, ...], runs: list[list[MeasuredRun]], *, as_json: bool) -> None:
    """Print how each interpreter differs from the first, as far as runs were finished."""
    base, *others = (Series(python, tuple(each)) for python, each in zip(pythons, runs, strict=True))
    for new in others:
        if not base.runs or not new.runs:
            print(f"No comparison with {new.name}: there is no finished run of both.", file=sys.stderr)
            continue
        try:
            found = compare_series(base, new)
        except UsageError as error:  # they share no case: the runs are saved all the same
            print(f"No comparison with {new.name}: {error}", file=sys.stderr)
            continue
        if as_json:
            print_json(comparison_data(found))
        else:
            show_comparison(found)
