"""The commands `fleet run`, `fleet gate` and `fleet hosts`: short bodies that import what they need."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cpugpu_tui.cli_export import Exports
from cpugpu_tui.command_options import (
    Cache,
    CaseTimeout,
    Database,
    Dtype,
    Energy,
    FindCrossover,
    Full,
    Json,
    MaxSeconds,
    MaxSize,
    Names,
    NoSave,
    Rounds,
    Scale,
    Simulate,
    Sizes,
    Theme,
    Threads,
    Variant,
)

commands = typer.Typer()
fleet_commands = typer.Typer(help="The same on many machines, over ssh, Slurm or what you have; nothing to install.")
commands.add_typer(fleet_commands, name="fleet")

HostsFile = Annotated[
    Path | None, typer.Option("--hosts", "-H", help="Hosts: an inventory in TOML, or a file with a name a line.")
]
HostNames = Annotated[
    list[str] | None, typer.Option("--host", "-w", help="Hosts by name, n[1-4],gpu7; of the file if there is one.")
]
LauncherName = Annotated[
    str | None, typer.Option("--launcher", help="ssh (default), srun or local, of hosts that do not say it.")
]
NodePython = Annotated[
    str | None,
    typer.Option("--python", help="Interpreter with torch on the hosts (default: python3; local: this one)."),
]
NodeDevices = Annotated[
    list[str] | None,
    typer.Option("--device", help="cpu, cuda or cuda:N; repeatable (default: the CPU and every GPU of a host)."),
]
"""Neither the config's nor the environment's: those name devices of this machine."""
NodeMnist = Annotated[str | None, typer.Option("--mnist", help="Folder on the hosts of your own MNIST idx files.")]
StartTimeout = Annotated[
    float, typer.Option(min=1.0, help="Seconds that a host may take to have its agent ready; Slurm's queue apart.")
]
AtOnce = Annotated[int, typer.Option(min=1, max=1024, help="Hosts that work at the same time.")]


@fleet_commands.command()
def run(
    names: Names = None,
    hosts: HostsFile = None,
    host_names: HostNames = None,
    launcher: LauncherName = None,
    node_python: NodePython = None,
    size: Sizes = None,
    node_device: NodeDevices = None,
    dtype: Dtype = None,
    threads: Threads = None,
    variant: Variant = None,
    find_crossover: FindCrossover = False,
    max_size: MaxSize = None,
    full: Full = False,
    rounds: Rounds = None,
    repeat: Annotated[int, typer.Option(help="Runs of one series.")] = 1,
    max_seconds: MaxSeconds = None,
    case_timeout: CaseTimeout = None,
    start_timeout: StartTimeout = 120.0,
    at_once: AtOnce = 128,
    energy: Energy = False,
    cache: Cache = "cold",
    scale: Scale = "full",
    node_mnist: NodeMnist = None,
    json: Json = False,
    database: Database = None,
    no_save: NoSave = False,
    simulate: Simulate = None,
    export: Exports = None,
    tui: Annotated[bool, typer.Option("--tui", help="Show the hosts live, and leave the tables behind.")] = False,
    theme: Theme = None,
) -> None:
    """Run presets or workloads on every GPU of every host; one table, and each host's run in the history."""
    from cpugpu_tui.cli.export import Outputs
    from cpugpu_tui.cli.fleet import Asked, run_fleet
    from cpugpu_tui.cli.options import RunOptions, simulation
    from cpugpu_tui.session.planning import PlanRequest

    request = PlanRequest(
        tuple(names or ["quick"]), size, dtype, threads, variant, tuple(node_device or ["auto"]), rounds,
        max_seconds, case_timeout, repeat, cache, scale, node_mnist, simulation(simulate), find_crossover, max_size,
        full, energy=energy,
    )  # fmt: skip
    asked = Asked(hosts, tuple(host_names or ()), launcher, node_python, start_timeout, at_once)
    options = RunOptions(database=database, save=not no_save)
    outputs = Outputs(tuple(export or ()))
    if tui and not json:
        from cpugpu_tui.opening import open_fleet

        raise typer.Exit(open_fleet(request, asked, options, outputs, theme))
    raise typer.Exit(run_fleet(request, asked, options, as_json=json, outputs=outputs))


@fleet_commands.command("hosts")
def list_hosts(
    hosts: HostsFile = None,
    host_names: HostNames = None,
    launcher: LauncherName = None,
    node_python: NodePython = None,
    json: Json = False,
) -> None:
    """Print the hosts and the command that reaches each, with `true` in its agent's place; nothing is started."""
    from cpugpu_tui.cli.fleet import Asked, print_hosts

    print_hosts(Asked(hosts, tuple(host_names or ()), launcher, node_python), as_json=json)


@fleet_commands.command()
def gate(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PRESET|WORKLOAD]...", help="What to run; the first baseline's own plan if empty."),
    ] = None,
    hosts: HostsFile = None,
    host_names: HostNames = None,
    launcher: LauncherName = None,
    node_python: NodePython = None,
    baseline_names: Annotated[
        list[str] | None,
        typer.Option("--baseline", help="What GPUs of its model must not fall behind (default main); repeatable."),
    ] = None,
    max_slowdown: Annotated[str, typer.Option(help="How much slower a case may be, in percent.")] = "5%",
    repeat: Annotated[int, typer.Option(min=1, help="Runs of each host; a verdict takes 5 on each side.")] = 5,
    start_timeout: StartTimeout = 120.0,
    at_once: AtOnce = 128,
    junit: Annotated[Path | None, typer.Option(help="Write a JUnit XML file, a suite for each GPU.")] = None,
    summary: Annotated[Path | None, typer.Option(help="Write a Markdown summary to this file.")] = None,
    json: Json = False,
    database: Database = None,
    no_save: NoSave = False,
    case_timeout: CaseTimeout = None,
    simulate: Simulate = None,
) -> None:
    """Run a series on every host and exit 1 with the names of GPUs that are slower than the baseline of their model."""
    from cpugpu_tui.cli.fleet import Asked
    from cpugpu_tui.cli.fleet_gate import FleetGateRequest, run_fleet_gate
    from cpugpu_tui.cli.options import RunOptions, simulation

    request = FleetGateRequest(
        tuple(names or ()), tuple(baseline_names or ["main"]), max_slowdown, repeat, junit, summary, case_timeout,
        simulation(simulate),
    )  # fmt: skip
    asked = Asked(hosts, tuple(host_names or ()), launcher, node_python, start_timeout, at_once)
    options = RunOptions(database=database, save=not no_save)
    raise typer.Exit(run_fleet_gate(request, asked, options, as_json=json))
