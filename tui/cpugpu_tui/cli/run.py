"""`cpugpu-tui run` and `survey`: run in the same way as the app, and print a table or the events."""

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
ResumeSurvey = Annotated[
    bool, typer.Option("--resume", help="Finish the newest interrupted survey. Sizes without a result are timed.")
]


@commands.command()
def run(
    context: typer.Context,
    names: opt.Names = None,
    resume: opt.Resume = False,
    size: opt.Sizes = None,
    device: opt.DeviceNames = None,
    parallel: opt.Parallel = False,
    dtype: opt.Dtype = None,
    threads: opt.Threads = None,
    variant: opt.Variant = None,
    find_crossover: opt.FindCrossover = False,
    max_size: opt.MaxSize = None,
    full: opt.Full = False,
    rounds: opt.Rounds = None,
    repeat: opt.Repeat = None,
    max_seconds: opt.MaxSeconds = None,
    case_timeout: opt.CaseTimeout = None,
    energy: opt.Energy = False,
    cache: opt.Cache = "cold",
    scale: opt.Scale = "full",
    mnist: opt.Mnist = None,
    json: opt.Json = False,
    database: opt.Database = None,
    no_save: opt.NoSave = False,
    worker: opt.Worker = "process",
    python: opt.Pythons = None,
    band: opt.Band = None,
    simulate: opt.Simulate = None,
    workloads: opt.Workloads = None,
    export: opt.Exports = None,
    tensorboard: opt.Tensorboard = None,
    ceilings: opt.TakeCeilings = True,
) -> None:
    """Run presets or workloads and print a table.

    With --json, print each event of the run as a line of JSON instead.
    """
    from cpugpu_tui.cli.running import modes
    from cpugpu_tui.cli.running.options import RunOptions, found_python, simulation
    from cpugpu_tui.cli.running.saving import Outputs
    from cpugpu_tui.config.paths import absolute
    from cpugpu_tui.errors import UsageError
    from cpugpu_tui.session.planning import PlanRequest

    if resume:
        raise typer.Exit(modes.resume_run(context))
    several = python if python and len(python) > 1 else None
    if not several and (source := context.get_parameter_source("band")) and source.name == "COMMANDLINE":
        raise UsageError("--band needs two interpreters to compare.", "Repeat --python, or use `cpugpu-tui compare`.")
    request = PlanRequest(
        names=tuple(names or ["quick"]), sizes=size, dtype=dtype, threads=threads, variant=variant,
        devices=tuple(device or ["auto"]), rounds=rounds, max_seconds=max_seconds, case_timeout_s=case_timeout,
        repeat=1 if repeat is None else repeat, cache=cache, scale=scale, mnist=absolute(str(mnist)) if mnist else None,
        simulation=simulation(simulate), find_crossover=find_crossover, max_size=max_size, full=full,
        parallel=parallel, energy=energy,
    )  # fmt: skip
    only = found_python(python[0], worker, request.simulation) if python and not several else None
    options = RunOptions(
        worker=worker, python=only, database=database, save=not no_save, workloads=tuple(map(str, workloads or ())),
        ceilings=ceilings,
    )  # fmt: skip
    outputs = Outputs(export or (), tensorboard)
    if several:
        raise typer.Exit(modes.run_in_turn(request, options, tuple(several), outputs, as_json=json, band=band))
    raise typer.Exit(modes.run_headless(request, options, as_json=json, outputs=outputs))


@commands.command()
def survey(
    context: typer.Context,
    only: Only = None,
    resume: ResumeSurvey = False,
    dtype: SurveyDtype = None,
    threads: opt.Threads = None,
    device: opt.DeviceNames = None,
    max_seconds: opt.MaxSeconds = None,
    case_timeout: opt.CaseTimeout = None,
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

    Prints one line for each workload, sorted by how early the GPU wins. A bar shows its sizes, smallest to largest:
    where the CPU wins, where the GPU wins with its inputs there, and where it wins with copies too. The workloads
    share the time. Without a GPU, only the CPU is timed.
    """
    from cpugpu_tui.cli.running import modes
    from cpugpu_tui.cli.running.options import RunOptions, found_python, simulation
    from cpugpu_tui.cli.running.saving import Outputs
    from cpugpu_tui.session.planning import PlanRequest
    from cpugpu_tui.workloads.presets import SURVEY

    if resume:
        raise typer.Exit(modes.resume_run(context, SURVEY))
    request = PlanRequest(
        names=(SURVEY,), only=tuple(filter(None, map(str.strip, (only or "").split(",")))), dtype=dtype,
        threads=threads, devices=tuple(device or ["auto"]), max_seconds=max_seconds, case_timeout_s=case_timeout,
        simulation=simulation(simulate),
    )  # fmt: skip
    options = RunOptions(
        worker=worker, python=found_python(python, worker, request.simulation), database=database, save=not no_save,
        ceilings=ceilings,
    )  # fmt: skip
    raise typer.Exit(modes.run_headless(request, options, as_json=json, outputs=Outputs(export or ())))
