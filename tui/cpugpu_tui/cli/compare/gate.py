"""`cpugpu-tui gate`: compare a series with a baseline, or two interpreters; the exit code is the result."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cpugpu_tui.cli import options as opt
from cpugpu_tui.errors import EXIT_UNFIT, CpuGpuError, UnfitError, print_notice

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cpugpu_tui.cli.compare.gate_request import GateRequest
    from cpugpu_tui.cli.running.options import RunOptions
    from cpugpu_tui.compare.comparison import Difference
    from cpugpu_tui.compare.gate import GateReport
    from cpugpu_tui.compare.series import Series
    from cpugpu_tui.store.outbox import Outbox

commands = typer.Typer()


@commands.command()
def gate(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PRESET|WORKLOAD",
            help="Presets or workloads to run.",
            show_default="those of the baseline, or quick",
        ),
    ] = None,
    baseline_name: Annotated[
        str,
        typer.Option(
            "--baseline",
            metavar="SERIES",
            help="Baseline to compare against. It takes the same forms as BASE in `cpugpu-tui compare`.",
        ),
    ] = "main",
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="PYTHON",
            help="Compare with this other Python instead of with a baseline. The two Pythons run in turn.",
        ),
    ] = None,
    max_slowdown: opt.MaxSlowdown = "5%",
    repeat: Annotated[
        int,
        typer.Option(
            callback=opt.in_range(1),
            metavar="COUNT",
            help="Number of runs in the new series. A verdict needs at least 5.",
        ),
    ] = 5,
    new: Annotated[
        str | None,
        typer.Option("--new", metavar="SERIES", help="Judge this saved series instead of running a new one."),
    ] = None,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write JUnit XML to this file, one test per verdict.")
    ] = None,
    summary: opt.Summary = None,
    any_machine: Annotated[
        bool, typer.Option("--any-machine", help="Compare even if the CPU or GPU is not that of the baseline.")
    ] = False,
    json: opt.Json = False,
    database: opt.Database = None,
    no_save: opt.NoSave = False,
    worker: opt.Worker = "process",
    python: opt.Python = None,
    case_timeout: opt.CaseTimeout = None,
    simulate: opt.Simulate = None,
    workloads: opt.Workloads = None,
) -> None:
    """Run a series and fail if a case became slower.

    The series is compared with a baseline. With --against, it is compared with a second Python, which runs the same
    cases now.

    Exit code: 0 passed, 1 a case is slower, 3 a case failed, 4 undecided.
    """
    from cpugpu_tui.cli.compare.gate_request import LIMITS, GateRequest, check_enough_runs
    from cpugpu_tui.cli.history import past_runs
    from cpugpu_tui.cli.running.options import run_options, simulation
    from cpugpu_tui.cli.running.saving import save_rest, saving
    from cpugpu_tui.compare.series import series_in
    from cpugpu_tui.config.parsing import parse_bands

    request = GateRequest(
        names=tuple(names or ()), baselines=(baseline_name,), limits=parse_bands(max_slowdown, LIMITS), repeat=repeat,
        junit=junit, summary=summary, case_timeout_s=case_timeout, simulation=simulation(simulate), new=new,
        any_machine=any_machine,
    )  # fmt: skip
    options = run_options(
        worker=worker, python=None if new is not None else python, simulation=request.simulation, database=database,
        no_save=no_save, workloads=workloads,
    )  # fmt: skip
    if against is not None:
        opt.refuse_beside(context, "--against", OF_A_SERIES.__contains__)
        raise typer.Exit(_play(request, options, against, as_json=json))
    base = series_in(baseline_name, database, past_runs.say_remark)
    if new is not None:
        raise typer.Exit(_judge(request, base, series_in(new, database, past_runs.say_remark), as_json=json))
    check_enough_runs(base)
    with saving(options) as outbox:
        ran = _run_series(request, options, base, outbox)
        code = ran if isinstance(ran, int) else _judge(request, base, ran, as_json=json)
        code = save_rest(outbox, code)
    raise typer.Exit(code)


def _judge(request: GateRequest, base: Series, new: Series, *, as_json: bool) -> int:
    """Compare, print, write the reports, and return the exit code."""
    from cpugpu_tui.cli.compare.gate_report import junit, markdown, print_report
    from cpugpu_tui.cli.compare.gate_request import EXIT_CODES
    from cpugpu_tui.compare.gate import gate_series

    report = gate_series(base, new, request.limits)
    if not request.any_machine:
        _check_machine(report.found.differences)
    print_report(report, as_json=as_json)
    request.write(junit(report), markdown(report))
    return EXIT_CODES.get(report.verdict, EXIT_UNFIT)


OF_A_SERIES = ("baseline_name", "new", "repeat", "any_machine")
"""Parameters that have no meaning with --against."""


def _play(request: GateRequest, options: RunOptions, against: str, *, as_json: bool) -> int:
    """Judge this interpreter against another one in a duet, and return the exit code."""
    from cpugpu_tui.cli.compare.gate_report import junit, markdown, print_report
    from cpugpu_tui.cli.compare.gate_request import EXIT_CODES
    from cpugpu_tui.cli.running.modes import duet_plan, play
    from cpugpu_tui.cli.running.options import with_own
    from cpugpu_tui.cli.running.saving import save_rest, saving, say_remark
    from cpugpu_tui.compare.gate import gate_series
    from cpugpu_tui.session.planning import PlanRequest

    pythons = (against, options.python or sys.executable)
    asked = PlanRequest(
        request.names or ("quick",), simulation=request.simulation, case_timeout_s=request.case_timeout_s
    )
    asked = with_own(asked, options.workloads, options.python)
    plan = duet_plan(asked, pythons, options.worker)

    def judge(series: Sequence[Series]) -> GateReport:
        base, new = series
        return gate_series(base, new, request.limits)

    with saving(options) as outbox:
        played = play(asked, plan, pythons, outbox, lambda series: judge(series).found.judged)
        say_remark(outbox)
        if played.is_over:
            return save_rest(outbox, played.exit_code or EXIT_UNFIT)
        try:
            report = judge(played.series)
        except CpuGpuError as error:  # no case was timed on both sides
            print_notice(f"cpugpu-tui: {error}")
            return save_rest(outbox, played.exit_code or EXIT_UNFIT)
        print_report(report, as_json=as_json, duet=played)
        request.write(junit(report), markdown(report))
        return save_rest(outbox, EXIT_CODES.get(report.verdict, EXIT_UNFIT))


def _check_machine(differences: Iterable[Difference]) -> None:
    """Refuse a baseline of other hardware. The host name may differ, as it does in CI.

    Raises:
        UnfitError: CPU or GPU differ.
    """
    hardware = [each for each in differences if each.is_hardware]
    if hardware:
        what = "; ".join(f"{each.what}: {each.base} in the baseline, {each.new} here" for each in hardware)
        raise UnfitError(
            f"The baseline was measured on another machine ({what}).",
            "Create a baseline on this machine, or add --any-machine.",
        )


def _run_series(request: GateRequest, options: RunOptions, base: Series, outbox: Outbox | None) -> Series | int:
    """Run the new series. Return the exit code instead if it did not finish."""
    from cpugpu_tui.cli.compare.gate_request import gate_plan
    from cpugpu_tui.cli.running.one_run import facts, run_quietly, say_why
    from cpugpu_tui.cli.running.options import with_own, words_for
    from cpugpu_tui.cli.running.saving import say_remark
    from cpugpu_tui.compare.comparison import comparable_pairs, differences
    from cpugpu_tui.compare.series import Series
    from cpugpu_tui.session.event_stream import new_id
    from cpugpu_tui.session.planning import PlanRequest, nth_plan
    from cpugpu_tui.session.session import Session
    from cpugpu_tui.transport.agent_pool import Agents

    own = with_own(PlanRequest(request.names or ("quick",)), options.workloads, options.python).own
    plan = gate_plan(request, base, own)
    words = own.words() if request.names else words_for(plan, options.workloads)
    agents = Agents(options.python, options.worker, simulated=plan.simulation is not None, own=words)
    series_id, new = new_id(), Series("this series", ())
    try:
        for number in range(1, request.repeat + 1):
            each = nth_plan(plan, number)
            session = Session(each, agents, outbox, series_id, request.case_timeout_s, facts())
            ran = run_quietly(session, agents, each, f"{plan.name}: run {number} of {request.repeat}")
            if ran.is_over:
                say_why(ran.finished)
                return ran.exit_code or EXIT_UNFIT
            if ran.run is not None:
                new = Series(new.name, (*new.runs, ran.run))
            if number == 1 and not request.any_machine and ran.run is not None:
                # The first run shows whether the machine is the same. If not, do not run the others.
                comparable_pairs(base, Series("", new.runs))
                _check_machine(differences(base.runs, new.runs))
    finally:
        agents.close()
    say_remark(outbox)
    return new
