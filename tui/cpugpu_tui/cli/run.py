"""`cpugpu-tui run` and `survey`: run as the app does, and print a table, the crossovers, or the events."""

from __future__ import annotations

from typing import Annotated

import typer

from cpugpu_tui.cli import options as opt
from cpugpu_tui.errors import UsageError

commands = typer.Typer()


@opt.takes(
    commands.command(), opt.Given,
    "names resume beside size device parallel dtype threads variant find_crossover max_size full rounds starts repeat "
    "max_seconds case_timeout energy cache scale mnist explain json database no_save worker pythons band simulate "
    "workloads export tensorboard ceilings",
)  # fmt: skip
def run(given: opt.Given) -> None:
    """Run presets or workloads and print a table.

    With --json, print each event of the run as a line of JSON instead.
    """
    from cpugpu_tui.cli.running import modes
    from cpugpu_tui.cli.running.saving import Outputs
    from cpugpu_tui.compare.in_turn import Side

    if given.resume:
        raise typer.Exit(modes.resume_run(given))
    if not given.several and "band" in opt.typed(given.context):
        raise UsageError("--band needs two interpreters to compare.", "Repeat --python, or use `cpugpu-tui compare`.")
    request = given.request(names=tuple(given.names or ["quick"]), starts=given.number_of_starts())
    options, outputs = given.run_options(), Outputs.of(given)
    if given.several:
        sides = [Side(python, python) for python in given.several]
        raise typer.Exit(modes.run_in_turn(request, options, sides, outputs, as_json=given.json, band=given.band))
    raise typer.Exit(modes.run_headless(request, options, as_json=given.json, outputs=outputs))


class SurveyGiven(opt.Given):
    """The options of `survey`."""

    only: Annotated[str | None, opt.option(
        "NAMES", "Workloads to include, such as matmul,fft,sort.", usual="all"
    )] = None  # fmt: skip
    dtype: Annotated[str | None, opt.dtype_of(f"{opt.DTYPES} Workloads without it are left out.", usual="float32")] = (
        None
    )
    threads: Annotated[str | None, opt.threads_of(usual="all")] = None
    all_: Annotated[bool, opt.flag(
        "--all", "Also ten more workloads, in at most 8 minutes; --only names them, too."
    )] = False  # fmt: skip
    resume: Annotated[bool, opt.flag(
        "--resume", "Finish the newest interrupted survey. Sizes without a result are timed."
    )] = False  # fmt: skip
    max_seconds: Annotated[float | None, opt.seconds(
        "Time limit from the start of the program. The call in progress then ends, and other sizes are skipped.",
        usual="280 s after the agent has started, with --all 460 s; without a GPU 112 and 184 s",
    )] = None  # fmt: skip


@opt.takes(
    commands.command(), SurveyGiven,
    "only all_ resume beside dtype threads device max_seconds case_timeout explain json database no_save worker python "
    "simulate export ceilings",
)  # fmt: skip
def survey(given: SurveyGiven) -> None:
    """Find the crossover of every workload, in at most 5 minutes.

    Prints one line for each workload. Its bar shows the sizes, smallest to largest: where the CPU wins, where the GPU
    wins if the inputs are there already, and where it also wins with copies. The workload with the smallest CPU part
    comes first. The workloads share the time. Without a GPU, only the CPU is timed, in at most 2 minutes.
    """
    from cpugpu_tui.cli.running import modes
    from cpugpu_tui.cli.running.saving import Outputs
    from cpugpu_tui.workloads.presets import SURVEY, SURVEY_ALL, SURVEYED

    names = tuple(filter(None, map(str.strip, (given.only or "").split(","))))
    if given.only is not None and not names:
        raise UsageError(f"--only {given.only!r} names no workload.", "Leave --only out to run all of them.")
    preset = SURVEY_ALL if given.all_ or {*names} - {part.workload for part in SURVEYED} else SURVEY
    if given.resume:
        raise typer.Exit(modes.resume_run(given, preset))
    words = ("survey", *(["--all"] if given.all_ else []))  # as typed, for "Again:"
    request, options = given.request(names=(preset,), only=names, pair=words), given.run_options()
    raise typer.Exit(modes.run_headless(request, options, as_json=given.json, outputs=Outputs.of(given)))
