"""`cpugpu-tui gate`: a verdict for CI."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cpugpu_tui.cli import options as opt

OF_A_SERIES = ("baseline_name", "new", "repeat", "any_machine")
"""Parameters that have no meaning with --against."""

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
            parser=opt.whole_number,
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
    from cpugpu_tui.cli.compare.gate_request import LIMITS, GateRequest, judge, play, run_and_judge
    from cpugpu_tui.cli.history.past_runs import series_in
    from cpugpu_tui.cli.running.options import run_options, simulation
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
        raise typer.Exit(play(request, options, against, as_json=json))
    base = series_in(baseline_name, database)
    if new is not None:
        raise typer.Exit(judge(request, base, series_in(new, database), as_json=json))
    raise typer.Exit(run_and_judge(request, options, base, as_json=json))
