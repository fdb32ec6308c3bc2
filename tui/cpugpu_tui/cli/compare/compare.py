"""`cpugpu-tui compare`: two series, case by case."""

from __future__ import annotations

from typing import Annotated

import typer

from cpugpu_tui.cli.options import SERIES, Band, Database, Json

commands = typer.Typer()


@commands.command()
def compare(
    base: Annotated[str, typer.Argument(metavar="BASE", help=f"Series to compare against. {SERIES}")],
    new: Annotated[
        str, typer.Argument(metavar="NEW", help="Series to judge. It takes the same forms as BASE.")
    ] = "latest",
    band: Band = None,
    json: Json = False,
    database: Database = None,
) -> None:
    """Compare two series of runs, case by case.

    Prints how their machines differ. For each case it prints the change in latency and the change in kernel
    time, each with a verdict. At the end it prints the geometric mean of the changes.
    """
    from cpugpu_tui.cli.history.past_runs import say_remark
    from cpugpu_tui.cli.output.json_lines import print_json
    from cpugpu_tui.cli.output.tables import show_comparison
    from cpugpu_tui.compare.comparison import compare_series, usual_bands
    from cpugpu_tui.compare.series import series_in
    from cpugpu_tui.config.parsing import parse_bands
    from cpugpu_tui.render.comparison import comparison_data

    first, second = (series_in(name, database, say_remark) for name in (base, new))
    usual = usual_bands(first, second)
    bands = parse_bands(band, usual) if band is not None else usual
    found = compare_series(first, second, bands)
    if json:
        print_json(comparison_data(found))
    else:
        show_comparison(found)
