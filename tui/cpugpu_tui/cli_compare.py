"""The commands `compare`, `baseline` and `gate`: short bodies that import what they need."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cpugpu_tui.command_options import CaseTimeout, Database, Json, NoSave, Python, Simulate, Worker, Workloads

commands = typer.Typer()

SIDE = "run number, latest, the beginning of an id, a tag, a baseline, or FILE:RUN of another database"


@commands.command()
def compare(
    base: Annotated[str, typer.Argument(metavar="BASE", help=f"What to compare with: {SIDE}.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="What is compared, named the same way.")] = "latest",
    json: Json = False,
    database: Database = None,
) -> None:
    """Compare two series of runs case by case: what differed around them, ratios, verdicts, geometric mean."""
    from cpugpu_tui.cli.compare import print_comparison

    raise typer.Exit(print_comparison(base, new, database, as_json=json))


@commands.command()
def baseline(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Name to give, or to show; none lists all.")
    ] = None,
    run_name: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="Any run of the series that becomes the baseline.")
    ] = None,
    json: Json = False,
    database: Database = None,
) -> None:
    """Name a series, to compare with later and for `gate`; without a run, show what is named."""
    from cpugpu_tui.cli.compare import print_baselines

    raise typer.Exit(print_baselines(name, run_name, database, as_json=json))


@commands.command()
def gate(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PRESET|WORKLOAD]...", help="What to run; the baseline's own plan if empty."),
    ] = None,
    baseline_name: Annotated[str, typer.Option("--baseline", help=f"What must not be fallen behind: {SIDE}.")] = "main",
    max_slowdown: Annotated[str, typer.Option(help="How much slower a case may be, in percent.")] = "5%",
    repeat: Annotated[int, typer.Option(min=1, help="Runs of the new series; a verdict takes 5 on each side.")] = 5,
    new: Annotated[str | None, typer.Option("--new", help="Judge this saved series instead of running one.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write a JUnit XML file, one test for each verdict.")] = None,
    summary: Annotated[Path | None, typer.Option(help="Write a Markdown summary to this file.")] = None,
    any_machine: Annotated[
        bool, typer.Option("--any-machine", help="Judge although the processors are not the baseline's.")
    ] = False,
    json: Json = False,
    database: Database = None,
    no_save: NoSave = False,
    worker: Worker = "process",
    python: Python = None,
    case_timeout: CaseTimeout = None,
    simulate: Simulate = None,
    workloads: Workloads = None,
) -> None:
    """Run a series and exit 1 if a case is slower than the baseline; 4 if that cannot be said, 0 if none is."""
    from cpugpu_tui.cli.gate import GateRequest, run_gate
    from cpugpu_tui.cli.options import RunOptions, check_worker, found_python, simulation

    request = GateRequest(
        tuple(names or ()), baseline_name, max_slowdown, repeat, new, junit, summary, any_machine, case_timeout,
        simulation(simulate),
    )  # fmt: skip
    check_worker(worker)
    found = None if new is not None else found_python(python, worker, request.simulation)
    options = RunOptions(worker, found, database, not no_save, tuple(map(str, workloads or ())))
    raise typer.Exit(run_gate(request, options, as_json=json))
