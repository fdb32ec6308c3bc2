"""`cpugpu-tui run`: run in the same way as the app, and print a table or the events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from cpugpu_tui.cli import options as opt
from cpugpu_tui.errors import EXIT_UNFIT, EXIT_USAGE

if TYPE_CHECKING:
    from cpugpu_tui.cli.running.options import RunOptions
    from cpugpu_tui.cli.running.outputs import Outputs
    from cpugpu_tui.session.planning import PlanRequest

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
    simulate: opt.Simulate = None,
    workloads: opt.Workloads = None,
    export: opt.Exports = None,
    tensorboard: opt.Tensorboard = None,
    ceilings: opt.TakeCeilings = True,
) -> None:
    """Run presets or workloads and print a table.

    With --json, print each event of the run as a line of JSON instead.
    """
    if resume:
        from cpugpu_tui.cli.running.resume import resume_run

        raise typer.Exit(resume_run(context))
    from cpugpu_tui.cli.running.options import RunOptions, found_python, simulation
    from cpugpu_tui.cli.running.outputs import Outputs
    from cpugpu_tui.config.paths import absolute
    from cpugpu_tui.session.planning import PlanRequest

    several = python if python and len(python) > 1 else None
    # Three runs of each interpreter are too few: they find a difference of 10 % among 25 cases in 28 % of trials.
    runs = (5 if several else 1) if repeat is None else repeat
    request = PlanRequest(
        names=tuple(names or ["quick"]), sizes=size, dtype=dtype, threads=threads, variant=variant,
        devices=tuple(device or ["auto"]), rounds=rounds, max_seconds=max_seconds, case_timeout_s=case_timeout,
        repeat=runs, cache=cache, scale=scale, mnist=absolute(str(mnist)) if mnist else None,
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
        from cpugpu_tui.cli.running.interpreters import run_in_turn

        raise typer.Exit(run_in_turn(request, options, tuple(several), outputs, as_json=json))
    raise typer.Exit(run_headless(request, options, as_json=json, outputs=outputs))


def run_headless(request: PlanRequest, options: RunOptions, *, as_json: bool, outputs: Outputs | None = None) -> int:
    """Run a request to its end and return the exit code.

    Raises:
        CpuGpuError: the request cannot be run at all. With `--json` it is also printed as a `RunFinished` line.
    """
    from cpugpu_tui.cli.output.json_lines import failure_as_event
    from cpugpu_tui.cli.running.one_run import facts, run_once
    from cpugpu_tui.cli.running.outputs import Outputs
    from cpugpu_tui.cli.running.own import with_own
    from cpugpu_tui.cli.running.saving import remark_of, save_rest, saving
    from cpugpu_tui.session.devices import with_gpu_names
    from cpugpu_tui.session.event_stream import new_id
    from cpugpu_tui.session.planning import build_plan, nth_plan
    from cpugpu_tui.session.session import Session
    from cpugpu_tui.transport.agent_pool import Agents

    outputs = outputs or Outputs()
    with failure_as_event(as_json=as_json):
        request = with_own(request, options.workloads, options.python)
        plan = build_plan(request)
        outputs.check()
    agents = Agents(
        options.python, options.worker, simulated=plan.simulation is not None, own=request.own.words()
    )  # fmt: skip
    series_id = new_id()
    code = 0
    with saving(options) as outbox:
        try:
            with failure_as_event(as_json=as_json):
                plan = with_gpu_names(plan, agents)
            for number in range(1, request.repeat + 1):
                each = nth_plan(plan, number)
                session = Session(
                    each, agents, outbox, series_id, request.case_timeout_s, facts(), ceilings=options.ceilings
                )  # fmt: skip
                remark = remark_of(outbox) if number == 1 else None
                code = max(code, run_once(session, agents, each, remark, as_json=as_json, outputs=outputs))
                if session.stopping or code in (EXIT_USAGE, EXIT_UNFIT):
                    break  # the next run would fail in the same way
        finally:
            agents.close()
        return save_rest(outbox, code or outputs.exit_code)
