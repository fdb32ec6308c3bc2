"""`cpugpu-tui doctor`: one line for each check, with cause and remedy where something is wrong."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from cpugpu_tui.cli.options import Database, Json, Python, Simulate
from cpugpu_tui.errors import EXIT_CHECK_SAID_NO, EXIT_OK, CpuGpuError, shown

if TYPE_CHECKING:
    from cpugpu_tui.doctor.finding import Finding
    from cpugpu_tui.model import Simulation

STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red", "unknown": "magenta"}
"""Beside the word, never instead of it."""

WORDS = {"unknown": "?"}
"""Verdicts that are shown otherwise than JSON writes them: what follows says why it is not known."""

SIMULATED = "SIMULATED torch and GPUs; host, history and terminal are those of this machine."

INDENT = 25
"""Where what was found begins: behind the verdict and the longest id."""

LONGEST = 1000
"""Characters of a text that are printed: a list of processes may be long."""

commands = typer.Typer()


@commands.command()
def doctor(
    json: Json = False,
    python: Python = None,
    database: Database = None,
    telemetry_cost: Annotated[
        bool, typer.Option("--telemetry-cost", help="Time tiny kernels with our telemetry off and on; needs a GPU.")
    ] = False,
    max_seconds: Annotated[float, typer.Option(min=1.0, help="Time for --telemetry-cost.")] = 60.0,
    simulate: Simulate = None,
) -> None:
    """Check driver, torch, GPUs, host, history and terminal, and say what to do about what is wrong."""
    from cpugpu_tui.cli.output.table_style import tell
    from cpugpu_tui.cli.running.options import found_python, simulation
    from cpugpu_tui.doctor.check_registry import examine
    from cpugpu_tui.doctor.collect import collect

    made_up = simulation(simulate)
    found = found_python(python, simulation=made_up)
    findings = examine(collect(found, database, made_up))
    if made_up is not None and not json:
        tell(SIMULATED)
    for finding in findings:
        show(finding, as_json=json)
    if telemetry_cost:
        sys.stdout.flush()
        findings += (_cost(found, made_up, max_seconds),)
        show(findings[-1], as_json=json)
    if not json:
        tell(summary(findings))
    is_failed = any(finding.verdict == "fail" for finding in findings)
    raise typer.Exit(EXIT_CHECK_SAID_NO if is_failed else EXIT_OK)


def _cost(python: str | None, simulation: Simulation | None, cost_s: float) -> Finding:
    from cpugpu_tui.doctor.finding import Finding, fail
    from cpugpu_tui.doctor.sampler_cost import cost_finding, measure_cost

    try:
        return cost_finding(measure_cost(python, simulation, cost_s, _tell), cost_s)
    except CpuGpuError as error:
        finding = fail("Not measured.", error.message, error.remedy)
        return Finding(finding.verdict, finding.found, finding.cause, finding.remedy, "telemetry.cost")
    finally:
        _tell("")


def _tell(text: str) -> None:
    """Show how far it is, on a terminal only."""
    from cpugpu_tui.cli.output.table_style import plain

    if sys.stderr.isatty():
        print(f"\r\033[K{shown(plain(text))}", end="", file=sys.stderr, flush=True)


def show(finding: Finding, *, as_json: bool) -> None:
    """Print one finding. Commands, users and variables in it come from strangers."""
    from dataclasses import asdict

    from rich.text import Text

    from cpugpu_tui.cli.output.json_lines import print_json
    from cpugpu_tui.cli.output.table_style import console
    from cpugpu_tui.machine.text import printable

    said = {key: printable(value, LONGEST) for key, value in asdict(finding).items()}
    if as_json:
        print_json({key: said[key] for key in ("check", "verdict", "found", "cause", "remedy")})
        return
    width = max(40, shutil.get_terminal_size((100, 24)).columns)
    out = console()
    rest = f" {said['check']:<{INDENT - 6}}{_wrapped(said['found'], width).lstrip()}"
    line = Text.assemble((f"{WORDS.get(finding.verdict, finding.verdict):<5}", STYLES[finding.verdict]), rest)
    out.print(line, soft_wrap=True)
    for text in filter(None, (said["cause"], said["remedy"])):
        out.print(Text(_wrapped(text, width)), soft_wrap=True)


def _wrapped(text: str, width: int) -> str:
    import textwrap

    from cpugpu_tui.cli.output.table_style import plain

    margin = " " * INDENT
    return textwrap.fill(
        plain(text), width, initial_indent=margin, subsequent_indent=margin, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def summary(findings: Sequence[Finding]) -> str:
    """Return the last line: how many of each; those that were not judged are none of the ok."""
    count = {verdict: sum(finding.verdict == verdict for finding in findings) for verdict in STYLES}
    open_ones = f", {count['unknown']} not judged" if count["unknown"] else ""
    return f"{count['ok']} ok, {count['warn']} to know about, {count['fail']} failed{open_ones}."
