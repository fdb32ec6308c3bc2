"""`cpugpu-tui fleet gate`: a series on every host, each GPU judged against a baseline of its model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from cpugpu_tui.analysis.change_words import judged_text, percent_text
from cpugpu_tui.cli.export import Outputs
from cpugpu_tui.cli.fleet import Asked, Run, hosts_asked, run_to_the_end
from cpugpu_tui.cli.fleet_table import hosts_table, trouble_lines
from cpugpu_tui.cli.gate import (
    EXIT_CODES,
    GateRequest,
    check_enough_runs,
    check_reports,
    gate_plan,
    parse_percent,
)
from cpugpu_tui.cli.gate_report import GateReport, junit, report_data
from cpugpu_tui.cli.history import say_remark
from cpugpu_tui.cli.listing import print_json
from cpugpu_tui.cli.options import RunOptions
from cpugpu_tui.cli.run import facts
from cpugpu_tui.cli.saving import remark_of, save_rest, saving
from cpugpu_tui.cli.tables import add_columns, console, new_table, plain
from cpugpu_tui.compare.comparison import Series
from cpugpu_tui.compare.fleet_gating import FleetGate, GpuGate, judge_fleet
from cpugpu_tui.compare.naming import series_in
from cpugpu_tui.config import config
from cpugpu_tui.errors import EXIT_UNFIT, UsageError, print_notice
from cpugpu_tui.export import target
from cpugpu_tui.export.markdown import escaped
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import Simulation
from cpugpu_tui.render.fleet_rows import host_data
from cpugpu_tui.session.fleet.running import Fleet, FleetPlan
from cpugpu_tui.session.fleet.state import FleetState
from cpugpu_tui.session.own import Own
from cpugpu_tui.transport.launchers import with_resources

COLUMNS = ("host", "GPU", "model", "baseline", "worst case", "change", "outcome")


@dataclass(frozen=True)
class FleetGateRequest:
    """What a person asked the gate of a fleet."""

    names: tuple[str, ...]
    """Presets and workloads; empty for the first baseline's own plan."""
    baselines: tuple[str, ...]
    """Each is for the GPUs of its model."""
    max_slowdown: str
    """`5%`."""
    repeat: int
    junit: Path | None = None
    summary: Path | None = None
    case_timeout_s: float | None = None
    simulation: Simulation | None = None


def run_fleet_gate(request: FleetGateRequest, asked: Asked, options: RunOptions, *, as_json: bool) -> int:
    """Run the series and return the exit code: 1 a GPU is slower, 3 a host or case failed, 4 undecided, 130 stopped.

    Raises:
        UsageError: limit, hosts or a name are wrong, or a report cannot be written where it is wanted.
        StoreError: the history cannot be read.
    """
    limit = parse_percent(request.max_slowdown)
    check_reports(request.junit, request.summary)
    baselines = [series_in(name, options.database, say_remark) for name in request.baselines]
    check_enough_runs(request.repeat, *baselines)
    plan = _plan(request, asked, baselines)
    with saving(options) as outbox:
        fleet, run = Fleet(plan, outbox), Run(FleetState.of(plan.hosts), Outputs())
        run_to_the_end(fleet, run)
        if remark := remark_of(outbox):
            print_notice(remark)
        return save_rest(outbox, _judge(request, baselines, limit, fleet, run, as_json=as_json))


def _judge(
    request: FleetGateRequest, baselines: list[Series], limit: float, fleet: Fleet, run: Run, *, as_json: bool
) -> int:
    """Print what came of it, write the reports, and return the exit code."""
    gate = judge_fleet(run.state, baselines, limit)
    _print(gate, as_json=as_json)
    if request.junit is not None:
        target.write(request.junit, [fleet_junit(gate)])
    if request.summary is not None:
        target.write(request.summary, [fleet_markdown(gate)])
    if fleet.stopping:
        return fleet.signal_exit or run.state.exit_code
    return EXIT_CODES.get(gate.verdict, EXIT_UNFIT)


def _plan(request: FleetGateRequest, asked: Asked, baselines: list[Series]) -> FleetPlan:
    """Return the series: the first baseline's plan, or what was named, on every GPU of every host."""
    first = baselines[0]
    told = GateRequest(
        request.names, request.baselines[0], request.max_slowdown, request.repeat, None, None, None, True,
        request.case_timeout_s, request.simulation,
    )  # fmt: skip
    plan = gate_plan(told, first, Own(presets=config.load().presets))
    mixed = [series for series in baselines if series.runs[0].simulated != (plan.simulation is not None)]
    if mixed:
        raise UsageError(
            f"Of {mixed[0].text} and what is to be run one is made up, and one is not.", "Compare like with like."
        )
    return FleetPlan(
        with_resources(hosts_asked(asked)), replace(plan, devices=("all",)), request.repeat, request.case_timeout_s,
        asked.start_timeout_s, asked.at_once, facts(),
    )  # fmt: skip


def cells(each: GpuGate) -> tuple[str, ...]:
    """Return one line of the table."""
    worst, base = each.worst, each.baseline
    change = "–" if worst is None or worst.change is None else percent_text(worst.change.ratio)
    outcome = f"{each.outcome}: {each.trouble}" if each.trouble else each.outcome
    if worst is not None and not each.trouble and worst.why and each.outcome == worst.outcome:
        outcome = f"{outcome}: {worst.why}"
    return (
        each.host, each.device.removeprefix("cuda:"), each.model, "–" if base is None else base.text,
        "–" if worst is None else judged_text(worst.judged), change, outcome,
    )  # fmt: skip


def _print(gate: FleetGate, *, as_json: bool) -> None:
    if as_json:
        print_json(gate_data(gate))
        return
    out = console()
    if any(each.run.simulated for each in gate.state.hosts.values()):
        out.print("SIMULATED: no number here was measured.")
    if gate.gpus:
        table = new_table()
        add_columns(table, *COLUMNS[:-2])
        add_columns(table, COLUMNS[-2], justify="right")
        add_columns(table, COLUMNS[-1])
        for each in gate.gpus:
            table.add_row(*(plain(printable(text)) for text in cells(each)))
        out.print(table)
    out.print(hosts_table(gate.state))
    for line in (*trouble_lines(gate.state), gate.sentence):
        out.print(plain(line), soft_wrap=True)


def gate_data(gate: FleetGate) -> dict[str, Any]:
    """Return it all as JSON values."""
    return {
        "event": "FleetGate", "limit": gate.limit, "verdict": gate.verdict, "says": gate.sentence,
        "hosts": [host_data(each) for each in gate.state.hosts.values()],
        "gpus": [_gpu_data(each, gate.limit) for each in gate.gpus],
    }  # fmt: skip


def _gpu_data(each: GpuGate, limit: float) -> dict[str, Any]:
    told = {
        "host": each.host, "device": each.device, "model": each.model, "outcome": each.outcome,
        "baseline": None if each.baseline is None else each.baseline.text, "trouble": each.trouble or None,
    }  # fmt: skip
    found = {} if each.found is None else report_data(GateReport(each.found, each.gated, limit))
    return {**told, "verdicts": found.get("verdicts", [])}


def fleet_junit(gate: FleetGate) -> bytes:
    """Return JUnit XML: a suite for each GPU, as the gate of one machine has it, and one test for each host."""
    suites = ElementTree.Element("testsuites", {"name": "cpugpu-tui fleet gate"})
    hosts = ElementTree.SubElement(
        suites, "testsuite", name="hosts", tests=str(len(gate.state.hosts)), errors=str(len(gate.state.troubled))
    )
    for state in gate.state.hosts.values():
        test = ElementTree.SubElement(hosts, "testcase", classname="cpugpu-tui.host", name=printable(state.host.host))
        if state.in_trouble:
            ElementTree.SubElement(test, "error", message=printable(state.why), type=state.state)
    for each in gate.gpus:
        if each.found is not None:
            suite = ElementTree.fromstring(junit(GateReport(each.found, each.gated, gate.limit)))
            suite.set("name", printable(each.name))
        else:
            suite = ElementTree.Element("testsuite", {"name": printable(each.name), "tests": "1", "errors": "1"})
            test = ElementTree.SubElement(suite, "testcase", classname="cpugpu-tui.GPU", name=printable(each.name))
            ElementTree.SubElement(test, "error", message=printable(each.trouble), type=each.outcome)
        suites.append(suite)
    ElementTree.indent(suites)
    return bytes(ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)) + b"\n"


def fleet_markdown(gate: FleetGate) -> bytes:
    """Return a summary in Markdown: the sentence, each GPU, each host in trouble."""
    lines = [f"## {escaped(gate.sentence)}", "", f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS)]
    lines += [f"| {' | '.join(escaped(printable(text)) for text in cells(each))} |" for each in gate.gpus]
    lines += ["", *(f"- {escaped(printable(line, 1000))}" for line in trouble_lines(gate.state))]
    return "\n".join([*lines, ""]).encode()
