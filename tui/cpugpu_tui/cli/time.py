"""`cpugpu-tui time`: time a person's own expression on CPU and GPU."""

from __future__ import annotations

from typing import Annotated

import typer

from cpugpu_tui.cli import options as opt

commands = typer.Typer()

Statement = Annotated[
    str, typer.Argument(metavar="STATEMENT", help="Python to time, such as 'x @ x', or FILE.py:FUNCTION.")
]
Setup = Annotated[
    list[str] | None,
    typer.Option("--setup", "-s", help="Python that makes the inputs, run once for each size. Repeat for more lines."),
]
CodeSizes = Annotated[
    str | None,
    typer.Option("--n", "--size", help="Sizes as n: 512, 16,64,256, 16:4096 (search) or 16:4096:16 (steps)."),
]
Lets = Annotated[
    list[str] | None,
    typer.Option(
        "--let", help="Further parameter as NAME=VALUE. Several values, k=1,2, are timed one after the other."
    ),
]
InPlace = Annotated[
    bool, typer.Option("--in-place", help="Allow the statement to change its inputs; restore them before each call.")
]


@commands.command()
def time(
    statement: Statement,
    setup: Setup = None,
    n: CodeSizes = None,
    let: Lets = None,
    in_place: InPlace = False,
    device: opt.DeviceNames = None,
    parallel: opt.Parallel = False,
    dtype: opt.Dtype = None,
    threads: opt.Threads = None,
    find_crossover: opt.FindCrossover = False,
    full: opt.Full = False,
    rounds: opt.Rounds = None,
    repeat: opt.Repeat = None,
    max_seconds: opt.MaxSeconds = None,
    case_timeout: opt.CaseTimeout = None,
    energy: opt.Energy = False,
    cache: opt.Cache = "cold",
    json: opt.Json = False,
    database: opt.Database = None,
    no_save: opt.NoSave = False,
    worker: opt.Worker = "process",
    python: opt.Python = None,
    simulate: opt.Simulate = None,
    export: opt.Exports = None,
    ceilings: opt.TakeCeilings = True,
) -> None:
    """Time your own expression or function on CPU and GPU.

    The code can use torch, np, F, math, the size n and the name of the device. Setup runs on the host; its tensors are
    copied to each device. A function gets --let values, n, device, and what a function inputs(n) beside it returns.
    """
    from cpugpu_tui.cli.run import run_headless
    from cpugpu_tui.cli.running.options import RunOptions, found_python, simulation
    from cpugpu_tui.cli.running.outputs import Outputs
    from cpugpu_tui.session.own_workloads import OwnWorkloads
    from cpugpu_tui.session.planning import PlanRequest
    from cpugpu_tui.session.typed_code import parameters
    from cpugpu_tui.workloads.own_code import own_code

    lines = "\n".join(setup or ())
    codes = tuple(own_code(statement, lines, lets, in_place=in_place) for lets in parameters(let or ()))
    request = PlanRequest(
        names=tuple(code.name for code in codes), sizes=n, dtype=dtype, threads=threads,
        devices=tuple(device or ["auto"]), rounds=rounds, max_seconds=max_seconds, case_timeout_s=case_timeout,
        repeat=1 if repeat is None else repeat, cache=cache, simulation=simulation(simulate),
        find_crossover=find_crossover, full=full, parallel=parallel, energy=energy, own=OwnWorkloads(codes=codes),
    )  # fmt: skip
    options = RunOptions(
        worker=worker, python=found_python(python, worker, request.simulation), database=database, save=not no_save,
        ceilings=ceilings,
    )  # fmt: skip
    raise typer.Exit(run_headless(request, options, as_json=json, outputs=Outputs(export or (), None)))
