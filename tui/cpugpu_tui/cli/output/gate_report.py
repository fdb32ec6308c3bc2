"""The result of a gate, of one machine or of a fleet, as tables, JSON, JUnit XML and Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import geometric_mean
from typing import Any
from xml.etree import ElementTree

from cpugpu_tui.analysis.compare import FAILED, NOT_JUDGED, PASSED, SLOWER, Gated
from cpugpu_tui.cli.fleet.running import hosts_table, trouble_lines
from cpugpu_tui.cli.output.printing import print_json, print_lines
from cpugpu_tui.cli.output.table_style import console, table_of
from cpugpu_tui.cli.output.tables import differences_table
from cpugpu_tui.compare.gate import FleetGate, GateReport, GpuGate
from cpugpu_tui.compare.in_turn import Played
from cpugpu_tui.export.markdown import escaped
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import DEVICE, LATENCY
from cpugpu_tui.render import comparison as words
from cpugpu_tui.render.fleet import host_data
from cpugpu_tui.render.gpus import SIMULATED, simulated_words


def _cells(each: Gated) -> tuple[str, ...]:
    found = words.gated_cells(each)
    return tuple(found[name] for name in words.GATED)


def print_report(report: GateReport, *, as_json: bool, duet: Played | None = None) -> None:
    """Print the report on stdout, and how long a duet took."""
    if as_json:
        print_json(report_data(report) | ({"duet": duet.data} if duet is not None else {}))
        return
    found, out = report.found, console()
    print_lines(out, [words.against(found)])
    if found.differences:
        out.print(differences_table(found.differences))
    rows = (map(printable, _cells(each)) for each in report.gated)
    out.print(table_of([(name, name in words.WORDS) for name in words.GATED], rows))
    means = (words.mean_text(label, mean) for label, mean in found.means.items())
    lines = [
        *words.gate_confidence_lines(report.gated),
        *means,
        *words.placebo_lines(found),
        words.gate_sentence(report),
    ]
    print_lines(out, lines)
    print_lines(out, [duet.text] if duet is not None else [])


def report_data(report: GateReport) -> dict[str, Any]:
    """Return the report as JSON values."""
    data = words.comparison_data(report.found)
    data |= {
        "event": "Gate", "limit": report.limits[LATENCY], "verdict": report.verdict,
        "says": words.gate_sentence(report),
    }  # fmt: skip
    data["verdicts"] = [
        {**words.judged_data(each.judged), "verdict": each.outcome, "why": each.why or None,
         "at_least": each.change.low if each.change else None, "at_most": each.change.high if each.change else None}
        for each in report.gated
    ]  # fmt: skip
    return data


# ------------------------------------------------------------------ for CI


def junit(report: GateReport) -> bytes:
    """Return JUnit XML with one test per verdict: slower is a failure, undecided an error."""
    counts = Counter(_junit_kind(each) for each in report.gated)
    numbers = {"tests": len(report.gated), "failures": counts["failure"], "errors": counts["error"]}
    numbers["skipped"] = counts["skipped"]
    suite = ElementTree.Element("testsuite", {"name": "cpugpu-tui gate"} | {k: str(v) for k, v in numbers.items()})
    properties = ElementTree.SubElement(suite, "properties")
    data = [("base", words.series_text(report.found.base)), ("new", words.series_text(report.found.new))]
    data += [(each.what, f"{each.base} -> {each.new}") for each in report.found.differences]
    for name, value in data:
        ElementTree.SubElement(properties, "property", name=printable(name), value=printable(value))
    for each in report.gated:
        _add_test(suite, each)
    simulated = simulated_words(report.found.base.runs[0])
    ElementTree.SubElement(suite, "system-out").text = f"{simulated}{words.gate_sentence(report)}"
    ElementTree.indent(suite)
    return bytes(ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)) + b"\n"


def _junit_kind(each: Gated) -> str:
    return {PASSED: "", SLOWER: "failure", FAILED: "failure", NOT_JUDGED: "skipped"}.get(each.outcome, "error")


def _add_test(suite: ElementTree.Element, each: Gated) -> None:
    times_ns = each.judged.pairs[0].new_ns.values()
    seconds = geometric_mean(times_ns) / 1e9 if times_ns else 0.0  # as in the table
    test = ElementTree.SubElement(
        suite, "testcase", classname=f"cpugpu-tui.{each.judged.label}",
        name=printable(words.judged_text(each.judged)), time=f"{seconds:.9f}",
    )  # fmt: skip
    kind = _junit_kind(each)
    if kind:
        _, _, base, new, change, at_least, at_most, runs, outcome = _cells(each)
        message = f"{outcome}: {change} (base {base}, new {new}, {at_least} to {at_most}, runs {runs})"
        ElementTree.SubElement(test, kind, message=printable(message), type=each.outcome)


def markdown(report: GateReport) -> bytes:
    """Return a summary in Markdown: the result, the differences, the verdicts."""
    found = report.found
    lines = [f"## {escaped(words.gate_sentence(report))}", "", escaped(words.against(found)), ""]
    if found.differences:
        rows = [(each.what, each.base, each.new) for each in found.differences]
        lines += [*_markdown_table(("differs", "base", "new"), rows), ""]
    lines += [*_markdown_table(words.GATED, [_cells(each) for each in report.gated]), ""]
    lines += [f"- {escaped(line)}" for line in words.gate_confidence_lines(report.gated)]
    lines += [f"- {escaped(words.mean_text(label, mean))}" for label, mean in found.means.items()]
    lines += [f"- {escaped(line)}" for line in words.placebo_lines(found)]
    return "\n".join([*lines, ""]).encode()


def _markdown_table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return lines + ["| " + " | ".join(escaped(printable(text)) for text in row) + " |" for row in rows]


# ------------------------------------------------------------------ gate report


_KERNELS = {DEVICE: ", kernels"}
"""What follows the worst case if its latency is not the time."""

COLUMNS = ("host", "GPU", "model", "baseline", "worst case", "change", "outcome")


def cells(each: GpuGate) -> tuple[str, ...]:
    """Return the cells of a GPU's row."""
    worst, base = each.worst, each.baseline
    change = "–" if worst is None or worst.change is None else words.percent_text(worst.change.ratio)
    outcome = f"{each.outcome}: {each.trouble}" if each.trouble else each.outcome
    if worst is not None and not each.trouble and worst.why and each.outcome == worst.outcome:
        outcome = f"{outcome}: {worst.why}"
    case = "–" if worst is None else words.judged_text(worst.judged) + _KERNELS.get(worst.judged.metric, "")
    return (
        each.host, each.device.removeprefix("cuda:"), each.model, "–" if base is None else base.text,
        case, change, outcome,
    )  # fmt: skip


def print_fleet_gate(gate: FleetGate, *, as_json: bool) -> None:
    """Print each GPU, each host, the reasons of hosts that failed, and the result."""
    if as_json:
        print_json(gate_data(gate))
        return
    out = console()
    print_lines(out, _simulated(gate))
    if gate.gpus:
        columns = [(name, name != "change") for name in COLUMNS]
        out.print(table_of(columns, (map(printable, cells(each)) for each in gate.gpus)))
    out.print(hosts_table(gate.state))
    print_lines(out, [*trouble_lines(gate.state), words.fleet_gate_sentence(gate)])


def _simulated(gate: FleetGate) -> list[str]:
    return [SIMULATED] if any(each.run.simulated for each in gate.state.hosts.values()) else []


def gate_data(gate: FleetGate) -> dict[str, Any]:
    """Return the result as JSON values."""
    return {
        "event": "FleetGate", "simulated": bool(_simulated(gate)),
        "limit": gate.limits[LATENCY], "bands": dict(gate.limits), "verdict": gate.verdict,
        "says": words.fleet_gate_sentence(gate),
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
        _add_case(hosts, "host", state.host.host, state.why if state.in_trouble else "", state.state)
    for line in _simulated(gate):
        ElementTree.SubElement(hosts, "system-out").text = line
    for each in gate.gpus:
        if each.report is not None:
            suite = ElementTree.fromstring(junit(each.report))
            suite.set("name", printable(each.name))
        else:
            suite = ElementTree.Element("testsuite", {"name": printable(each.name), "tests": "1", "errors": "1"})
            _add_case(suite, "GPU", each.name, each.trouble, each.outcome)
        suites.append(suite)
    ElementTree.indent(suites)
    return bytes(ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)) + b"\n"


def _add_case(suite: ElementTree.Element, kind: str, name: str, trouble: str, outcome: str) -> None:
    """Add a host or a GPU to a suite, with its trouble if it has any."""
    test = ElementTree.SubElement(suite, "testcase", classname=f"cpugpu-tui.{kind}", name=printable(name))
    if trouble:
        ElementTree.SubElement(test, "error", message=printable(trouble), type=outcome)


def fleet_markdown(gate: FleetGate) -> bytes:
    """Return a summary in Markdown: the result, each GPU, each host that failed."""
    table = _markdown_table(COLUMNS, [cells(each) for each in gate.gpus])
    marked = [part for line in _simulated(gate) for part in (line, "")]
    lines = [f"## {escaped(words.fleet_gate_sentence(gate))}", "", *marked, *table]
    lines += ["", *(f"- {escaped(printable(line, 1000))}" for line in trouble_lines(gate.state))]
    return "\n".join([*lines, ""]).encode()
