"""`cpugpu-tui doctor`: one line for each check, with cause and remedy of each problem."""

from __future__ import annotations

import shutil
import signal
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from cpugpu_tui.cli import options as opt
from cpugpu_tui.cli.output.printing import plain, print_json, tell
from cpugpu_tui.errors import EXIT_CHECK_FAILED, EXIT_OK, shown
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

KEYS = ("check", "verdict", "found", "cause", "remedy")
"""Texts of a finding in JSON, in this order; a measured one has `values`, too."""

NO_LOOP_S = 10.0
"""Time that `--telemetry-cost` leaves after measuring the app where no GPU can run the loop of tiny kernels."""

LONGEST = 1000
"""Maximum length of a printed text. A list of processes may be long."""

commands = typer.Typer()


class DoctorGiven(opt.Given):
    """The options of `doctor`."""

    telemetry_cost: Annotated[bool, opt.flag(
        "--telemetry-cost",
        "Also measure what the program takes here: memory and CPU of the app, agent and telemetry, bytes to the"
        " terminal, how much the app slows down timed calls and, on a GPU, how much telemetry slows down tiny kernels.",
    )] = False  # fmt: skip
    cost_s: Annotated[float, opt.seconds(
        "Time limit of the command with --telemetry-cost, at least 1.", "--max-seconds", check=opt.in_range(1)
    )] = 60.0  # fmt: skip


@opt.takes(commands.command(), DoctorGiven, "json python database telemetry_cost cost_s simulate")
def doctor(given: DoctorGiven) -> None:
    """Check driver, torch, GPUs, host, history and terminal.

    Each problem is printed with its cause and a remedy. The exit code is 1 if a check fails.
    """
    from cpugpu_tui.cli.running.options import found_python
    from cpugpu_tui.doctor.collect import collect, examine

    json, simulated = given.json, given.simulation
    python = found_python(given.python, simulation=simulated)
    facts = collect(python, given.database, simulated)
    findings = examine(facts)
    if simulated is not None and not json:
        tell(SIMULATED)
    for finding in findings:
        show(finding, as_json=json)
    if given.telemetry_cost:
        sys.stdout.flush()
        with _leaving_on_signals():
            for finding in _costs(python, simulated, given, has_gpu=bool(facts.agent.gpus)):
                _show_progress("")
                findings += (finding,)
                show(finding, as_json=json)
    if not json:
        tell(summary(findings))
    is_failed = any(finding.verdict == "fail" for finding in findings)
    raise typer.Exit(EXIT_CHECK_FAILED if is_failed else EXIT_OK)


def _costs(
    python: str | None, simulation: Simulation | None, given: DoctorGiven, *, has_gpu: bool
) -> Iterator[Finding]:  # fmt: skip
    """Yield what the program takes: first the app, then the loop of tiny kernels with and without telemetry.

    The loop comes last, because its process would share memory with the agent.
    """
    from cpugpu_tui.doctor.app_cost import app_findings, measure_app
    from cpugpu_tui.doctor.sampler_cost import measure_cost, telemetry_findings

    limit_s, now_s = given.cost_s, time.monotonic()
    began_s = now_s if given.context.obj is None else given.context.obj  # when the command began, if it is known
    ends_s = began_s + limit_s
    app_ends_s = (now_s + ends_s) / 2 if has_gpu else ends_s - NO_LOOP_S
    yield from app_findings(lambda: measure_app(python, simulation, app_ends_s, _show_progress), limit_s)
    yield from telemetry_findings(lambda told: measure_cost(python, simulation, ends_s, _show_progress, told), limit_s)


@contextmanager
def _leaving_on_signals() -> Iterator[None]:
    """Exit by an exception on SIGTERM and SIGHUP, so that the app is ended and its folder removed."""

    def leave(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    wanted = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is not signal.SIG_IGN]
    before = {number: signal.signal(number, leave) for number in wanted}
    try:
        yield
    finally:
        _show_progress("")
        for number, handler in before.items():
            signal.signal(number, handler)


def _show_progress(text: str) -> None:
    """Replace the line of progress, if stderr is a terminal; an empty text clears it."""
    if sys.stderr.isatty():
        print(f"\r\033[K{shown(plain(text))}", end="", file=sys.stderr, flush=True)


def show(finding: Finding, *, as_json: bool) -> None:
    """Print one finding, escaped: it may hold other people's commands, user names and variables."""
    from rich.text import Text

    from cpugpu_tui.cli.output.table_style import console

    texts = {key: printable(getattr(finding, key), LONGEST) for key in KEYS}
    if as_json:
        measured = {"values": dict(finding.values)} if finding.values else {}
        print_json(texts | measured)
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
