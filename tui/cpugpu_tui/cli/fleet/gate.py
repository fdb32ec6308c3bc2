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


class FleetGateGiven(opt.Given):
    """The options of `fleet gate`."""

    names: Annotated[list[str] | None, opt.names_of("the first baseline's plan")] = None
    baseline_names: Annotated[list[str] | None, opt.option(
        "SERIES", "Baseline for GPUs of the same model. Repeatable.", "--baseline", usual="main"
    )] = None  # fmt: skip
    repeat: Annotated[int, opt.count_of(
        "Number of runs on each host. A verdict needs at least 5.", check=opt.in_range(1)
    )] = 5  # fmt: skip
    junit: Annotated[Path | None, opt.option("FILE", "Write JUnit XML to this file, one suite per GPU.")] = None


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
    from cpugpu_tui.cli.compare.gate_report import fleet_junit, fleet_markdown, print_fleet_gate
    from cpugpu_tui.cli.compare.gate_request import EXIT_CODES, LIMITS, GateRequest, check_enough_runs
    from cpugpu_tui.cli.fleet.running import HostsRequest, Run, run_to_the_end
    from cpugpu_tui.cli.past_runs import series_in
    from cpugpu_tui.cli.running.saving import Outputs, save_rest, saving, say_remark
    from cpugpu_tui.compare.gate import judge_fleet
    from cpugpu_tui.config.parsing import parse_bands
    from cpugpu_tui.session.fleet_running import Fleet
    from cpugpu_tui.session.fleet_state import FleetState

    request = GateRequest(
        names=tuple(given.names or ()), baselines=tuple(given.baseline_names or ["main"]),
        limits=parse_bands(given.max_slowdown, LIMITS), repeat=given.repeat, junit=given.junit, summary=given.summary,
        case_timeout_s=given.case_timeout, simulation=given.simulation,
    )  # fmt: skip
    baselines = [series_in(name, given.database) for name in request.baselines]
    check_enough_runs(*baselines)
    plan = HostsRequest.of(given).plan(_plan(request, baselines), given.repeat, given.case_timeout)
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
