"""`cpugpu-tui compare` and `baseline`: two series case by case, and names for series."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cpugpu_tui.cli import options as opt
from cpugpu_tui.cli.output.printing import plain, print_json, tell
from cpugpu_tui.errors import UnfitError, UsageError

if TYPE_CHECKING:
    from cpugpu_tui.compare.series import Series
    from cpugpu_tui.store import Store

commands = typer.Typer()


class CompareGiven(opt.Given):
    """The options of `compare` and `baseline`."""

    base: Annotated[str, opt.argument("BASE", f"Series to compare against. {opt.SERIES}")]
    new: Annotated[str, opt.argument("NEW", "Series to judge. It takes the same forms as BASE.")] = "latest"
    name: Annotated[str | None, opt.argument("NAME", "Baseline to create or show.", "all, listed")] = None
    run: Annotated[str | None, opt.argument("RUN", "Any run of the series that becomes the baseline.")] = None


@opt.takes(commands.command(), CompareGiven, "base new band json database")
def compare(given: CompareGiven) -> None:
    """Compare two series of runs, case by case.

    Prints how their machines differ. For each case it prints the change in latency and the change in kernel
    time, each with a verdict. At the end it prints the geometric mean of the changes.
    """
    from cpugpu_tui.cli.history.past_runs import series_in
    from cpugpu_tui.cli.output.tables import show_comparison
    from cpugpu_tui.compare.comparison import compare_series, usual_bands
    from cpugpu_tui.config.parsing import parse_bands
    from cpugpu_tui.render.comparison import comparison_data

    first, second = (series_in(name, given.database) for name in (given.base, given.new))
    usual = usual_bands(first, second)
    bands = parse_bands(given.band, usual) if given.band is not None else usual
    found = compare_series(first, second, bands)
    if given.json:
        print_json(comparison_data(found))
    else:
        show_comparison(found)


@opt.takes(commands.command(), CompareGiven, "name run json database")
def baseline(given: CompareGiven) -> None:
    """Name a series of runs as a baseline, or list the baselines.

    `compare` and `gate` take the name. Without RUN, nothing is changed.
    """
    from cpugpu_tui.cli.history.past_runs import reading
    from cpugpu_tui.compare.series import checked_baseline

    name = given.name
    if name is not None and given.run is not None:
        _set_baseline(name, given.run, given.database, as_json=given.json)
        return
    with reading(given.database, must_exist=True) as store:
        known = store.baselines()
        if name is not None and name not in known:
            checked_baseline(name)
            raise UsageError(f"Unknown baseline {name!r}.", f"Create it with `cpugpu-tui baseline {name} latest`.")
        for each, series_id in known.items():
            if name in (None, each):
                _print_baseline(store, each, series_id, as_json=given.json)
    if not known and not given.json:
        tell("No baselines yet. Create one with `cpugpu-tui baseline main latest`.")


def _set_baseline(name: str, run_name: str, database: Path | None, *, as_json: bool) -> None:
    from cpugpu_tui.analysis.compare import GATE_RUNS
    from cpugpu_tui.cli.history.past_runs import writing
    from cpugpu_tui.compare.series import checked_baseline, series_of_id
    from cpugpu_tui.render.comparison import left_out, series_text

    checked_baseline(name)
    with writing(database) as store:
        series_id = store.series_of(store.find(run_name))
        series = series_of_id(store, series_id, typed=run_name)
        _require_times(series)
        store.set_baseline(name, series_id)
        if as_json:
            _print_baseline(store, name, series_id, as_json=True)
            return
    tell(plain(f"Baseline {name} is {series_text(series)}."))
    if without := left_out(series):
        tell(plain(without))
    if (count := sum(run.has_times for run in series.runs)) < GATE_RUNS:
        runs = "1 run" if count == 1 else f"{count} runs"
        tell(f"`gate` needs {GATE_RUNS} runs, and this series has {runs}. Create one with --repeat {GATE_RUNS}.")


def _require_times(series: Series) -> None:
    """Refuse a baseline without any time.

    Raises:
        UnfitError: in every case, threads lacked a core.
    """
    from cpugpu_tui.compare.series import free_cores_remedy

    if series.starved_cases[0] and not any(run.has_times for run in series.runs):
        raise UnfitError(
            f"{series.text.capitalize()} cannot be a baseline: in every case, threads lacked a core.",
            free_cores_remedy(case.case.threads for run in series.runs for case in run.cases.values() if case.starved),
        )


def _print_baseline(store: Store, name: str, series_id: str, *, as_json: bool) -> None:
    from cpugpu_tui.compare.series import series_of_id
    from cpugpu_tui.machine.text import printable
    from cpugpu_tui.render.comparison import series_text

    runs = store.runs_of(series_id)
    if as_json:
        print_json({"name": name, "series_id": series_id, "run_ids": runs})
    elif runs:
        tell(plain(f"{printable(name)}: {series_text(series_of_id(store, series_id))}"))
    else:
        tell(plain(f"{printable(name)}: no finished run"))
