"""`cpugpu-tui survey`: the crossover of every workload in one table."""

from __future__ import annotations

from typing import Annotated

import typer

from cpugpu_tui.cli import options as opt

commands = typer.Typer()

Only = Annotated[
    str | None,
    typer.Option(metavar="NAMES", help="Workloads to include, such as matmul,fft,sort.", show_default="all"),
]
SurveyDtype = Annotated[
    str | None,
    typer.Option(
        "--dtype", metavar="DTYPE", show_default="float32", help=f"{opt.DTYPE_HELP} Workloads without it are left out."
    ),
]
All = Annotated[
    bool, typer.Option("--all", help="Also ten more workloads, in at most 8 minutes; --only names them, too.")
]
ResumeSurvey = Annotated[
    bool, typer.Option("--resume", help="Finish the newest interrupted survey. Sizes without a result are timed.")
]
SurveySeconds = Annotated[
    float | None,
    typer.Option(parser=opt.number, metavar="SECONDS",
        help="Time limit of the whole survey. Sizes not started by then are skipped.",
        show_default="280 s after the agent has started, with --all 460 s; without a GPU 112 and 184 s",
    ),
]  # fmt: skip


@commands.command()
def survey(
    context: typer.Context,
    only: Only = None,
    all_: All = False,
    resume: ResumeSurvey = False,
    dtype: SurveyDtype = None,
    threads: opt.ThreadsOrAll = None,
    device: opt.DeviceNames = None,
    max_seconds: SurveySeconds = None,
    case_timeout: opt.CaseTimeout = None,
    explain: opt.Explain = False,
    json: opt.Json = False,
    database: opt.Database = None,
    no_save: opt.NoSave = False,
    worker: opt.Worker = "process",
    python: opt.Python = None,
    simulate: opt.Simulate = None,
    export: opt.Exports = None,
    ceilings: opt.TakeCeilings = True,
) -> None:
    """Find the crossover of every workload, in at most 5 minutes.

    Prints one line for each workload. Its bar shows the sizes, smallest to largest: where the CPU wins, where the GPU
    wins if the inputs are there already, and where it also wins with copies. The workload with the smallest CPU part
    comes first. The workloads share the time. Without a GPU, only the CPU is timed, in at most 2 minutes.
    """
    from cpugpu_tui.cli.running import modes
    from cpugpu_tui.cli.running.options import run_options, simulation
    from cpugpu_tui.cli.running.saving import Outputs
    from cpugpu_tui.errors import UsageError
    from cpugpu_tui.session.planning import PlanRequest
    from cpugpu_tui.workloads.presets import MORE, SURVEY, SURVEY_ALL

    names = tuple(filter(None, map(str.strip, (only or "").split(","))))
    if only is not None and not names:
        raise UsageError(f"--only {only!r} names no workload.", "Leave --only out to run all of them.")
    preset = SURVEY_ALL if all_ or {part.workload for part in MORE} & {*names} else SURVEY
    if resume:
        raise typer.Exit(modes.resume_run(context, preset))
    request = PlanRequest(
        names=(preset,), only=names, dtype=dtype,
        threads=threads, devices=tuple(device or ["auto"]), max_seconds=max_seconds, case_timeout_s=case_timeout,
        simulation=simulation(simulate),
    )  # fmt: skip
    options = run_options(
        worker=worker, python=python, simulation=request.simulation, database=database, no_save=no_save,
        ceilings=ceilings,
    )  # fmt: skip
    outputs = Outputs(export or (), in_full=explain)
    raise typer.Exit(modes.run_headless(request, options, as_json=json, outputs=outputs))
