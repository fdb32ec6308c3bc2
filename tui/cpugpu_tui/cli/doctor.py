"""`cpugpu-tui doctor`: one line for each check, with cause and remedy of each problem."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from cpugpu_tui.cli import options as opt
from cpugpu_tui.cli.output.printing import plain, print_json, tell
from cpugpu_tui.errors import EXIT_CHECK_FAILED, EXIT_OK, CpuGpuError, shown
from cpugpu_tui.machine.text import printable

if TYPE_CHECKING:
    from cpugpu_tui.doctor.facts import Finding
    from cpugpu_tui.model import Simulation

STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red", "unknown": "magenta"}
"""Colours are an addition to the word, never a replacement."""

WORDS = {"unknown": "?"}
"""Verdicts that the table shows in other words than JSON."""

SIMULATED = "SIMULATED torch and GPUs. Host, history and terminal are those of this machine."

INDENT = 25
"""Column at which findings begin: after the verdict and the longest id."""

LONGEST = 1000
"""Maximum length of a printed text. A list of processes may be long."""

commands = typer.Typer()


class DoctorGiven(opt.Given):
    """The options of `doctor`."""

    telemetry_cost: Annotated[bool, opt.flag(
        "--telemetry-cost", "Also measure by how much telemetry slows down tiny kernels. Needs a GPU."
    )] = False  # fmt: skip
    cost_s: Annotated[float, opt.seconds(
        "Time limit of --telemetry-cost, at least 1.", "--max-seconds", check=opt.in_range(1)
    )] = 60.0  # fmt: skip


@opt.takes(commands.command(), DoctorGiven, "json python database telemetry_cost cost_s simulate")
def doctor(given: DoctorGiven) -> None:
    """Check driver, torch, GPUs, host, history and terminal.

    Each problem is printed with its cause and a remedy. The exit code is 1 if a check fails.
    """
    from cpugpu_tui.cli.running.options import found_python
    from cpugpu_tui.doctor.check_registry import examine
    from cpugpu_tui.doctor.collect import collect

    json, simulated = given.json, given.simulation
    found = found_python(given.python, simulation=simulated)
    findings = examine(collect(found, given.database, simulated))
    if simulated is not None and not json:
        tell(SIMULATED)
    for finding in findings:
        show(finding, as_json=json)
    if given.telemetry_cost:
        sys.stdout.flush()
        findings += (_cost(found, simulated, given.cost_s),)
        show(findings[-1], as_json=json)
    if not json:
        tell(summary(findings))
    is_failed = any(finding.verdict == "fail" for finding in findings)
    raise typer.Exit(EXIT_CHECK_FAILED if is_failed else EXIT_OK)


def _cost(python: str | None, simulation: Simulation | None, cost_s: float) -> Finding:
    from cpugpu_tui.doctor.facts import fail
    from cpugpu_tui.doctor.sampler_cost import cost_finding, measure_cost

    try:
        return cost_finding(measure_cost(python, simulation, cost_s, _tell), cost_s)
    except CpuGpuError as error:
        return fail("Not measured.", error.message, error.remedy, "telemetry.cost")
    finally:
        _tell("")


def _tell(text: str) -> None:
    """Show progress on a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{shown(plain(text))}", end="", file=sys.stderr, flush=True)


def show(finding: Finding, *, as_json: bool) -> None:
    """Print one finding, escaped: it may hold other people's commands, user names and variables."""
    from rich.text import Text

    from cpugpu_tui.cli.output.table_style import console

    texts = {key: printable(value, LONGEST) for key, value in asdict(finding).items()}
    if as_json:
        print_json({key: texts[key] for key in ("check", "verdict", "found", "cause", "remedy")})
        return
    width = max(40, shutil.get_terminal_size((100, 24)).columns)
    out = console()
    rest = f" {texts['check']:<{INDENT - 6}}{_wrapped(texts['found'], width).lstrip()}"
    line = Text.assemble((f"{WORDS.get(finding.verdict, finding.verdict):<5}", STYLES[finding.verdict]), rest)
    out.print(line, soft_wrap=True)
    for text in filter(None, (texts["cause"], texts["remedy"])):
        out.print(Text(_wrapped(text, width)), soft_wrap=True)


def _wrapped(text: str, width: int) -> str:
    margin = " " * INDENT
    return textwrap.fill(
        plain(text), width, initial_indent=margin, subsequent_indent=margin, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def summary(findings: Sequence[Finding]) -> str:
    """Return the last line: the number of findings with each verdict."""
    count = {verdict: sum(finding.verdict == verdict for finding in findings) for verdict in STYLES}
    open_ones = f", {count['unknown']} not judged" if count["unknown"] else ""
    warnings = "1 warning" if count["warn"] == 1 else f"{count['warn']} warnings"
    return f"{count['ok']} ok, {warnings}, {count['fail']} failed{open_ones}."
