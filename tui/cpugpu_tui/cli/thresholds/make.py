"""`cpugpu-tui thresholds make`: measure crossovers, and write them to a file for programs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cpugpu_tui.cli import options as opt
from cpugpu_tui.cli.output.printing import plain, tell
from cpugpu_tui.cli.time import CodeSizes, InPlace, Lets, Setup
from cpugpu_tui.errors import EXIT_CHECK_FAILED, EXIT_OK, EXIT_UNFIT, CpuGpuError, UsageError, print_notice

if TYPE_CHECKING:
    from cpugpu_tui.thresholds import Thresholds

Subjects = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="WORKLOAD|FILE:FUNCTION|EXPRESSION",
        help="What to measure: workloads, presets, functions such as model.py:forward, or code such as "
        "'product = x @ x', whose threshold is then named product.",
        show_default="the 20 workloads of the survey",
    ),
]
FORMAT_HELP = "json, c (a header for C and C++) or env (variables)."
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", metavar="FILE", help="File, or - for stdout.", show_default="thresholds.json, .h or .env"
    ),
]
Against = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Fail if a threshold has moved out of its bracket in this older JSON file."),
]
Add = Annotated[bool, typer.Option("--add", help="Keep the thresholds of an existing file that are not measured now.")]
FromRun = Annotated[
    str | None, typer.Option("--run", metavar="RUN", help="Take the crossovers from this saved run. Nothing is timed.")
]

commands = typer.Typer()


@commands.command()
def make(
    context: typer.Context,
    names: Subjects = None,
    setup: Setup = None,
    n: CodeSizes = None,
    let: Lets = None,
    in_place: InPlace = False,
    dtype: opt.Dtype = None,
    threads: opt.Threads = None,
    variant: opt.Variant = None,
    run_name: FromRun = None,
    out: Out = None,
    format_name: Annotated[
        str | None,
        typer.Option("--format", "-f", metavar="FORMAT", help=FORMAT_HELP, show_default="by the name of the file"),
    ] = None,
    against: Against = None,
    add: Add = False,
    max_seconds: opt.MaxSeconds = None,
    database: opt.Database = None,
    no_save: opt.NoSave = False,
    worker: opt.Worker = "process",
    python: opt.Python = None,
    simulate: opt.Simulate = None,
    workloads: opt.Workloads = None,
) -> None:
    """Measure crossovers and write them to a file for programs.

    Each operation is searched twice: with its inputs on the GPU, and with copies.

    Exit code: 0 written, 1 a threshold has moved (--against), 3 a case failed, 4 no GPU, or a file of another machine.
    """
    from cpugpu_tui.cli.history.past_runs import reading
    from cpugpu_tui.cli.running.options import run_options, simulation
    from cpugpu_tui.cli.thresholds.measuring import check_here, coverage, measured, print_table, subjects
    from cpugpu_tui.export import target
    from cpugpu_tui.export.thresholds import (
        SUFFIXES,
        checked_format,
        extended,
        machine_of,
        read,
        rendered,
        require_machine,
        thresholds_of,
    )
    from cpugpu_tui.render.sentences import cut_short
    from cpugpu_tui.session.own_workloads import OwnWorkloads
    from cpugpu_tui.session.planning import PlanRequest
    from cpugpu_tui.state.folding import folded

    by_suffix = {suffix: name for name, suffix in SUFFIXES.items()}
    format_name = checked_format(format_name or by_suffix.get(out.suffix if out else "", "json"))
    path = out or Path(f"thresholds{SUFFIXES[format_name]}")
    if str(path) != "-":
        target.check_file(path)
    old = read(against) if against is not None else None
    if add and format_name != "json":
        raise UsageError("--add works only with JSON files.", "Use `thresholds show --format` for other formats.")
    kept = read(path) if add else None
    if against is not None and path.exists() and path.samefile(against):
        raise UsageError(f"--against {against} is also the file to write.", "Write to another file with --out.")
    if run_name is not None:
        opt.refuse_beside(context, "--run", lambda name: name not in OF_THE_FILE)
        with reading(database) as store:
            state, code = folded(store.load(store.find(run_name))), EXIT_OK
    else:
        words, codes = subjects(names or (), setup or (), let or (), in_place=in_place)
        if codes and n is None:
            raise UsageError("Code has no sizes of its own to search.", "Give a range, for example --n 16:4096.")
        request = PlanRequest(
            sizes=n, dtype=dtype, threads=threads, variant=variant, max_seconds=max_seconds,
            simulation=simulation(simulate), own=OwnWorkloads(codes=tuple(codes)),
        )  # fmt: skip
        options = run_options(
            worker=worker, python=python, simulation=request.simulation, database=database, no_save=no_save,
            workloads=workloads, ceilings=False,
        )  # fmt: skip
        for file in filter(None, (old, kept)):
            check_here(file, options, is_simulated=request.simulation is not None)
        state, code = measured(request, options, words)
    if code > 128:  # stopped by a key or a signal
        remedy = "" if no_save else " `cpugpu-tui thresholds make --run latest` takes what was measured."
        print_notice(f"Stopped: no file was written.{remedy}")
        raise typer.Exit(code)
    made = thresholds_of(state)
    text = rendered(format_name, made)  # refuses names that no file can hold, before anything is written
    if old is not None:
        require_machine(old, machine_of(state))
        _require_shared(old, made)  # before a file is replaced
    if str(path) == "-":
        sys.stdout.write(text)
    else:
        try:
            with target.locked(path):
                made = extended(read(path), state) if add else made
                target.write(path, [rendered(format_name, made).encode()])
        except CpuGpuError as error:  # the disk was checked, but is full by now
            if run_name is None and not no_save and code != EXIT_UNFIT:
                error.remedy += " Then `cpugpu-tui thresholds make --run latest` takes what was measured."
            raise
        print_table(made)
        for line in filter(None, (cut_short(state), coverage(made))):
            print_notice(line)
        print_notice(f"Wrote {path}")
    if old is not None:
        # With `-o -` the file alone is on stdout.
        code = _compare(old, made, print_notice if str(path) == "-" else tell) or code
    raise typer.Exit(code)


OF_THE_FILE = ("run_name", "out", "format_name", "against", "add", "database")
"""Parameters that can be used with --run."""


def _require_shared(old: Thresholds, new: Thresholds) -> None:
    """Check that two files can be compared.

    Raises:
        UsageError: the older one has none of the new thresholds.
    """
    from cpugpu_tui.export.thresholds import moved

    if not moved(old, new)[1]:
        raise UsageError("The older file has none of these thresholds.", "Compare files of the same operations.")


def _compare(old: Thresholds, new: Thresholds, say: Callable[[str], object]) -> int:
    """Say which thresholds of an older file have moved, and return the exit code."""
    from cpugpu_tui.export.thresholds import moved

    sentences, count = moved(old, new)
    for sentence in sentences:
        say(plain(sentence))
    say(f"{len(sentences)} of {count} thresholds moved out of their brackets.")
    return EXIT_CHECK_FAILED if sentences else EXIT_OK
