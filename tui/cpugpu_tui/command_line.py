"""The command line: short bodies that import what they need; `--help` loads none of torch, textual, NVML, sqlite3."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Annotated

import typer

from cpugpu_tui import __version__, cli_compare, cli_config, cli_export, cli_fleet, cli_history
from cpugpu_tui.cli_export import Exports, Tensorboard
from cpugpu_tui.command_options import (
    Cache,
    CaseTimeout,
    Database,
    DeviceNames,
    Dtype,
    Energy,
    FindCrossover,
    Full,
    Json,
    MaxSeconds,
    MaxSize,
    Mnist,
    Names,
    NoSave,
    Parallel,
    Python,
    Pythons,
    Repeat,
    Replay,
    Resume,
    Rounds,
    Scale,
    Simulate,
    Sizes,
    TakeCeilings,
    Theme,
    Threads,
    Variant,
    Worker,
    Workloads,
)
from cpugpu_tui.errors import EXIT_INTERRUPTED, EXIT_USAGE, print_notice

app = typer.Typer(
    name="cpugpu-tui",
    help="Is the GPU really faster for this work, from which size on, and by how much? Without a command: the app.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for _part in (cli_history, cli_compare, cli_export, cli_config, cli_fleet):
    app.add_typer(_part.commands)  # without a name, its commands become ours


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"cpugpu-tui {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def without_command(
    context: typer.Context,
    python: Python = None,
    worker: Worker = "process",
    database: Database = None,
    no_save: NoSave = False,
    theme: Theme = None,
    simulate: Simulate = None,
    replay: Replay = None,
    workloads: Workloads = None,
    ceilings: TakeCeilings = True,
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True)] = False,
) -> None:
    """Is the GPU really faster for this work, from which size on, and by how much? Without a command: the app."""
    del version
    if context.invoked_subcommand is None:
        from cpugpu_tui.opening import open_app

        raise typer.Exit(open_app(python, worker, database, not no_save, theme, simulate, replay, workloads, ceilings))


@app.command()
def run(
    context: typer.Context,
    names: Names = None,
    resume: Resume = False,
    size: Sizes = None,
    device: DeviceNames = None,
    parallel: Parallel = False,
    dtype: Dtype = None,
    threads: Threads = None,
    variant: Variant = None,
    find_crossover: FindCrossover = False,
    max_size: MaxSize = None,
    full: Full = False,
    rounds: Rounds = None,
    repeat: Repeat = None,
    max_seconds: MaxSeconds = None,
    case_timeout: CaseTimeout = None,
    energy: Energy = False,
    cache: Cache = "cold",
    scale: Scale = "full",
    mnist: Mnist = None,
    json: Json = False,
    database: Database = None,
    no_save: NoSave = False,
    worker: Worker = "process",
    python: Pythons = None,
    simulate: Simulate = None,
    workloads: Workloads = None,
    export: Exports = None,
    tensorboard: Tensorboard = None,
    ceilings: TakeCeilings = True,
) -> None:
    """Run presets or workloads and print a table (or the events, with --json)."""
    if resume:
        from cpugpu_tui.cli import resume as resuming

        raise typer.Exit(resuming.from_command_line(context))
    from cpugpu_tui.cli.export import Outputs
    from cpugpu_tui.cli.options import RunOptions, check_worker, found_python, simulation
    from cpugpu_tui.cli.run import run_headless
    from cpugpu_tui.config.paths import absolute
    from cpugpu_tui.session.planning import PlanRequest

    # With three runs of each interpreter, 10 % among 25 cases is found in 28 % of trials.
    runs = (5 if python and len(python) > 1 else 1) if repeat is None else repeat
    request = PlanRequest(
        tuple(names or ["quick"]), size, dtype, threads, variant, tuple(device or ["auto"]), rounds,
        max_seconds, case_timeout, runs, cache, scale, absolute(str(mnist)) if mnist else None,
        simulation(simulate), find_crossover, max_size, full, parallel=parallel, energy=energy,
    )  # fmt: skip
    first = found_python(python[0], worker, request.simulation) if python and len(python) == 1 else None
    options = RunOptions(check_worker(worker), first, database, not no_save, tuple(map(str, workloads or ())), ceilings)
    outputs = Outputs(tuple(export or ()), tensorboard)
    if python and len(python) > 1:
        from cpugpu_tui.cli.interpreters import run_in_turn

        raise typer.Exit(run_in_turn(request, options, tuple(python), outputs, as_json=json))
    raise typer.Exit(run_headless(request, options, as_json=json, outputs=outputs))


@app.command("list")
def list_workloads(json: Json = False, workloads: Workloads = None, python: Python = None) -> None:
    """List presets and workloads, your own among them."""
    from cpugpu_tui.cli.catalogue import print_catalogue

    raise typer.Exit(print_catalogue(map(str, workloads or ()), python, as_json=json))


@app.command()
def devices(json: Json = False, python: Python = None, simulate: Simulate = None) -> None:
    """List the CPU and the GPUs that torch can use, with their NVML identity."""
    from cpugpu_tui.cli.listing import print_devices
    from cpugpu_tui.cli.options import found_python, simulation

    made_up = simulation(simulate)
    print_devices(found_python(python, simulation=made_up), made_up, as_json=json)


@app.command()
def machine(
    measure: Annotated[bool, typer.Option("--measure", help="Measure now: all cores and the GPU, about 20 s.")] = False,
    device: DeviceNames = None,
    json: Json = False,
    database: Database = None,
    no_save: NoSave = False,
    python: Python = None,
    simulate: Simulate = None,
) -> None:
    """Print the machine card: what CPU, GPU and the cable between them reach here, and what asking costs."""
    from cpugpu_tui.cli.machine import print_machine
    from cpugpu_tui.cli.options import RunOptions, found_python, simulation
    from cpugpu_tui.transport.interpreter_search import AUTO

    made_up = simulation(simulate)
    # Only a measurement is worth a search.
    found = found_python(python, simulation=made_up) if measure or python != AUTO else None
    options = RunOptions("process", found, database, not no_save)
    devices = tuple(device or ["auto"])
    raise typer.Exit(print_machine(options, devices, made_up, measure=measure, as_json=json))


@app.command()
def claims(json: Json = False, database: Database = None, simulate: Simulate = None) -> None:
    """Print what five publications say of CPU and GPU, and whether it holds on this machine."""
    from cpugpu_tui.cli.claims import print_claims
    from cpugpu_tui.cli.options import simulation

    raise typer.Exit(print_claims(database, simulated=simulation(simulate) is not None, as_json=json))


@app.command()
def telemetry(
    json: Json = False,
    interval: Annotated[
        float | None, typer.Option(help="Seconds between two sweeps (default 1, at least 0.1; a replay: as recorded).")
    ] = None,
    count: Annotated[int | None, typer.Option(help="How many sweeps (default: until ctrl+c).")] = None,
    gpm: Annotated[
        bool, typer.Option("--gpm", help="Occupancy, tensor and DRAM activity too (Hopper and later).")
    ] = False,
    record: Annotated[Path | None, typer.Option(help="Write what is read to a new file, line by line.")] = None,
    replay: Replay = None,
    simulate: Simulate = None,
) -> None:
    """Print what GPUs and host are doing, once a second, as a table or as JSON lines."""
    from cpugpu_tui.cli.telemetry import Wanted, print_telemetry

    raise typer.Exit(print_telemetry(Wanted(interval, count, gpm, record, replay, simulate), as_json=json))


@app.command()
def demo(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Another recording than the shipped one.")
    ] = None,
    pace: Annotated[
        str | None, typer.Option(help="original, or a factor: 2 is twice as fast as recorded (default: 90 s in all).")
    ] = None,
    table: Annotated[bool, typer.Option("--table", help="Print tables, answers and claims; no app.")] = False,
    json: Json = False,
    theme: Theme = None,
) -> None:
    """Play runs that were recorded on a real GPU, in the app; without a terminal print what they say."""
    from cpugpu_tui.opening import open_demo

    raise typer.Exit(open_demo(file, pace, theme, table=table, as_json=json))


@app.command()
def doctor(
    json: Json = False,
    python: Python = None,
    database: Database = None,
    telemetry_cost: Annotated[
        bool, typer.Option("--telemetry-cost", help="Time tiny kernels with our telemetry off and on; needs a GPU.")
    ] = False,
    max_seconds: Annotated[float, typer.Option(min=1.0, help="Time for --telemetry-cost.")] = 60.0,
    simulate: Simulate = None,
) -> None:
    """Check driver, torch, GPUs, host, history and terminal, and say what to do about what is wrong."""
    from cpugpu_tui.cli.doctor import print_checkup
    from cpugpu_tui.cli.options import found_python, simulation

    cost_s, made_up = max_seconds if telemetry_cost else None, simulation(simulate)
    found = found_python(python, simulation=made_up)
    raise typer.Exit(print_checkup(found, database, made_up, cost_s=cost_s, as_json=json))


def run_command() -> int:
    """Run the command that `sys.argv` holds and return its exit code.

    Raises:
        BrokenPipeError: whoever read stdout went away (`| head`).
        CpuGpuError, OSError, KeyboardInterrupt: as the command does.
    """
    try:
        return int(app(standalone_mode=False, default_map=cli_config.defaults(app, sys.argv[1:])) or 0)
    except typer.Abort:
        return EXIT_INTERRUPTED
    except SystemExit:
        # typer makes exit code 1 of it, which means "the check said no".
        raise BrokenPipeError from None
    except Exception as error:
        # typer's own complaints about the command line; their class is private to it.
        show = getattr(error, "show", None)
        if show is None:
            raise
        said = io.StringIO()
        show(file=said)
        for line in said.getvalue().splitlines():
            print_notice(line)
        return EXIT_USAGE
