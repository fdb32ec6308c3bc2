"""`cpugpu-tui run`: run in the same way as the app, and print a table or the events."""

from __future__ import annotations

import typer

from cpugpu_tui.cli import options as opt

commands = typer.Typer()


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
    starts: opt.Starts = None,
    repeat: opt.Repeat = None,
    max_seconds: opt.MaxSeconds = None,
    case_timeout: opt.CaseTimeout = None,
    energy: opt.Energy = False,
    cache: opt.Cache = "cold",
    scale: opt.Scale = "full",
    mnist: opt.Mnist = None,
    explain: opt.Explain = False,
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
    from cpugpu_tui.cli.running.options import run_options, simulation
    from cpugpu_tui.cli.running.saving import Outputs
    from cpugpu_tui.config.paths import absolute
    from cpugpu_tui.errors import UsageError
    from cpugpu_tui.session.planning import PlanRequest

    if resume:
        raise typer.Exit(modes.resume_run(context))
    several = python if python and len(python) > 1 else None
    if not several and "band" in opt.typed(context):
        raise UsageError("--band needs two interpreters to compare.", "Repeat --python, or use `cpugpu-tui compare`.")
    request = PlanRequest(
        names=tuple(names or ["quick"]), sizes=size, dtype=dtype, threads=threads, variant=variant,
        devices=tuple(device or ["auto"]), rounds=rounds, max_seconds=max_seconds, case_timeout_s=case_timeout,
        repeat=1 if repeat is None else repeat, cache=cache, scale=scale, mnist=absolute(str(mnist)) if mnist else None,
        simulation=simulation(simulate), find_crossover=find_crossover, max_size=max_size, full=full,
        parallel=parallel, energy=energy, starts=opt.starts_of(context, starts),
    )  # fmt: skip
    options = run_options(
        worker=worker, python=python[0] if python and not several else None, simulation=request.simulation,
        database=database, no_save=no_save, workloads=workloads, ceilings=ceilings,
    )  # fmt: skip
    outputs = Outputs(export or (), tensorboard, in_full=explain)
    if several:
        raise typer.Exit(modes.run_in_turn(request, options, tuple(several), outputs, as_json=json, band=band))
    raise typer.Exit(modes.run_headless(request, options, as_json=json, outputs=outputs))
