"""`cpugpu-tui compare`: two series, case by case."""

from __future__ import annotations

from typing import Annotated

import typer

from cpugpu_tui.cli.options import SERIES, Database, Json

commands = typer.Typer()


@commands.command()
def compare(
    base: Annotated[str, typer.Argument(metavar="BASE", help=f"Series to compare against. {SERIES}")],
    new: Annotated[
        str, typer.Argument(metavar="NEW", help="Series to judge. It takes the same forms as BASE.")
    ] = "latest",
    json: Json = False,
    database: Database = None,
) -> None:
    """Compare two series of runs, case by case.

    Prints the differences between their machines, the ratio and verdict of each case,
    and the geometric mean of the ratios.
    """
    from cpugpu_tui.cli.history.past_runs import say_remark
    from cpugpu_tui.cli.output.json_lines import print_json
    from cpugpu_tui.cli.output.tables import show_comparison
    from cpugpu_tui.compare.comparison import compare_series
    from cpugpu_tui.compare.series import series_in
    from cpugpu_tui.render.comparison import comparison_data

    found = compare_series(*(series_in(name, database, say_remark) for name in (base, new)))
    if json:
        print_json(comparison_data(found))
    else:
        show_comparison(found)
