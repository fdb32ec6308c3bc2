"""`cpugpu-tui thresholds make`: measure crossovers, and write them to a file for programs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cpugpu_tui.cli import options as opt
from cpugpu_tui.cli.output.printing import plain, tell
from cpugpu_tui.config.paths import with_database
from cpugpu_tui.errors import EXIT_CHECK_FAILED, EXIT_OK, EXIT_UNFIT, CpuGpuError, UsageError, file_path, print_notice

if TYPE_CHECKING:
    from cpugpu_tui.thresholds import Thresholds


FORMAT_HELP = "json, c (a header for C and C++) or env (variables)."

commands = typer.Typer()


class MakeGiven(opt.Given):
    """The options of `thresholds make`."""

    names: Annotated[list[str] | None, opt.argument(
        opt.SUBJECT, "What to measure: workloads, presets, functions such as model.py:forward, or code such as "
        "'product = x @ x', whose threshold is then named product.", "the 20 workloads of the survey",
    )] = None  # fmt: skip
    of_run: Annotated[str | None, opt.option(
        "RUN", "Take the crossovers from this saved run. Nothing is timed.", "--run"
    )] = None  # fmt: skip
    out: Annotated[Path | None, opt.file_of(
        "File, or - for stdout.", "--out", "-o", parser=file_path, usual="thresholds.json, .h or .env"
    )] = None  # fmt: skip
    format_name: Annotated[str | None, opt.option(
        "FORMAT", FORMAT_HELP, "--format", "-f", usual="by the name of the file"
    )] = None  # fmt: skip
    against: Annotated[Path | None, opt.file_of(
        "Fail if a threshold has moved out of its bracket in this older JSON file."
    )] = None  # fmt: skip
    add: Annotated[bool, opt.flag(
        "--add", "Add to an existing file: the sizes that it has are not timed again, unless they decided nothing."
    )] = False  # fmt: skip


@opt.takes(
    commands.command(), MakeGiven,
    "names setup n let in_place dtype threads variant of_run out format_name against add max_seconds database no_save "
    "worker python simulate workloads",
)  # fmt: skip
def make(given: MakeGiven) -> None:
    """Measure crossovers and write them to a file for programs.

    Each operation is searched twice: with its inputs on the GPU, and with copies.

    Exit code: 0 written, 1 a threshold has moved (--against), 3 a case failed, 4 no GPU, or a file of another machine.
    """
    from cpugpu_tui.cli.past_runs import reading
    from cpugpu_tui.cli.thresholds import measuring
    from cpugpu_tui.export import target, thresholds
    from cpugpu_tui.render.sentences import cut_short
    from cpugpu_tui.session.own_workloads import OwnWorkloads
    from cpugpu_tui.session.repeat import option_words
    from cpugpu_tui.state.folding import folded

    out, against, add, no_save = given.out, given.against, given.add, given.no_save
    format_name = thresholds.checked_format(given.format_name or _format_by_name(out))
    path = out or Path(f"thresholds{thresholds.SUFFIXES[format_name]}")
    if str(path) != "-":
        target.check_file(path)
    old = thresholds.read(against) if against is not None else None
    if add and format_name != "json":
        raise UsageError("--add works only with JSON files.", "Use `thresholds show --format` for other formats.")
    kept = thresholds.read(path) if add else None
    if against is not None and path.exists() and path.samefile(against):
        raise UsageError(f"--against {against} is also the file to write.", "Write to another file with --out.")
    if given.of_run is not None:
        opt.refuse_beside(given.context, "--run", lambda name: name not in OF_THE_FILE)
        with reading(given.database, must_exist=True) as store:
            state, code = folded(store.load(store.find(given.of_run))), EXIT_OK
    else:
        words, codes = measuring.subjects(
            given.names or (), given.setup or (), given.let or (), in_place=given.in_place
        )
        if codes and given.n is None:
            raise UsageError("Code has no sizes of its own to search.", "Give a range, for example --n 16:4096.")
        typed = ("thresholds", "make", *(given.names or ()), *option_words({
            "--setup": given.setup, "--let": given.let, "--in-place": given.in_place, "--out": out,
            "--format": given.format_name, "--against": against, "--add": add,
        }))  # fmt: skip
        request = given.request(own=OwnWorkloads(codes=tuple(codes)), pair=typed)
        options = given.run_options(ceilings=False)
        for file in filter(None, (old, kept)):
            measuring.check_here(file, options, is_simulated=request.simulation is not None)
        state, code = measuring.measured(request, options, words, kept)
    later = f"`{with_database('cpugpu-tui thresholds make --run latest')}`"
    if code > 128:  # stopped by a key or a signal
        print_notice(f"Stopped: no file was written.{'' if no_save else f' {later} takes what was measured.'}")
        raise typer.Exit(code)
    made = thresholds.thresholds_of(state, kept)
    text = thresholds.rendered(format_name, made)  # refuses names that no file can hold, before anything is written
    if old is not None:
        thresholds.require_machine(old, thresholds.machine_of(state))
        if not thresholds.moved(old, made)[1]:  # before a file is replaced
            raise UsageError("The older file has none of these thresholds.", "Compare files of the same operations.")
    if str(path) == "-":
        sys.stdout.write(text)
    else:
        try:
            with target.locked(path):
                made = thresholds.thresholds_of(state, thresholds.read(path)) if add else made
                target.write(path, [thresholds.rendered(format_name, made).encode()])
        except CpuGpuError as error:  # the disk was checked, but is full by now
            if given.of_run is None and not no_save and code != EXIT_UNFIT:
                error.remedy += f" Then {later} takes what was measured."
            raise
        measuring.print_mark(made)
        measuring.print_table(made)
        code_of = {thresholds.operation_of(each): each for each in state.plan.codes}
        more = given.workloads or (), state.plan.simulation
        here = {*code_of, *(case.workload for case in state.plan.cases)}  # with --add the file has others, too
        commands = measuring.closing(
            (each for each in made.entries if each.operation in here),
            lambda each: measuring.adding(each, code_of.get(each.operation), path, *more),
        )
        for line in filter(
            None, (cut_short(state), measuring.coverage(made), commands if format_name == "json" else "")
        ):
            print_notice(line)
        print_notice(f"Wrote {path}")
    if old is not None:
        # With `-o -` the file alone is on stdout.
        code = _compare(old, made, print_notice if str(path) == "-" else tell) or code
    raise typer.Exit(code)


def _format_by_name(out: Path | None) -> str:
    """Return the format that belongs to the ending of a file, or json without an ending.

    Raises:
        UsageError: the ending belongs to no format.
    """
    from cpugpu_tui.export.thresholds import SUFFIXES

    if out is None or not out.suffix or out.is_dir():
        return "json"
    for name, suffix in SUFFIXES.items():
        if out.suffix.lower() == suffix:
            return name
    raise UsageError(
        f"Unknown format of {out}.", "Use a name that ends in .json, .h or .env, or choose a format with --format."
    )


OF_THE_FILE = ("of_run", "out", "format_name", "against", "add", "database")
"""Parameters that can be used with --run."""


def _compare(old: Thresholds, new: Thresholds, say: Callable[[str], object]) -> int:
    """Say which thresholds of an older file have moved, and return the exit code."""
    from cpugpu_tui.export.thresholds import moved

    sentences, count = moved(old, new)
    for sentence in sentences:
        say(plain(sentence))
    say(f"{len(sentences)} of {count} thresholds moved out of their brackets.")
    return EXIT_CHECK_FAILED if sentences else EXIT_OK


class FileGiven(opt.Given):
    """A file of thresholds, and in which format it is shown."""

    file: Annotated[Path, opt.argument("THRESHOLDS", "File that `thresholds make` wrote as JSON.")] = Path(
        "thresholds.json"
    )
    format_name: Annotated[str | None, opt.option("FORMAT", FORMAT_HELP, "--format", "-f", usual="a table")] = None


@opt.takes(commands.command(), FileGiven, "file format_name")
def show(given: FileGiven) -> None:
    """Print a file of thresholds as a table or in another format."""
    from cpugpu_tui.cli.thresholds.measuring import print_machine, print_table
    from cpugpu_tui.export.thresholds import checked_format, read, rendered
    from cpugpu_tui.thresholds import differences, this_machine

    if given.format_name is not None:
        name = checked_format(given.format_name)
        sys.stdout.write(rendered(name, read(given.file)))
        return
    found = read(given.file)
    print_machine(found)
    print_table(found)
    for difference in differences(found.machine, this_machine())[:1]:
        print_notice(f"Programs do not use this file here. {difference}")
