"""Two compared series as tables: differences between the machines, verdicts, geometric mean."""

from __future__ import annotations

from rich.table import Table

from cpugpu_tui.analysis.compare import Judged
from cpugpu_tui.cli.output.table_style import console, plain, table_of
from cpugpu_tui.compare.comparison import Difference, SeriesComparison
from cpugpu_tui.machine.text import printable
from cpugpu_tui.render.comparison import COMPARED, NOTHING_DIFFERS, WORDS, against, cells, summary


def show_comparison(found: SeriesComparison) -> None:
    """Print the differences between the machines, the verdicts, and the geometric mean."""
    out = console()
    out.print(plain(against(found)), soft_wrap=True)
    if found.differences:
        out.print(differences_table(found.differences))
    else:
        out.print(NOTHING_DIFFERS)
    out.print(verdicts_table(found.judged))
    for line in summary(found):
        out.print(plain(line), soft_wrap=True)


def differences_table(differences: tuple[Difference, ...]) -> Table:
    """Return a table with one row per difference."""
    columns = [(name, True) for name in ("differs", "base", "new")]
    return table_of(columns, (map(printable, (each.what, each.base, each.new)) for each in differences))


def verdicts_table(judged: tuple[Judged, ...]) -> Table:
    """Return a table with one row per verdict."""
    columns = [(name, name in WORDS) for name in COMPARED]
    return table_of(columns, ([printable(found[name]) for name in COMPARED] for found in map(cells, judged)))
