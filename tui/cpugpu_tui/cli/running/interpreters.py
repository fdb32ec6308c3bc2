"""`cpugpu-tui run --python A --python B`: run in several interpreters in turn, and compare them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cpugpu_tui.cli.output.json_lines import print_json
from cpugpu_tui.cli.output.tables import show_comparison
from cpugpu_tui.cli.running.one_run import See, facts, run_quietly, say_why, seen_by
from cpugpu_tui.cli.running.options import RunOptions, with_own
from cpugpu_tui.cli.running.saving import Outputs, remark_of, save_rest, saving
from cpugpu_tui.compare.comparison import compare_series
from cpugpu_tui.compare.series import Series
from cpugpu_tui.errors import EXIT_OK, UsageError, print_notice
from cpugpu_tui.model import Plan
from cpugpu_tui.render.comparison import comparison_data
from cpugpu_tui.session.devices import with_gpu_names
from cpugpu_tui.session.event_stream import new_id
from cpugpu_tui.session.planning import PlanRequest, build_plan, nth_plan
from cpugpu_tui.session.session import Session
from cpugpu_tui.state.measured import MeasuredRun
from cpugpu_tui.store.outbox import Outbox
from cpugpu_tui.transport.agent_pool import Agents
from cpugpu_tui.transport.interpreter_search import AUTO


def run_in_turn(
    request: PlanRequest, options: RunOptions, pythons: tuple[str, ...], outputs: Outputs, *, as_json: bool
) -> int:
    """Run a plan in several interpreters in turn, compare each with the first, and return the exit code.

    Raises:
        CpuGpuError: the request cannot be run at all, or an interpreter is given twice.
    """
    if twice := [python for python in pythons if pythons.count(python) > 1]:
        raise UsageError(
            f"--python {twice[0]} is given twice.", "Give each interpreter once. --repeat sets the number of runs."
        )
    if AUTO in pythons:
        raise UsageError(
            "--python auto finds only one interpreter.", "Give the path of each interpreter that you want to compare."
        )
    if options.worker != "process":
        raise UsageError(f"--worker {options.worker} runs only one interpreter.", "Leave --worker out.")
    request = with_own(request, options.workloads, pythons[0])
    plan = build_plan(request)
    if plan.search is not None:
        # A search chooses other sizes in each run, and only equal sizes can be compared.
        plan = replace(plan, search=None)
    outputs.check()
    agents = [
        Agents(python, simulated=plan.simulation is not None, own=request.own.words()) for python in pythons
    ]  # fmt: skip
    with saving(options) as outbox:
        try:
            plan = with_gpu_names(plan, agents[0])
            see = seen_by(outputs, as_json=as_json)
            runs, code = _take_turns(plan, agents, outbox, request.repeat, request.case_timeout_s, see)
        finally:
            for each in agents:
                each.close()
        for line in (remark_of(outbox), *outputs.write()):
            if line:
                print_notice(line)
        _compare(pythons, runs, as_json=as_json)
        return save_rest(outbox, code or outputs.exit_code)


def _take_turns(
    plan: Plan, agents: Sequence[Agents], outbox: Outbox | None, repeat: int, case_timeout_s: float | None, see: See
) -> tuple[list[list[MeasuredRun]], int]:
    """Return the runs of each interpreter, and the worst exit code."""
    series_ids, code = [new_id() for _ in agents], EXIT_OK
    runs: list[list[MeasuredRun]] = [[] for _ in agents]
    for number, turn in enumerate(turns(len(agents), repeat)):
        each = nth_plan(plan, number + 1)
        session = Session(each, agents[turn], outbox, series_ids[turn], case_timeout_s, facts())
        label = f"{plan.name}: run {number // len(agents) + 1} of {repeat} in {agents[turn].python}"
        ran = run_quietly(session, agents[turn], each, label, see)
        code = max(code, ran.exit_code)
        if ran.finished.status == "failed":
            say_why(ran.finished)
        if ran.run is not None and ran.run.has_times:
            runs[turn].append(ran.run)
        if ran.is_over:
            break
    return runs, code


def turns(count: int, rounds: int) -> list[int]:
    """Return the order of turns: each of `count` once per round, every second round in reverse (0 1, 1 0, 0 1, …).

    This spreads drift of the machine evenly.
    """
    order: Sequence[int] = range(count)
    return [each for index in range(rounds) for each in (order if index % 2 == 0 else reversed(order))]


def _compare(pythons: tuple[str, ...], runs: list[list[MeasuredRun]], *, as_json: bool) -> None:
    """Print the comparison of each interpreter with the first, if both have finished runs."""
    base, *others = (Series(python, tuple(each)) for python, each in zip(pythons, runs, strict=True))
    for new in others:
        if not base.runs or not new.runs:
            print_notice(f"No comparison with {new.name}: a side has no finished run.")
            continue
        try:
            found = compare_series(base, new)
        except UsageError as error:  # they share no case; the runs are saved anyway
            print_notice(f"No comparison with {new.name}: {error}")
            continue
        if as_json:
            print_json(comparison_data(found))
        else:
            show_comparison(found)
