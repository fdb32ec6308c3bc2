"""Two series side by side, as tables: what differed around them, the verdicts, the geometric mean."""

from __future__ import annotations

from rich.table import Table

from cpugpu_tui.analysis.change_words import interval_text, judged_text, percent_text, runs_text
from cpugpu_tui.analysis.compare import Judged
from cpugpu_tui.cli.output.table_style import add_columns, console, new_table, plain
from cpugpu_tui.compare.comparison import Difference, SeriesComparison
from cpugpu_tui.machine.text import printable
from cpugpu_tui.render.comparison_words import NOTHING_DIFFERS, said, summary, times, verdict_text


def show_comparison(found: SeriesComparison) -> None:
    """Print what differed around the series, the verdicts, and the geometric mean."""
    out = console()
    made_up = "SIMULATED: no number here was measured. " if found.base.runs[0].simulated else ""
    out.print(plain(f"{made_up}{said(found.base)} against {said(found.new)}"), soft_wrap=True)
    if found.differences:
        out.print(differences_table(found.differences))
    else:
        out.print(NOTHING_DIFFERS)
    out.print(verdicts_table(found.judged))
    for line in summary(found):
        out.print(plain(line), soft_wrap=True)


def differences_table(differences: tuple[Difference, ...]) -> Table:
    """Return one row for each thing that is not the same."""
    table = new_table()
    add_columns(table, "differs", "base", "new")
    for each in differences:
        table.add_row(*(plain(printable(text)) for text in (each.what, each.base, each.new)))
    return table


def verdicts_table(judged: tuple[Judged, ...]) -> Table:
    """Return one row for each verdict."""
    table = new_table()
    add_columns(table, "case", "on")
    add_columns(table, "base", "new", "change", "95 % interval", "runs", justify="right")
    add_columns(table, "verdict")
    for each in judged:
        table.add_row(*map(plain, (printable(judged_text(each)), each.device, *_numbers(each), verdict_text(each))))
    return table


def _numbers(each: Judged) -> tuple[str, ...]:
    if each.change is None:
        return ("–",) * 5
    return (*times(each), percent_text(each.change.ratio), interval_text(each.change), runs_text(each.change))
