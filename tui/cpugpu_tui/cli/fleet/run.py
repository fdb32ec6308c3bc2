"""`cpugpu-tui fleet run`: the same plan on every host, as one table, as JSON lines, or live in the app.

Also `fleet hosts`: the hosts and the command that reaches each.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from cpugpu_tui.cli import options as opt
from cpugpu_tui.cli.output.printing import failure_as_event, print_json, print_line
from cpugpu_tui.errors import print_notice

if TYPE_CHECKING:
    from cpugpu_tui.cli.fleet.running import HostsRequest, Run
    from cpugpu_tui.cli.running.options import RunOptions
    from cpugpu_tui.cli.running.saving import Outputs
    from cpugpu_tui.session.fleet_running import Fleet
    from cpugpu_tui.session.planning import PlanRequest

NodeDevices = Annotated[
    list[str] | None,
    typer.Option(
        "--device",
        metavar="DEVICE",
        help="cpu, cuda or cuda:N. Repeatable.",
        show_default="the CPU and every GPU of a host",
    ),
]
"""Without the config's and environment's default, which names devices of this machine."""
NodeMnist = Annotated[
    str | None, typer.Option("--mnist", metavar="DIR", help="Folder on the hosts with your own MNIST idx files.")
]

LONGEST_CELL = 10_000
"""Maximum length of a printed command of `fleet hosts`."""

commands = typer.Typer()


@commands.command()
def run(
    names: opt.Names = None,
    hosts: opt.HostsFile = None,
    host_names: opt.HostNames = None,
    launcher: opt.LauncherName = None,
    node_python: opt.NodePython = None,
    size: opt.Sizes = None,
    node_device: NodeDevices = None,
    dtype: opt.Dtype = None,
    threads: opt.Threads = None,
    variant: opt.Variant = None,
    find_crossover: opt.FindCrossover = False,
    max_size: opt.MaxSize = None,
    full: opt.Full = False,
    rounds: opt.Rounds = None,
    repeat: Annotated[
        int, typer.Option(parser=opt.whole_number, metavar="COUNT", help="Repeat the whole run this many times.")
    ] = 1,
    max_seconds: opt.MaxSeconds = None,
    case_timeout: opt.CaseTimeout = None,
    start_timeout: opt.StartTimeout = 120.0,
    at_once: opt.AtOnce = 128,
    energy: opt.Energy = False,
    cache: opt.Cache = "cold",
    scale: opt.Scale = "full",
    node_mnist: NodeMnist = None,
    json: opt.Json = False,
    database: opt.Database = None,
    no_save: opt.NoSave = False,
    simulate: opt.Simulate = None,
    export: opt.Exports = None,
    tui: Annotated[
        bool, typer.Option("--tui", help="Show the hosts live in the app, and print the tables at the end.")
    ] = False,
    theme: opt.Theme = None,
    mouse: opt.Mouse = True,
) -> None:
    """Run presets or workloads on every GPU of every host.

    The result is one table. The history saves a run for each host.
    """
    from cpugpu_tui.cli.fleet.running import HostsRequest
    from cpugpu_tui.cli.running.options import RunOptions, simulation
    from cpugpu_tui.cli.running.saving import Outputs
    from cpugpu_tui.session.planning import PlanRequest

    request = PlanRequest(
        names=tuple(names or ["quick"]), sizes=size, dtype=dtype, threads=threads, variant=variant,
        devices=tuple(node_device or ["auto"]), rounds=rounds, max_seconds=max_seconds, case_timeout_s=case_timeout,
        repeat=repeat, cache=cache, scale=scale, mnist=node_mnist, simulation=simulation(simulate),
        find_crossover=find_crossover, max_size=max_size, full=full, energy=energy,
    )  # fmt: skip
    asked = HostsRequest(
        file=hosts, names=tuple(host_names or ()), launcher=launcher, python=node_python,
        start_timeout_s=start_timeout, at_once=at_once,
    )  # fmt: skip
    options = RunOptions(database=database, save=not no_save)
    show = _in_the_app(theme, mouse=mouse) if tui and not json else None
    raise typer.Exit(_run_fleet(request, asked, options, Outputs(export or ()), show, as_json=json))


def _in_the_app(theme: str | None, *, mouse: bool) -> Callable[[Fleet, Run], None]:
    """Return a function that runs a fleet and shows it in the app."""
    from cpugpu_tui.config import config, paths
    from cpugpu_tui.ui.app_state import FleetOptions
    from cpugpu_tui.ui.keys import keymap_of
    from cpugpu_tui.ui.start import run_fleet_app

    looks = FleetOptions(theme, paths.config_dir(), keymap_of(config.load().keys), mouse)
    return lambda fleet, run: run_fleet_app(fleet, run.state, run.take, looks)


def _run_fleet(
    request: PlanRequest, asked: HostsRequest, options: RunOptions, outputs: Outputs,
    show: Callable[[Fleet, Run], None] | None, *, as_json: bool,
) -> int:  # fmt: skip
    """Run a request on every host and return the exit code: 3 if a host or a case failed, 130 if it was stopped.

    `show` runs the fleet in the app and returns when it has ended. Without it, a line of progress is shown.

    Raises:
        CpuGpuError: request, hosts or terminal cannot be used. With `--json` it is also printed as a `RunFinished`.
    """
    from dataclasses import replace

    from cpugpu_tui.cli.fleet.running import Run, print_fleet, run_to_the_end
    from cpugpu_tui.cli.running.saving import save_rest, saving, say_remark
    from cpugpu_tui.config import config
    from cpugpu_tui.render.fleet import host_data
    from cpugpu_tui.session.fleet_running import Fleet, fleet_devices
    from cpugpu_tui.session.fleet_state import FleetState
    from cpugpu_tui.session.own_workloads import OwnWorkloads
    from cpugpu_tui.session.planning import build_plan

    with failure_as_event(as_json=as_json):
        plan = build_plan(replace(request, own=OwnWorkloads(presets=config.load().presets)))
        plan = fleet_devices(plan, None if request.devices == ("auto",) else request.devices)
        fleet_plan = asked.plan(plan, request.repeat, request.case_timeout_s)
        outputs.check()
    with saving(options) as outbox:
        fleet, run = Fleet(fleet_plan, outbox), Run(FleetState.of(fleet_plan.hosts), outputs, as_json)
        (show or run_to_the_end)(fleet, run)
        if show is not None and fleet.signal_exit:
            return save_rest(outbox, fleet.signal_exit)  # the terminal may be gone
        say_remark(outbox)
        code = save_rest(outbox, fleet.signal_exit or run.state.exit_code)
    if as_json:
        hosts = [host_data(each) for each in run.state.hosts.values()]
        finished = {"event": "FleetFinished", "fleet": fleet.fleet_id, "exit_code": code, "says": run.state.sentence}
        print_line({**finished, "hosts": hosts})
    else:
        print_fleet(run.state)
        sys.stdout.flush()
    for line in outputs.write():
        print_notice(line)
    return code or outputs.exit_code


@commands.command("hosts")
def list_hosts(
    hosts: opt.HostsFile = None, host_names: opt.HostNames = None, launcher: opt.LauncherName = None,
    node_python: opt.NodePython = None, json: opt.Json = False,
) -> None:  # fmt: skip
    """List the hosts and the command that reaches each.

    Nothing is started. The commands run `true` instead of the agent, so you can try them by hand.
    """
    import shlex

    from cpugpu_tui.cli.fleet.running import HostsRequest
    from cpugpu_tui.cli.output.table_style import console, table_of
    from cpugpu_tui.machine.text import printable
    from cpugpu_tui.transport.launchers import launch_argv, shell_line

    asked = HostsRequest(file=hosts, names=tuple(host_names or ()), launcher=launcher, python=node_python)
    if json:
        for host in asked.hosts():
            print_json({**vars(host), "argv": launch_argv(host, shell_line(host, (), 0))})
        return
    # Quoted, to be tried by hand. `true` replaces the agent's code, which has thousands of characters.
    rows = [
        (host.host, host.launcher, host.python, " && ".join(host.pre), ", ".join(host.tags),
         shlex.join(launch_argv(host, "true")))
        for host in asked.hosts()
    ]  # fmt: skip
    heads = ("host", "launcher", "python", "before it", "tags", "command")
    console().print(table_of(heads, ([printable(cell, LONGEST_CELL) for cell in row] for row in rows)))
