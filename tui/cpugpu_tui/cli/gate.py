"""`cpugpu-tui gate`: runs a series, or takes a saved one, and says by its exit code whether it may pass."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from pathlib import Path

from cpugpu_tui.analysis.compare import GATE_RUNS, SLOWER
from cpugpu_tui.analysis.gating import FAILED, PASSED, gated, verdict
from cpugpu_tui.cli.gate_report import GateReport, junit, markdown, print_report
from cpugpu_tui.cli.history import say_remark
from cpugpu_tui.cli.options import RunOptions
from cpugpu_tui.cli.own import with_own, words_for
from cpugpu_tui.cli.saving import remark_of, save_rest, saving
from cpugpu_tui.cli.series import RanOnce, new_session, run_quietly
from cpugpu_tui.compare.comparison import Series, SeriesComparison, compare_series
from cpugpu_tui.compare.naming import series_in
from cpugpu_tui.errors import (
    EXIT_CASES_FAILED,
    EXIT_CHECK_SAID_NO,
    EXIT_OK,
    EXIT_UNFIT,
    UnfitError,
    UsageError,
    print_notice,
)
from cpugpu_tui.export import target
from cpugpu_tui.model import Plan, Simulation
from cpugpu_tui.session.own import Own
from cpugpu_tui.session.planning import PlanRequest, build_plan, nth_plan
from cpugpu_tui.session.saving import new_id
from cpugpu_tui.state.measured import MeasuredRun
from cpugpu_tui.store.outbox import Outbox
from cpugpu_tui.transport.agents import Agents

EXIT_CODES = {PASSED: EXIT_OK, SLOWER: EXIT_CHECK_SAID_NO, FAILED: EXIT_CASES_FAILED}
"""What each verdict of the whole exits with; undecided is `EXIT_UNFIT`, never 0."""


@dataclass(frozen=True)
class GateRequest:
    """What a person asked the gate."""

    names: tuple[str, ...]
    """Presets and workloads; empty for the baseline's own plan."""
    baseline: str
    max_slowdown: str
    """`5%`."""
    repeat: int
    new: str | None
    """A saved series to judge; None runs one."""
    junit: Path | None
    summary: Path | None
    any_machine: bool
    case_timeout_s: float | None
    simulation: Simulation | None


def run_gate(request: GateRequest, options: RunOptions, *, as_json: bool) -> int:
    """Judge a series and return the exit code: 0 passed, 1 slower, 3 cases failed, 4 undecided; 130 interrupted.

    Raises:
        UsageError: the limit is no percentage, a name is wrong, a report cannot be written where it is wanted.
        UnfitError: the baseline is of another machine, or has too few runs for any verdict.
        StoreError: the history cannot be read.
    """
    limit = parse_percent(request.max_slowdown)
    _check_request(request)  # before minutes of running
    base = series_in(request.baseline, options.database, say_remark)
    if request.new is not None:
        return _judge(request, base, series_in(request.new, options.database, say_remark), limit, as_json=as_json)
    check_enough_runs(request.repeat, base)
    with saving(options) as outbox:
        ran = _run_series(request, options, base, outbox)
        code = ran if isinstance(ran, int) else _judge(request, base, ran, limit, as_json=as_json)
        return save_rest(outbox, code)


def _judge(request: GateRequest, base: Series, new: Series, limit: float, *, as_json: bool) -> int:
    """Compare, print and write the reports, and return the exit code."""
    found = compare_series(base, new, margin=limit)
    if not request.any_machine:
        check_machine(found)
    report = GateReport(found, gated(found.pairs, limit), limit)
    print_report(report, as_json=as_json)
    if request.junit is not None:
        target.write(request.junit, [junit(report)])
    if request.summary is not None:
        target.write(request.summary, [markdown(report)])
    return EXIT_CODES.get(verdict(report.gated), EXIT_UNFIT)


def _check_request(request: GateRequest) -> None:
    """Refuse what cannot be done.

    Raises:
        UsageError: a report cannot be written where it is wanted, or what was asked for excludes itself.
    """
    if request.new is not None and request.names:
        raise UsageError(f"--new judges {request.new}, so {request.names[0]} is not run.", "Leave one of them out.")
    check_reports(request.junit, request.summary)


def check_reports(junit_path: Path | None, summary_path: Path | None) -> None:
    """Look whether both reports can be written, before minutes of running.

    Raises:
        UsageError: one cannot be written where it is wanted, or both are one file.
    """
    reports = [path for path in (junit_path, summary_path) if path is not None]
    for path in reports:
        target.check_file(path)
    if len(reports) > len({path.resolve() for path in reports}):
        raise UsageError(f"{reports[0]} would be both reports.", "Name a file for --junit and another for --summary.")


def check_enough_runs(repeat: int, *baselines: Series) -> None:
    """Refuse to run for minutes what can never pass: every verdict takes `GATE_RUNS` runs on each side.

    Raises:
        UsageError: the new series would have fewer.
        UnfitError: a baseline has.
    """
    if repeat < GATE_RUNS:
        raise UsageError(
            f"--repeat {repeat} can never pass: a verdict takes {GATE_RUNS} runs.",
            f"Write --repeat {GATE_RUNS} or more.",
        )
    for base in baselines:
        count = sum(run.has_times for run in base.runs)
        if count < GATE_RUNS:
            raise UnfitError(
                f"Nothing can pass against {base.text}: it has {count} run{'' if count == 1 else 's'} with times, "
                f"and a verdict takes {GATE_RUNS}.",
                f"Make a baseline with --repeat {GATE_RUNS}.",
            )


def parse_percent(text: str) -> float:
    """Return 0.05 for `5%`.

    Raises:
        UsageError: it is no percentage from 0 to 1000; a bare 0.05 might mean either.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", text)
    if not found or not math.isfinite(float(found.group(1))) or float(found.group(1)) > 1000:
        raise UsageError(f"{text!r} is no percentage.", "Write the slow-down that is allowed like 5%.")
    return float(found.group(1)) / 100


def check_machine(found: SeriesComparison) -> None:
    """Refuse a baseline of other hardware; another host name alone is no other machine, CI gives many.

    Raises:
        UnfitError: the processors are not the same.
    """
    if found.other_hardware:
        what = "; ".join(f"{each.what}: {each.base} there, {each.new} here" for each in found.other_hardware)
        raise UnfitError(
            f"The baseline is of another machine ({what}).",
            "Make a baseline on this one, or say --any-machine; `compare` compares machines.",
        )


# ------------------------------------------------------------------ running


def _run_series(request: GateRequest, options: RunOptions, base: Series, outbox: Outbox | None) -> Series | int:
    """Run the new series; return its exit code instead where it came to no end."""
    own = with_own(PlanRequest(request.names or ("quick",)), options.workloads, options.python).own
    plan = gate_plan(request, base, own)
    words = own.words() if request.names else words_for(plan, options.workloads)
    agents = Agents(options.python, options.worker, simulated=plan.simulation is not None, own=words)
    series_id, runs = new_id(), list[MeasuredRun]()
    try:
        for number in range(1, request.repeat + 1):
            each = nth_plan(plan, number)
            session = new_session(each, agents, outbox, series_id, request.case_timeout_s)
            ran = run_quietly(session, agents, each, f"{plan.name}: run {number} of {request.repeat}")
            if ran.is_over:
                return _given_up(ran)
            if ran.run is not None:
                runs.append(ran.run)
            if number == 1 and not request.any_machine and ran.run is not None:
                # One run tells what machine this is; the others would be in vain.
                check_machine(compare_series(base, Series("", (ran.run,))))
    finally:
        agents.close()
    if remark := remark_of(outbox):
        print_notice(remark)
    return Series("this series", tuple(runs))


def _given_up(ran: RanOnce) -> int:
    if ran.finished.message:
        print_notice(f"cpugpu-tui: {ran.finished.message} {ran.finished.remedy}".strip())
    return ran.exit_code or EXIT_UNFIT


def gate_plan(request: GateRequest, base: Series, own: Own) -> Plan:
    """Return what is run: the baseline's own plan, or the presets that were named, as it was planned there.

    A search chooses other sizes every time: of its cases those are run that all runs of the baseline have.

    Raises:
        UsageError: a name is wrong, or the baseline's search has no case in all of its runs.
    """
    told = base.runs[-1].plan
    # The noise goes on where the baseline's ended: with the same the new series would be its copy.
    simulation = request.simulation or nth_plan(told, 2).simulation
    if request.names:
        made = build_plan(
            PlanRequest(
                request.names,
                devices=told.devices,
                parallel=told.parallel,
                simulation=simulation,
                scale=told.scale,
                own=own,
            )
        )
        return made if made.search is None else _fixed(made, base)
    plan = replace(told, simulation=simulation, gaps=False, ceilings=())
    return plan if plan.search is None else _fixed(plan, base)


def _fixed(plan: Plan, base: Series) -> Plan:
    """Return the plan of a search without its search."""
    enough = min(GATE_RUNS, len(base.runs))
    cases = {key: case for run in base.runs for key, case in run.cases.items()}
    common = [
        case.case
        for key, case in cases.items()
        if sum(run.cases[key].status == "ok" for run in base.runs if key in run.cases) >= enough
    ]
    if not common:
        raise UsageError(
            "The search of the baseline timed no size in all of its runs.", "Make a baseline with fixed sizes (--size)."
        )
    return replace(plan, cases=tuple(common), search=None)
