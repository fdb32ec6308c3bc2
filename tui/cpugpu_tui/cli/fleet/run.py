"""`cpugpu-tui fleet run`: the same plan on every host, as one table, as JSON lines, or live in the app.

Also `fleet hosts`: the hosts and the command that reaches each. And `fleet gate`: a series on every host, each GPU
compared with the baseline of its model.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cpugpu_tui.cli import options as opt
from cpugpu_tui.cli.output.printing import failure_as_event, print_json, print_line
from cpugpu_tui.config import load_config
from cpugpu_tui.config.parsing import parse_bands
from cpugpu_tui.errors import EXIT_UNFIT, UsageError, print_notice
from cpugpu_tui.machine.text import printable

if TYPE_CHECKING:
    from cpugpu_tui.cli.fleet.running import Run
    from cpugpu_tui.cli.running.gate import GateRequest
    from cpugpu_tui.compare.series import Series
    from cpugpu_tui.model import OwnCode, Plan
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
    tui: Annotated[bool, opt.flag("--tui", "Show the hosts live in the app, and print the tables at the end.")] = False


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
    from cpugpu_tui.session.own_workloads import OwnWorkloads

    codes = _codes(given)
    request = given.request(
        names=tuple(code.name for code in codes) or tuple(given.names or ["quick"]), mnist=given.node_mnist,
        devices=tuple(given.node_device or ["auto"]), own=OwnWorkloads(codes=codes),
    )  # fmt: skip
    raise typer.Exit(_run_fleet(given, request))


def _codes(given: FleetGiven) -> tuple[OwnCode, ...]:
    """Return the code among the names, once for each combination of parameters; nothing without any.

    Raises:
        UsageError: it stands beside other names, or is no Python.
    """
    from cpugpu_tui.cli.time import typed_codes
    from cpugpu_tui.session.typed_code import check_use_of_lets
    from cpugpu_tui.workloads.code_target import parse_target

    options, names = bool(given.setup or given.let or given.in_place), given.names or []
    if not options and not any(map(parse_target, names)):
        return ()
    if len(names) != 1:
        raise UsageError("Code is timed alone.", "Name one FILE.py:FUNCTION or expression, and no preset.")
    codes = typed_codes(names[0], "\n".join(given.setup or ()), given.let or (), None, in_place=given.in_place)
    check_use_of_lets(codes[:1])
    return codes


def _in_the_app(theme: str | None, *, mouse: bool) -> Callable[[Fleet, Run], None]:
    """Return a function that runs a fleet and shows it in the app."""
    from cpugpu_tui.config import paths
    from cpugpu_tui.ui.app_state import FleetOptions
    from cpugpu_tui.ui.keys import keymap_of
    from cpugpu_tui.ui.start import run_fleet_app

    looks = FleetOptions(theme, paths.config_dir(), keymap_of(load_config().keys), mouse)
    return lambda fleet, run: run_fleet_app(fleet, run.state, run.take, looks)


def _run_fleet(given: FleetGiven, request: PlanRequest) -> int:
    """Run a request on every host and return the exit code: 3 if a host or a case failed, 130 if it was stopped.

    With --tui the app shows it, otherwise a line of progress.

    Raises:
        CpuGpuError: request, hosts or terminal cannot be used. With `--json` it is also printed as a `RunFinished`.
    """
    from cpugpu_tui.cli.fleet.running import Run, fleet_plan, print_fleet, run_to_the_end
    from cpugpu_tui.cli.running.saving import Outputs, save_rest, saving, say_remark
    from cpugpu_tui.render.fleet import host_data
    from cpugpu_tui.session.code_files import announced
    from cpugpu_tui.session.fleet_running import Fleet
    from cpugpu_tui.session.fleet_state import FleetState
    from cpugpu_tui.session.planning import build_plan
    from cpugpu_tui.store import with_saved_peaks

    show = _in_the_app(given.theme, mouse=given.mouse) if given.tui and not given.json else None
    outputs, options = Outputs.of(given), given.run_options()
    with failure_as_event(as_json=given.json):
        plan = build_plan(request._replace(own=request.own._replace(presets=load_config().presets)))
        plan = with_saved_peaks(plan, options.database, save=options.save)
        asked = fleet_plan(given, replace(plan, devices=("all",)) if request.devices == ("auto",) else plan)
        asked = replace(asked, files=announced(plan.codes, asked.hosts, print_notice))
        outputs.check()
    with saving(options) as outbox:
        fleet, run = Fleet(asked, outbox), Run(FleetState.of(asked.hosts), outputs, given.json)
        (show or run_to_the_end)(fleet, run)
        if show is not None and fleet.signal_exit:
            return save_rest(outbox, fleet.signal_exit)  # the terminal may be gone
        say_remark(outbox)
        code = save_rest(outbox, fleet.signal_exit or run.state.exit_code)
    if given.json:
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
    from cpugpu_tui.cli.fleet.running import named_hosts
    from cpugpu_tui.cli.output.table_style import console, table_of
    from cpugpu_tui.transport.launchers import launch_argv, shell_line

    hosts = named_hosts(given, given.node_python)
    if given.json:
        for host in hosts:
            print_json({**vars(host), "argv": launch_argv(host, shell_line(host, (), 0))})
        return
    # Quoted, to be tried by hand. `true` replaces the agent's code, which has thousands of characters.
    rows = [
        (host.host, host.launcher, host.python, " && ".join(host.pre), ", ".join(host.tags),
         shlex.join(launch_argv(host, "true")))
        for host in hosts
    ]  # fmt: skip
    heads = ("host", "launcher", "python", "before it", "tags", "command")
    console().print(table_of(heads, ([printable(cell, LONGEST_CELL) for cell in row] for row in rows)))


# ------------------------------------------------------------------ gate


class FleetGateGiven(opt.Given):
    """The options of `fleet gate`."""

    names: Annotated[list[str] | None, opt.names_of("the first baseline's plan")] = None
    baseline_names: Annotated[list[str] | None, opt.option(
        "SERIES", "Baseline for GPUs of the same model. Repeatable.", "--baseline", usual="main"
    )] = None  # fmt: skip
    repeat: Annotated[int, opt.count_of(
        "Number of runs on each host. A verdict needs at least 5.", check=opt.in_range(1)
    )] = 5  # fmt: skip
    junit: Annotated[Path | None, opt.file_of("Write JUnit XML to this file, one suite per GPU.")] = None


@opt.takes(
    commands.command(), FleetGateGiven,
    "names hosts host_names launcher node_python baseline_names max_slowdown repeat start_timeout at_once junit "
    "summary json database no_save case_timeout simulate",
)  # fmt: skip
def gate(given: FleetGateGiven) -> None:
    """Run a series on every host and judge each GPU.

    Each GPU is compared with the baseline of its model.
    Exit code: 0 passed, 1 a GPU is slower, 3 a case failed, 4 undecided.
    """
    from cpugpu_tui.cli.fleet.running import Run, fleet_plan, run_to_the_end
    from cpugpu_tui.cli.output.gate_report import fleet_junit, fleet_markdown, print_fleet_gate
    from cpugpu_tui.cli.past_runs import series_in
    from cpugpu_tui.cli.running.gate import EXIT_CODES, LIMITS, GateRequest, check_enough_runs
    from cpugpu_tui.cli.running.saving import Outputs, save_rest, saving, say_remark
    from cpugpu_tui.compare.gate import judge_fleet
    from cpugpu_tui.session.fleet_running import Fleet
    from cpugpu_tui.session.fleet_state import FleetState

    request = GateRequest(
        names=tuple(given.names or ()), baselines=tuple(given.baseline_names or ["main"]),
        limits=parse_bands(given.max_slowdown, LIMITS), repeat=given.repeat, junit=given.junit, summary=given.summary,
        case_timeout_s=given.case_timeout, simulation=given.simulation,
    )  # fmt: skip
    baselines = [series_in(name, given.database) for name in request.baselines]
    check_enough_runs(*baselines)
    plan = fleet_plan(given, _plan(request, baselines))
    with saving(given.run_options()) as outbox:
        fleet, run = Fleet(plan, outbox), Run(FleetState.of(plan.hosts), Outputs())
        run_to_the_end(fleet, run)
        say_remark(outbox)
        found = judge_fleet(run.state, baselines, request.limits)
        print_fleet_gate(found, as_json=given.json)
        request.write(fleet_junit(found), fleet_markdown(found))
        code = EXIT_CODES.get(found.verdict, EXIT_UNFIT)
        code = save_rest(outbox, fleet.signal_exit or run.state.exit_code if fleet.stopping else code)
    raise typer.Exit(code)


def _plan(request: GateRequest, baselines: list[Series]) -> Plan:
    """Return the plan for every GPU of a host: the first baseline's, or one of the named presets."""
    from cpugpu_tui.cli.running.gate import gate_plan
    from cpugpu_tui.session.own_workloads import OwnWorkloads

    plan = gate_plan(request, baselines[0], OwnWorkloads(presets=load_config().presets))
    mixed = [series for series in baselines if series.runs[0].simulated != (plan.simulation is not None)]
    if mixed:
        raise UsageError(
            f"Cannot compare {mixed[0].text} with the new runs: only one side is simulated.",
            "Use a baseline of the same kind.",
        )
    return replace(plan, devices=("all",))
