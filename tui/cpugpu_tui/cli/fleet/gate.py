"""`cpugpu-tui fleet gate`: a series on every host, each GPU compared with the baseline of its model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cpugpu_tui.cli import options as opt
from cpugpu_tui.errors import EXIT_UNFIT, UsageError

if TYPE_CHECKING:
    from cpugpu_tui.cli.compare.gate_request import GateRequest
    from cpugpu_tui.compare.series import Series
    from cpugpu_tui.model import Plan

commands = typer.Typer()


@commands.command()
def gate(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PRESET|WORKLOAD", help="Presets or workloads to run.", show_default="the first baseline's plan"
        ),
    ] = None,
    hosts: opt.HostsFile = None,
    host_names: opt.HostNames = None,
    launcher: opt.LauncherName = None,
    node_python: opt.NodePython = None,
    baseline_names: Annotated[
        list[str] | None,
        typer.Option(
            "--baseline", metavar="SERIES", help="Baseline for GPUs of the same model. Repeatable.", show_default="main"
        ),
    ] = None,
    max_slowdown: opt.MaxSlowdown = "5%",
    repeat: Annotated[
        int,
        typer.Option(
            parser=opt.whole_number,
            callback=opt.in_range(1),
            metavar="COUNT",
            help="Number of runs on each host. A verdict needs at least 5.",
        ),
    ] = 5,
    start_timeout: opt.StartTimeout = 120.0,
    at_once: opt.AtOnce = 128,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write JUnit XML to this file, one suite per GPU.")
    ] = None,
    summary: opt.Summary = None,
    json: opt.Json = False,
    database: opt.Database = None,
    no_save: opt.NoSave = False,
    case_timeout: opt.CaseTimeout = None,
    simulate: opt.Simulate = None,
) -> None:
    """Run a series on every host and judge each GPU.

    Each GPU is compared with the baseline of its model.
    Exit code: 0 passed, 1 a GPU is slower, 3 a case failed, 4 undecided.
    """
    from cpugpu_tui.cli.compare.gate_report import fleet_junit, fleet_markdown, print_fleet_gate
    from cpugpu_tui.cli.compare.gate_request import EXIT_CODES, LIMITS, GateRequest, check_enough_runs
    from cpugpu_tui.cli.fleet.running import HostsRequest, Run, run_to_the_end
    from cpugpu_tui.cli.history.past_runs import series_in
    from cpugpu_tui.cli.running.options import RunOptions, simulation
    from cpugpu_tui.cli.running.saving import Outputs, save_rest, saving, say_remark
    from cpugpu_tui.compare.gate import judge_fleet
    from cpugpu_tui.config.parsing import parse_bands
    from cpugpu_tui.session.fleet_running import Fleet
    from cpugpu_tui.session.fleet_state import FleetState

    request = GateRequest(
        names=tuple(names or ()), baselines=tuple(baseline_names or ["main"]), limits=parse_bands(max_slowdown, LIMITS),
        repeat=repeat, junit=junit, summary=summary, case_timeout_s=case_timeout, simulation=simulation(simulate),
    )  # fmt: skip
    asked = HostsRequest(
        file=hosts, names=tuple(host_names or ()), launcher=launcher, python=node_python,
        start_timeout_s=start_timeout, at_once=at_once,
    )  # fmt: skip
    baselines = [series_in(name, database) for name in request.baselines]
    check_enough_runs(*baselines)
    plan = asked.plan(_plan(request, baselines), repeat, case_timeout)
    with saving(RunOptions(database=database, save=not no_save)) as outbox:
        fleet, run = Fleet(plan, outbox), Run(FleetState.of(plan.hosts), Outputs())
        run_to_the_end(fleet, run)
        say_remark(outbox)
        found = judge_fleet(run.state, baselines, request.limits)
        print_fleet_gate(found, as_json=json)
        request.write(fleet_junit(found), fleet_markdown(found))
        code = EXIT_CODES.get(found.verdict, EXIT_UNFIT)
        code = save_rest(outbox, fleet.signal_exit or run.state.exit_code if fleet.stopping else code)
    raise typer.Exit(code)


def _plan(request: GateRequest, baselines: list[Series]) -> Plan:
    """Return the plan for every GPU of a host: the first baseline's, or one of the named presets."""
    from dataclasses import replace

    from cpugpu_tui.cli.compare.gate_request import gate_plan
    from cpugpu_tui.config import config
    from cpugpu_tui.session.own_workloads import OwnWorkloads

    plan = gate_plan(request, baselines[0], OwnWorkloads(presets=config.load().presets))
    mixed = [series for series in baselines if series.runs[0].simulated != (plan.simulation is not None)]
    if mixed:
        raise UsageError(
            f"Cannot compare {mixed[0].text} with the new runs: only one side is simulated.",
            "Use a baseline of the same kind.",
        )
    return replace(plan, devices=("all",))
