"""`cpugpu-tui gate`: a verdict for CI."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cpugpu_tui.cli import options as opt

OF_A_SERIES = ("baseline_name", "new", "repeat", "any_machine")
"""Parameters that have no meaning with --against."""

commands = typer.Typer()


class GateGiven(opt.Given):
    """The options of `gate`."""

    names: Annotated[list[str] | None, opt.names_of("those of the baseline, or quick")] = None
    baseline_name: Annotated[str, opt.option(
        "SERIES", "Baseline to compare against. It takes the same forms as BASE in `cpugpu-tui compare`.", "--baseline"
    )] = "main"  # fmt: skip
    against: Annotated[str | None, opt.option(
        "PYTHON", "Compare with this other Python instead of with a baseline. The two Pythons run in turn."
    )] = None  # fmt: skip
    repeat: Annotated[int, opt.count_of(
        "Number of runs in the new series. A verdict needs at least 5.", check=opt.in_range(1)
    )] = 5  # fmt: skip
    new: Annotated[str | None, opt.option("SERIES", "Judge this saved series instead of running a new one.")] = None
    junit: Annotated[Path | None, opt.option("FILE", "Write JUnit XML to this file, one test per verdict.")] = None
    any_machine: Annotated[bool, opt.flag(
        "--any-machine", "Compare even if the CPU or GPU is not that of the baseline."
    )] = False  # fmt: skip


@opt.takes(
    commands.command(), GateGiven,
    "names baseline_name against max_slowdown repeat new junit summary any_machine json database no_save worker python "
    "case_timeout simulate workloads",
)  # fmt: skip
def gate(given: GateGiven) -> None:
    """Run a series and fail if a case became slower.

    The series is compared with a baseline. With --against, it is compared with a second Python, which runs the same
    cases now.

    Exit code: 0 passed, 1 a case is slower, 3 a case failed, 4 undecided.
    """
    from cpugpu_tui.cli.compare.gate_request import LIMITS, GateRequest, judge, play, run_and_judge
    from cpugpu_tui.cli.history.past_runs import series_in
    from cpugpu_tui.config.parsing import parse_bands

    request = GateRequest(
        names=tuple(given.names or ()), baselines=(given.baseline_name,),
        limits=parse_bands(given.max_slowdown, LIMITS), repeat=given.repeat, junit=given.junit, summary=given.summary,
        case_timeout_s=given.case_timeout, simulation=given.simulation, new=given.new, any_machine=given.any_machine,
    )  # fmt: skip
    options = given.run_options(python=None if given.new is not None else given.python)
    if given.against is not None:
        opt.refuse_beside(given.context, "--against", OF_A_SERIES.__contains__)
        raise typer.Exit(play(request, options, given.against, as_json=given.json))
    base = series_in(given.baseline_name, given.database)
    if given.new is not None:
        raise typer.Exit(judge(request, base, series_in(given.new, given.database), as_json=given.json))
    raise typer.Exit(run_and_judge(request, options, base, as_json=given.json))
