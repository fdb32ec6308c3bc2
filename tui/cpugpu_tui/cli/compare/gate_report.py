"""The result of a gate as a table, JSON, JUnit XML and Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from cpugpu_tui.analysis.compare import SLOWER
from cpugpu_tui.analysis.gating import FAILED, NOT_JUDGED, PASSED, Gated
from cpugpu_tui.cli.output.json_lines import print_json
from cpugpu_tui.cli.output.table_style import console, plain, table_of
from cpugpu_tui.cli.output.tables import differences_table
from cpugpu_tui.compare.gate import GateReport
from cpugpu_tui.decide.stats import median
from cpugpu_tui.export.markdown import escaped
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model.quantities import micro
from cpugpu_tui.render.comparison import (
    GATED,
    WORDS,
    against,
    comparison_data,
    gate_sentence,
    gated_cells,
    judged_data,
    judged_text,
    mean_text,
    said,
)


def _cells(each: Gated) -> tuple[str, ...]:
    found = gated_cells(each)
    return tuple(found[name] for name in GATED)


def print_report(report: GateReport, *, as_json: bool) -> None:
    """Print the report on stdout."""
    if as_json:
        print_json(report_data(report))
        return
    found, out = report.found, console()
    out.print(plain(against(found)), soft_wrap=True)
    if found.differences:
        out.print(differences_table(found.differences))
    rows = (map(printable, _cells(each)) for each in report.gated)
    out.print(table_of([(name, name in WORDS) for name in GATED], rows))
    for device, mean in found.means.items():
        out.print(plain(mean_text(device, mean)), soft_wrap=True)
    out.print(plain(gate_sentence(report)), soft_wrap=True)


def report_data(report: GateReport) -> dict[str, Any]:
    """Return the report as JSON values."""
    data = comparison_data(report.found)
    data |= {
        "event": "Gate",
        "limit": report.limit,
        "verdict": report.verdict,
        "says": gate_sentence(report),
    }
    data["verdicts"] = [
        {**judged_data(each.judged), "verdict": each.outcome, "why": each.why or None,
         "at_most": each.change.at_most if each.change else None} for each in report.gated
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
    data = [("base", said(report.found.base)), ("new", said(report.found.new))]
    data += [(each.what, f"{each.base} -> {each.new}") for each in report.found.differences]
    for name, value in data:
        ElementTree.SubElement(properties, "property", name=printable(name), value=printable(value))
    for each in report.gated:
        _add_test(suite, each)
    ElementTree.SubElement(suite, "system-out").text = gate_sentence(report)
    ElementTree.indent(suite)
    return bytes(ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)) + b"\n"


def _junit_kind(each: Gated) -> str:
    return {PASSED: "", SLOWER: "failure", FAILED: "failure", NOT_JUDGED: "skipped"}.get(each.outcome, "error")


def _add_test(suite: ElementTree.Element, each: Gated) -> None:
    seconds = median(list(each.judged.pairs[0].new_ns.values())) / 1e9 if each.judged.pairs[0].new_ns else 0.0
    test = ElementTree.SubElement(
        suite, "testcase", classname=f"cpugpu-tui.{each.judged.device}",
        name=printable(judged_text(each.judged)), time=f"{seconds:.9f}",
    )  # fmt: skip
    kind = _junit_kind(each)
    if kind:
        _, _, base, new, change, at_most, runs, outcome = _cells(each)
        message = f"{outcome}: {change} (base {base}, new {new}, at most {at_most}, runs {runs})"
        ElementTree.SubElement(test, kind, message=micro(printable(message)), type=each.outcome)


def markdown(report: GateReport) -> bytes:
    """Return a summary in Markdown: the result, the differences, the verdicts."""
    found = report.found
    lines = [
        f"## {escaped(gate_sentence(report))}",
        "",
        escaped(f"{said(found.base)} against {said(found.new)}"),
        "",
    ]
    if found.differences:
        rows = [(each.what, each.base, each.new) for each in found.differences]
        lines += [*_markdown_table(("differs", "base", "new"), rows), ""]
    lines += [*_markdown_table(GATED, [_cells(each) for each in report.gated]), ""]
    lines += [f"- {escaped(mean_text(device, mean))}" for device, mean in found.means.items()]
    return "\n".join([*lines, ""]).encode()


def _markdown_table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return lines + ["| " + " | ".join(escaped(micro(printable(text))) for text in row) + " |" for row in rows]
