"""Tables of runs and of compared series on stdout, from the same rows and sentences as in the app."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from cpugpu_tui.analysis.ceilings import clock_sentences
from cpugpu_tui.cli.output.printing import plain, print_lines
from cpugpu_tui.cli.output.table_style import console, table_of
from cpugpu_tui.compare.comparison import Difference, SeriesComparison
from cpugpu_tui.config.paths import with_database
from cpugpu_tui.machine.text import printable
from cpugpu_tui.model import RunStarted
from cpugpu_tui.render.answers import is_survey, survey_lines
from cpugpu_tui.render.columns import NONE, Key, is_words
from cpugpu_tui.render.comparison import COMPARED, NOTHING_DIFFERS, WORDS, against, cells
from cpugpu_tui.render.comparison import summary as comparison_summary
from cpugpu_tui.render.gpus import matrices, several
from cpugpu_tui.render.receipts import code_lines
from cpugpu_tui.render.rows import RunTable, run_table, table_rows
from cpugpu_tui.render.sentences import LEGEND, below_table, heading, table_lines
from cpugpu_tui.session.repeat import measure_command, repeat_commands
from cpugpu_tui.session.resume import resume_command
from cpugpu_tui.state.recorded_gpu import is_offered, with_recorded
from cpugpu_tui.state.reference import OFFERED
from cpugpu_tui.state.row import Row
from cpugpu_tui.state.state import RunState

OPTIONAL = (Key.WRITTEN, Key.KERNEL, Key.LIMIT, Key.MOVED)
"""Columns that are dropped on a narrow terminal, in this order. `--json` always has them."""

WITHOUT_CPU = (Key.CPU, Key.SPEEDUP, Key.MOVED, Key.VERDICT)
"""Columns that are empty where several GPUs were timed, but no CPU."""

LEAST_REMARK = 12
"""Minimum width of the remarks, which may be wrapped."""


def spelled_table(state: RunState) -> RunTable:
    """Return the table of a run in characters that stdout can show, without empty columns."""
    found = run_table(state, _shown_rows(state))
    lines = tuple({key: plain(text) for key, text in line.items()} for line in found.lines)
    nothing = ("", plain(NONE))
    dropped = {key for key in (*OPTIONAL, Key.REMARKS) if all(line.get(key) in (None, *nothing) for line in lines)}
    if clock_sentences(state.clocks):  # the column of dashes shows what the sentence is about
        dropped.discard(Key.KERNEL)
    if several(state) and not any(device.is_cpu for device in state.devices):
        dropped |= set(WITHOUT_CPU)
    return RunTable({key: plain(text) for key, text in found.headings.items() if key not in dropped}, lines)


def _shown_rows(state: RunState) -> list[Row]:
    """Return the rows of the table; of a survey with answers, which sum its rows up, only failures."""
    has_answers = is_survey(state) and bool(survey_lines(state))
    return [row for row in table_rows(state) if row.failure is not None or not has_answers]


def keys_within(table: RunTable, width: int) -> list[str]:
    """Return the columns that fit without wrapping a number: `0.0406×` over two lines would read as `0.040`."""
    keys = list(table.headings)
    for key in OPTIONAL:
        if _least_width(table, keys) <= width:
            break
        keys = [other for other in keys if other != key]
    return keys


def _least_width(table: RunTable, keys: Sequence[str]) -> int:
    """Return the width of a table whose remarks alone are wrapped, with two cells between columns."""
    texts = {key: (table.headings[key], *(line[key] for line in table.lines)) for key in keys}
    return sum(LEAST_REMARK if key == Key.REMARKS else max(map(len, texts[key])) for key in keys) + 2 * len(keys)


def rich_table(found: RunTable, keys: Sequence[str]) -> Table:
    """Return these columns of a run's table for printing."""
    columns = [(found.headings[key], is_words(key)) for key in keys]
    return table_of(columns, ([line[key] for key in keys] for line in found.lines))


def summary(state: RunState, notice: str | None, is_saved: bool = True, *, in_full: bool = False) -> list[str]:
    """Return the lines below the table: answer, warnings, and the number of the saved run.

    With `is_saved` False the history lacks some or all of the run, and `notice` holds the reason. `in_full`: see
    `below_table`.
    """
    answers = table_lines(state, console().width, plain)
    legend = (LEGEND,) if answers and is_survey(state) else ()
    sentences = below_table(state, has_answers=bool(answers), in_full=in_full)
    lines = [*answers, *legend, *sentences, notice]
    if state.run is not None and state.run.number is not None:
        part, more = "Saved" if is_saved else "Saved in part", "" if in_full else " --explain"
        show = with_database(f"cpugpu-tui show {state.run.number}")
        lines.append(f"{part} as run {state.run.number}: {show}{more}")
    elif state.run is not None and _lacks_peaks(state.run, state):
        lines.append(f"What limits each row is unknown without peak rates. Measure: {measure_command(state.run)}")
    return [plain(line) for line in lines if line]


def _lacks_peaks(run: RunStarted, state: RunState) -> bool:
    """Whether a run that could not measure peak rates, as none were to be saved, would say with them what limits it."""
    has_limit = not run.plan.times_commands and "fleet_host" not in run.environment
    return has_limit and not state.plan.ceilings and any(row.status == "ok" for row in state.rows.values())


def state_text(state: RunState) -> str:
    """Return what `print_state` prints."""
    out = console()
    with out.capture() as printed:
        print_state(state, out=out)
    return printed.get()


def print_state(
    state: RunState, notice: str | None = None, is_saved: bool = True, out: Console | None = None, *,
    in_full: bool = False, repeat: int = 1, is_interrupted: bool = False,
) -> None:  # fmt: skip
    """Print heading, table and summary of a run, beside its recorded GPU if it has one. Arguments: see `summary`.

    `repeat`: runs of the series that it ends, which one command repeats; 0 if others follow. `is_interrupted`: the
    program that timed it has gone.
    """
    state = with_recorded(state)
    out = out or console()
    if state.rows:
        out.print(plain(heading(state)))
        print_lines(out, code_lines(state))
        table = spelled_table(state)
        keys = keys_within(table, out.width)
        if table.lines:
            out.print(rich_table(table, keys))
        if missing := [head for key, head in table.headings.items() if key not in keys]:
            out.print(f"Not shown in {out.width} columns: {', '.join(missing)}.")
    for matrix in matrices(state):
        out.print(plain(matrix.title))
        out.print(table_of([(head, index == 0) for index, head in enumerate(matrix.heads)], matrix.rows))
    for line in summary(state, notice, is_saved, in_full=in_full):
        out.print(line, soft_wrap=not sys.stdout.isatty())  # a pipe has no width
    if state.run is not None:
        if is_saved and (resume := resume_command(state, is_interrupted=is_interrupted)):
            print_lines(out, (f"Resume: {with_database(resume)}",))
        commands = repeat_commands(state.run, repeat) if repeat else ()
        print_lines(out, (f"Again: {command}" for command in commands))
        if is_offered(state):
            print_lines(out, (f"Beside a recorded GPU: {command} --beside {OFFERED}" for command in commands))


# ------------------------------------------------------------------ comparison tables


def comparison_text(found: SeriesComparison) -> str:
    """Return what `show_comparison` prints."""
    out = console()
    with out.capture() as printed:
        show_comparison(found, out)
    return printed.get()


def show_comparison(found: SeriesComparison, out: Console | None = None) -> None:
    """Print the differences between the machines, the verdicts, and the geometric mean."""
    out = out or console()
    print_lines(out, [against(found)])
    if found.differences:
        out.print(differences_table(found.differences))
    else:
        out.print(NOTHING_DIFFERS)
    rows = ([printable(each[name]) for name in COMPARED] for each in map(cells, found.shared))
    out.print(table_of([(name, name in WORDS) for name in COMPARED], rows))
    print_lines(out, comparison_summary(found))


def differences_table(differences: tuple[Difference, ...]) -> Table:
    """Return a table with one row per difference."""
    columns = [(name, True) for name in ("differs", "base", "new")]
    return table_of(columns, (map(printable, (each.what, each.base, each.new)) for each in differences))
