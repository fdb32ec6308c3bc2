"""The result of a fleet's gate as tables, JSON, JUnit XML and Markdown."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from cpugpu_tui.cli.compare.gate_report import junit, report_data
from cpugpu_tui.cli.fleet.running import hosts_table, trouble_lines
from cpugpu_tui.cli.output.json_lines import print_json
from cpugpu_tui.cli.output.table_style import add_columns, console, new_table, plain
from cpugpu_tui.compare.gate import FleetGate, GpuGate
from cpugpu_tui.export.markdown import escaped
from cpugpu_tui.machine.text import printable
from cpugpu_tui.render.comparison import fleet_gate_sentence, judged_text, percent_text
from cpugpu_tui.render.fleet import host_data

COLUMNS = ("host", "GPU", "model", "baseline", "worst case", "change", "outcome")


def cells(each: GpuGate) -> tuple[str, ...]:
    """Return the cells of a GPU's row."""
    worst, base = each.worst, each.baseline
    change = "–" if worst is None or worst.change is None else percent_text(worst.change.ratio)
    outcome = f"{each.outcome}: {each.trouble}" if each.trouble else each.outcome
    if worst is not None and not each.trouble and worst.why and each.outcome == worst.outcome:
        outcome = f"{outcome}: {worst.why}"
    return (
        each.host, each.device.removeprefix("cuda:"), each.model, "–" if base is None else base.text,
        "–" if worst is None else judged_text(worst.judged), change, outcome,
    )  # fmt: skip


def print_fleet_gate(gate: FleetGate, *, as_json: bool) -> None:
    """Print each GPU, each host, the reasons of hosts that failed, and the result."""
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
    for line in (*trouble_lines(gate.state), fleet_gate_sentence(gate)):
        out.print(plain(line), soft_wrap=True)


def gate_data(gate: FleetGate) -> dict[str, Any]:
    """Return the result as JSON values."""
    return {
        "event": "FleetGate", "limit": gate.limit, "verdict": gate.verdict, "says": fleet_gate_sentence(gate),
        "hosts": [host_data(each) for each in gate.state.hosts.values()],
        "gpus": [_gpu_data(each) for each in gate.gpus],
    }  # fmt: skip


def _gpu_data(each: GpuGate) -> dict[str, Any]:
    data = {
        "host": each.host, "device": each.device, "model": each.model, "outcome": each.outcome,
        "baseline": None if each.baseline is None else each.baseline.text, "trouble": each.trouble or None,
    }  # fmt: skip
    found = {} if each.report is None else report_data(each.report)
    return {**data, "verdicts": found.get("verdicts", [])}


def fleet_junit(gate: FleetGate) -> bytes:
    """Return JUnit XML: a suite per GPU, as for one machine, and a suite with one test per host."""
    suites = ElementTree.Element("testsuites", {"name": "cpugpu-tui fleet gate"})
    hosts = ElementTree.SubElement(
        suites, "testsuite", name="hosts", tests=str(len(gate.state.hosts)), errors=str(len(gate.state.troubled))
    )
    for state in gate.state.hosts.values():
        test = ElementTree.SubElement(hosts, "testcase", classname="cpugpu-tui.host", name=printable(state.host.host))
        if state.in_trouble:
            ElementTree.SubElement(test, "error", message=printable(state.why), type=state.state)
    for each in gate.gpus:
        if each.report is not None:
            suite = ElementTree.fromstring(junit(each.report))
            suite.set("name", printable(each.name))
        else:
            suite = ElementTree.Element("testsuite", {"name": printable(each.name), "tests": "1", "errors": "1"})
            test = ElementTree.SubElement(suite, "testcase", classname="cpugpu-tui.GPU", name=printable(each.name))
            ElementTree.SubElement(test, "error", message=printable(each.trouble), type=each.outcome)
        suites.append(suite)
    ElementTree.indent(suites)
    return bytes(ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)) + b"\n"


def fleet_markdown(gate: FleetGate) -> bytes:
    """Return a summary in Markdown: the result, each GPU, each host that failed."""
    lines = [f"## {escaped(fleet_gate_sentence(gate))}", "", f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS)]
    lines += [f"| {' | '.join(escaped(printable(text)) for text in cells(each))} |" for each in gate.gpus]
    lines += ["", *(f"- {escaped(printable(line, 1000))}" for line in trouble_lines(gate.state))]
    return "\n".join([*lines, ""]).encode()
