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
from cpugpu_tui.errors import UsageError, print_notice

if TYPE_CHECKING:
    from cpugpu_tui.cli.fleet.running import HostsRequest, Run
    from cpugpu_tui.cli.running.options import RunOptions
    from cpugpu_tui.cli.running.saving import Outputs
    from cpugpu_tui.model import OwnCode
    from cpugpu_tui.session.fleet_running import Fleet
    from cpugpu_tui.session.request import PlanRequest


class FleetGiven(opt.Given):
    """The options of `fleet run`. Config and environment name devices and folders of this machine, not of a host."""

    node_device: Annotated[list[str] | None, opt.option(
        "DEVICE", "cpu, cuda or cuda:N. Repeatable.", "--device", usual="the CPU and every GPU of a host"
    )] = None  # fmt: skip
    node_mnist: Annotated[str | None, opt.option(
        "DIR", "Folder on the hosts with your own MNIST idx files.", "--mnist"
    )] = None  # fmt: skip
    max_seconds: Annotated[float | None, opt.seconds(
        "Time limit of each host, from the moment when its agent is ready. The call in progress then ends, and cases"
        " without a complete round are skipped. The runs of --repeat get equal shares of the time.", usual="no limit",
    )] = None  # fmt: skip
    tui: Annotated[bool, opt.flag(
        "--tui", "Show the hosts live in the app, and print the tables at the end."
    )] = False  # fmt: skip


LONGEST_CELL = 10_000
"""Maximum length of a printed command of `fleet hosts`."""

commands = typer.Typer()


@opt.takes(
    commands.command(), FleetGiven,
    "names setup let in_place hosts host_names launcher node_python size node_device dtype threads variant "
    "find_crossover max_size full rounds repeat max_seconds case_timeout start_timeout at_once energy cache scale "
    "node_mnist json database no_save simulate export tui theme mouse",
)  # fmt: skip
def run(given: FleetGiven) -> None:
    """Run presets or workloads on every GPU of every host.

    The result is one table. The history saves a run for each host. FILE.py:FUNCTION, or an expression with --setup or
    --let, is timed as in `time`: its files are sent to the hosts and removed at the end.
    """
    from cpugpu_tui.cli.fleet.running import HostsRequest
    from cpugpu_tui.cli.running.saving import Outputs
    from cpugpu_tui.session.own_workloads import OwnWorkloads

    codes = typed_codes(given)
    request = given.request(
        names=tuple(code.name for code in codes) or tuple(given.names or ["quick"]), mnist=given.node_mnist,
        devices=tuple(given.node_device or ["auto"]), own=OwnWorkloads(codes=codes),
    )  # fmt: skip
    show = _in_the_app(given.theme, mouse=given.mouse) if given.tui and not given.json else None
    asked, outputs = HostsRequest.of(given), Outputs.of(given)
    raise typer.Exit(_run_fleet(request, asked, given.run_options(), outputs, show, as_json=given.json))


def typed_codes(given: FleetGiven) -> tuple[OwnCode, ...]:
    """Return the code among the names, once for each combination of parameters; nothing without any.

    Raises:
        UsageError: it stands beside other names, or is no Python.
    """
    from cpugpu_tui.session.typed_code import parameters
    from cpugpu_tui.workloads.code_target import parse_target
    from cpugpu_tui.workloads.own_code import own_code

    options, names = bool(given.setup or given.let or given.in_place), given.names or []
    if not options and not any(map(parse_target, names)):
        return ()
    if len(names) != 1:
        raise UsageError("Code is timed alone.", "Name one FILE.py:FUNCTION or expression, and no preset.")
    setup = "\n".join(given.setup or ())
    return tuple(own_code(names[0], setup, lets, in_place=given.in_place) for lets in parameters(given.let or ()))


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
    from cpugpu_tui.session.fleet_running import Fleet
    from cpugpu_tui.session.fleet_state import FleetState
    from cpugpu_tui.session.planning import build_plan
    from cpugpu_tui.session.sent_files import announced

    with failure_as_event(as_json=as_json):
        plan = build_plan(replace(request, own=request.own._replace(presets=config.load().presets)))
        plan = replace(plan, devices=("all",)) if request.devices == ("auto",) else plan
        fleet_plan = asked.plan(plan, request.repeat, request.case_timeout_s)
        fleet_plan = replace(fleet_plan, files=announced(plan.codes, fleet_plan.hosts, print_notice))
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


@opt.takes(commands.command("hosts"), opt.Given, "hosts host_names launcher node_python json")
def list_hosts(given: opt.Given) -> None:
    """List the hosts and the command that reaches each.

    Nothing is started. The commands run `true` instead of the agent, so you can try them by hand.
    """
    import shlex

    from cpugpu_tui.cli.fleet.running import HostsRequest
    from cpugpu_tui.cli.output.table_style import console, table_of
    from cpugpu_tui.machine.text import printable
    from cpugpu_tui.transport.launchers import launch_argv, shell_line

    asked = HostsRequest.of(given)
    if given.json:
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
